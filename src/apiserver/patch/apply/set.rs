//! Sets of fields, and `fieldsV1`.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map as Object, Value};

use super::{
    super::schema::{Id, Map, Types},
    element::{Element, Unreadable},
};

/// A set of paths. A path in it says nothing of those above or below.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Set {
    /// Those that end here.
    pub(super) members: BTreeSet<Element>,
    /// Those that go on. None of them is empty.
    pub(super) children: BTreeMap<Element, Set>,
}

impl Set {
    /// Whether nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.values().all(Self::is_empty)
    }

    /// Adds a path; the empty path, the whole object, belongs to nobody.
    pub(super) fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether a path is in it.
    pub(super) fn contains(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.members.contains(last),
            [first, rest @ ..] => self
                .children
                .get(first)
                .is_some_and(|child| child.contains(rest)),
        }
    }

    /// Every path, each set's own before those below.
    pub(super) fn paths(&self) -> Vec<Vec<Element>> {
        let mut paths: Vec<Vec<Element>> = self
            .members
            .iter()
            .map(|member| vec![member.clone()])
            .collect();
        for (element, child) in &self.children {
            for path in child.paths() {
                paths.push(std::iter::once(element.clone()).chain(path).collect());
            }
        }
        paths
    }

    /// What is in either.
    #[must_use]
    pub(super) fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.add(other);
        all
    }

    /// Adds what is in `other`.
    pub(super) fn add(&mut self, other: &Self) {
        self.members.extend(other.members.iter().cloned());
        for (element, child) in &other.children {
            self.children.entry(element.clone()).or_default().add(child);
        }
    }

    /// What is in both.
    #[must_use]
    pub(super) fn intersection(&self, other: &Self) -> Self {
        Self {
            members: self.members.intersection(&other.members).cloned().collect(),
            children: self.map_children(|element, child| {
                Some(child.intersection(other.children.get(element)?))
            }),
        }
    }

    /// What is in `self` only.
    #[must_use]
    pub(super) fn difference(&self, other: &Self) -> Self {
        Self {
            members: self.members.difference(&other.members).cloned().collect(),
            children: self.map_children(|element, child| {
                Some(match other.children.get(element) {
                    Some(other) => child.difference(other),
                    None => child.clone(),
                })
            }),
        }
    }

    fn map_children(
        &self,
        change: impl Fn(&Element, &Self) -> Option<Self>,
    ) -> BTreeMap<Element, Self> {
        self.children
            .iter()
            .filter_map(|(element, child)| Some((element.clone(), change(element, child)?)))
            .filter(|(_, child)| !child.is_empty())
            .collect()
    }

    /// With each declared field that has something below it.
    #[must_use]
    pub(super) fn with_named(&self, types: &Types, of: Option<Id>) -> Self {
        let atom = of.map(|id| types.get(id));
        let map = atom.and_then(|atom| atom.map.as_ref());
        let declared = |element: &Element| match (element, map) {
            (Element::Field(name), Some(map)) => map.fields.contains_key(name),
            _ => false,
        };
        let below = |element: &Element| match element {
            Element::Field(name) => map.and_then(|map| below(map, name)),
            Element::Key(_) => atom.and_then(|atom| Some(atom.list.as_ref()?.item)),
            _ => None,
        };
        let mut members = self.members.clone();
        members.extend(
            self.children
                .keys()
                .filter(|element| declared(element))
                .cloned(),
        );
        let children = self
            .children
            .iter()
            .map(|(element, child)| (element.clone(), child.with_named(types, below(element))))
            .collect();
        Self { members, children }
    }

    /// Makes one path of those inside what has become atomic since they were written.
    pub(super) fn settle(&mut self, types: &Types, of: Id) {
        let atom = types.get(of);
        let mut whole = Vec::new();
        for (element, child) in &mut self.children {
            let below = match (element, &atom.map, &atom.list) {
                (Element::Field(name), Some(map), _) if !map.is_free() => below(map, name),
                (Element::Key(_), None, Some(list)) => Some(list.item),
                _ => None,
            };
            if let Some(below) = below {
                if types.get(below).is_atomic() {
                    whole.push(element.clone());
                } else {
                    child.settle(types, below);
                }
            }
        }
        for element in whole {
            self.children.remove(&element);
            self.members.insert(element);
        }
    }

    /// From `fieldsV1`.
    pub(super) fn parse(fields: &Value) -> Result<Self, Unreadable> {
        let mut set = Self::default();
        for (text, below) in fields.as_object().into_iter().flatten() {
            if text == "." {
                continue;
            }
            let Some(element) = Element::parse(text)? else {
                continue;
            };
            let child = Self::parse(below)?;
            let own = below
                .as_object()
                .is_none_or(|below| below.contains_key("."));
            if own || child.is_empty() {
                set.members.insert(element.clone());
            }
            if !child.is_empty() {
                set.children.entry(element).or_default().add(&child);
            }
        }
        Ok(set)
    }

    /// As `fieldsV1`.
    pub(super) fn to_fields(&self) -> Value {
        let mut fields = Object::new();
        for member in &self.members {
            fields.insert(member.text(), Value::Object(Object::new()));
        }
        for (element, child) in &self.children {
            let mut below = child.to_fields();
            if self.members.contains(element) {
                below["."] = Value::Object(Object::new());
            }
            fields.insert(element.text(), below);
        }
        Value::Object(fields)
    }
}

