//! What changed between two values of a type.

use serde_json::Value;

use super::{
    super::schema::{Id, List, Map, Relation, Shape, Types, items, object},
    element::Element,
    items::Index,
    set::Set,
};

/// The paths that differ. None is in two of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Comparison {
    pub(super) added: Set,
    pub(super) modified: Set,
    pub(super) removed: Set,
}

/// Compares two values.
pub(super) fn compare(types: &Types, id: Id, old: &Value, new: &Value) -> Comparison {
    let mut walker = Walker {
        types,
        path: Vec::new(),
        found: Comparison::default(),
    };
    walker.value(id, Some(old), Some(new));
    walker.found
}

struct Walker<'a> {
    types: &'a Types,
    path: Vec<Element>,
    found: Comparison,
}

impl Walker<'_> {
    fn value(&mut self, id: Id, old: Option<&Value>, new: Option<&Value>) {
        if old == new {
            return;
        }
        let atom = self.types.get(id);
        let (before, after) = (atom.shape(old), atom.shape(new));
        let leaf = if new.is_none() {
            self.shape(before, old, new)
        } else {
            if old.is_some() && !before.like(&after) {
                self.shape(before, old, new);
            }
            self.shape(after, old, new)
        };
        if !leaf {
            match (old, new) {
                (None, _) => self.found.added.insert(&self.path),
                (_, None) => self.found.removed.insert(&self.path),
                _ => {}
            }
        }
    }

    /// Whether it is one value, which has been compared as such.
    fn shape(&mut self, shape: Shape<'_>, old: Option<&Value>, new: Option<&Value>) -> bool {
        // Two empty ones are one value, so that null and empty stay apart.
        match shape {
            Shape::Map(map) => {
                let full = |value| object(value).is_some_and(|object| !object.is_empty());
                if !map.atomic && (full(old) || full(new)) {
                    self.map(map, old, new);
                    return false;
                }
            }
            Shape::List(list) => {
                let full = |value| items(value).is_some_and(|items| !items.is_empty());
                if list.relation != Relation::Atomic && (full(old) || full(new)) {
                    self.list(list, old, new);
                    return false;
                }
            }
            Shape::Scalar(_) => {}
        }
        match (old, new) {
            (None, _) => self.found.added.insert(&self.path),
            (_, None) => self.found.removed.insert(&self.path),
            (Some(old), Some(new)) if old != new => self.found.modified.insert(&self.path),
            _ => {}
        }
        true
    }

    fn below(&mut self, element: Element, id: Id, old: Option<&Value>, new: Option<&Value>) {
        self.path.push(element);
        self.value(id, old, new);
        self.path.pop();
    }

    fn map(&mut self, map: &Map, old: Option<&Value>, new: Option<&Value>) {
        let (old, new) = (object(old), object(new));
        for (key, value) in old.into_iter().flatten() {
            let new = new.and_then(|new| new.get(key));
            self.below(Element::field(key), map.of(key), Some(value), new);
        }
        for (key, value) in new.into_iter().flatten() {
            if old.is_none_or(|old| !old.contains_key(key)) {
                self.below(Element::field(key), map.of(key), None, Some(value));
            }
        }
    }

    fn list(&mut self, list: &List, old: Option<&Value>, new: Option<&Value>) {
        let old = Index::new(self.types, list, items(old));
        let new = Index::new(self.types, list, items(new));
        let added = new
            .by
            .keys()
            .filter(|element| !old.by.contains_key(element));
        for element in old.by.keys().chain(added) {
            let of = |index: &Index<'_>| index.by.get(element).map_or(0, Vec::len);
            let first = |index: &Index<'_>| index.by.get(element).map(|all| all[0].clone());
            let mut path = self.path.clone();
            path.push(element.clone());
            // Items that are there twice are one value together, marked at the item itself.
            match (of(&old), of(&new)) {
                (0 | 1, 0 | 1) => {
                    let (old, new) = (old.single(element), new.single(element));
                    self.below(element.clone(), list.item, old, new);
                }
                (2.., 2..) => {
                    if old.by[element] != new.by[element] {
                        self.found.modified.insert(&path);
                    }
                }
                (2.., _) => {
                    if let Some(new) = first(&new) {
                        self.below(element.clone(), list.item, None, Some(&new));
                    }
                    self.found.removed.insert(&path);
                }
                (_, _) => {
                    if let Some(old) = first(&old) {
                        self.below(element.clone(), list.item, Some(&old), None);
                    }
                    self.found.added.insert(&path);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::schema::MergeSchema, *};

    fn differ(kind: &str, old: &Value, new: &Value) -> [Value; 3] {
        let schema = MergeSchema::builtin("", kind);
        let found = compare(&schema.types, schema.root, old, new);
        [
            found.added.to_fields(),
            found.modified.to_fields(),
            found.removed.to_fields(),
        ]
    }

    #[test]
    fn maps_that_come_are_added_with_their_keys() {
        let old = json!({"metadata": {"labels": {"a": "1"}}});
        let new = json!({"metadata": {"labels": {"a": "2"}, "annotations": {"x": "y"}}});
        let [added, modified, removed] = differ("ConfigMap", &old, &new);
        assert_eq!(
            added,
            json!({"f:metadata": {"f:annotations": {".": {}, "f:x": {}}}})
        );
        assert_eq!(modified, json!({"f:metadata": {"f:labels": {"f:a": {}}}}));
        assert_eq!(removed, json!({}));
    }

    #[test]
    fn items_are_found_by_their_keys_wherever_they_stand() {
        let port = |port: u16, name: &str| json!({"containerPort": port, "name": name});
        let pod =
            |ports: Vec<Value>| json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
        let old = pod(vec![port(1, "a"), port(2, "b")]);
        let new = pod(vec![port(2, "c"), port(3, "d")]);
        let [added, modified, removed] = differ("Pod", &old, &new);
        let at = |fields: Value| json!({"f:spec": {"f:containers": {"k:{\"name\":\"c\"}": {"f:ports": fields}}}});
        let whole = json!({".": {}, "f:containerPort": {}, "f:name": {}});
        assert_eq!(
            added,
            at(json!({r#"k:{"containerPort":3,"protocol":"TCP"}"#: whole}))
        );
        assert_eq!(
            modified,
            at(json!({r#"k:{"containerPort":2,"protocol":"TCP"}"#: {"f:name": {}}}))
        );
        assert_eq!(
            removed,
            at(json!({r#"k:{"containerPort":1,"protocol":"TCP"}"#: whole}))
        );
    }

    #[test]
    fn atomic_ones_change_as_a_whole() {
        let old = json!({"spec": {"nodeSelector": {"a": "1"}, "tolerations": []}});
        let new = json!({"spec": {"nodeSelector": {"a": "1", "b": "2"}}});
        let [added, modified, removed] = differ("Pod", &old, &new);
        assert_eq!(added, json!({}));
        assert_eq!(modified, json!({"f:spec": {"f:nodeSelector": {}}}));
        assert_eq!(removed, json!({"f:spec": {"f:tolerations": {}}}));
    }
}