fn below(map: &Map, name: &str) -> Option<Id> {
    map.fields.get(name).map(|field| field.of).or(map.rest)
}

/// A set of these paths of fields.
impl<'a> FromIterator<&'a [&'a str]> for Set {
    fn from_iter<T: IntoIterator<Item = &'a [&'a str]>>(paths: T) -> Self {
        let mut set = Self::default();
        for path in paths {
            let path: Vec<Element> = path.iter().map(|name| Element::field(*name)).collect();
            set.insert(&path);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn set(fields: &Value) -> Set {
        Set::parse(fields).expect("reads")
    }

    #[test]
    fn fields_are_read_and_written() {
        let fields = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {
                ".": {},
                "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}},
            }},
        });
        let read = set(&fields);
        assert_eq!(read.to_fields(), fields);
        let labels = [Element::field("metadata"), Element::field("labels")];
        assert!(read.contains(&labels));
        assert!(!read.contains(&labels[..1]));
        assert_eq!(read.paths().len(), 5);
    }

    #[test]
    fn a_parent_is_not_its_children() {
        let parent = set(&json!({"f:a": {".": {}, "f:b": {}}}));
        let child = set(&json!({"f:a": {"f:b": {}}}));
        assert_eq!(parent.difference(&child), set(&json!({"f:a": {}})));
        assert_eq!(child.difference(&set(&json!({"f:a": {}}))), child);
    }

    fn sets() -> impl Strategy<Value = Set> {
        let name = prop_oneof![Just("a"), Just("b"), Just("c")];
        let path = prop::collection::vec(name, 1..4);
        prop::collection::vec(path, 0..8)
            .prop_map(|paths| paths.iter().map(Vec::as_slice).collect())
    }

    proptest! {
        #[test]
        fn the_laws_of_sets_hold(a in sets(), b in sets()) {
            prop_assert_eq!(set(&a.to_fields()), a.clone());
            prop_assert_eq!(a.union(&b), b.union(&a));
            prop_assert_eq!(a.intersection(&b), b.intersection(&a));
            prop_assert!(a.difference(&b).intersection(&b).is_empty());
            prop_assert_eq!(a.difference(&b).union(&a.intersection(&b)), a.clone());
            for path in a.paths() {
                prop_assert!(a.contains(&path));
                prop_assert!(a.union(&b).contains(&path));
                prop_assert_eq!(a.intersection(&b).contains(&path), b.contains(&path));
            }
        }
    }
}
