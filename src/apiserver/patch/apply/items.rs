//! Items of lists that are sets or maps, by what identifies them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    super::schema::{List, Relation, Types},
    element::{Element, Scalar},
};

/// What identifies `item` in a list; an error in the words of structured-merge-diff.
pub(super) fn element(types: &Types, list: &List, item: &Value) -> Result<Element, String> {
    match &list.relation {
        Relation::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        Relation::Set => match item {
            Value::Object(_) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            Value::Array(_) => {
                Err("not supported: associative list with lists as elements".to_owned())
            }
            Value::Null => Err(
                "associative list without keys has an element that's an explicit null".to_owned(),
            ),
            value => Ok(Element::Value(Scalar(value.clone()))),
        },
        Relation::Keyed(keys) => {
            let object = match item {
                Value::Object(object) => object,
                Value::Null => {
                    return Err("associative list with keys may not have a null element".to_owned());
                }
                _ => {
                    return Err(
                        "associative list with keys may not have non-map elements".to_owned()
                    );
                }
            };
            let fields = types.get(list.item).map.as_ref().map(|map| &map.fields);
            let default = |key: &String| fields?.get(key)?.default.clone();
            let key: Vec<(String, Value)> = keys
                .iter()
                .filter_map(|key| {
                    let value = object.get(key).cloned().or_else(|| default(key))?;
                    Some((key.clone(), value))
                })
                .collect();
            if key.is_empty() {
                let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
                return Err(format!(
                    "associative list with keys has an element that omits all key fields [{}] \
                     (and doesn't have default values for any key fields)",
                    keys.join(" ")
                ));
            }
            Ok(Element::key(key))
        }
    }
}

/// The items of a list in their order, and each by what identifies it (several where it is there
/// twice). Items that nothing identifies are left out.
pub(super) struct Index<'a> {
    pub(super) order: Vec<Element>,
    pub(super) by: BTreeMap<Element, Vec<&'a Value>>,
}

impl<'a> Index<'a> {
    pub(super) fn new(types: &Types, list: &List, items: Option<&'a Vec<Value>>) -> Self {
        let mut index = Self {
            order: Vec::new(),
            by: BTreeMap::new(),
        };
        for item in items.into_iter().flatten() {
            if let Ok(element) = element(types, list, item) {
                index.order.push(element.clone());
                index.by.entry(element).or_default().push(item);
            }
        }
        index
    }

    /// The item, if it is there exactly once.
    pub(super) fn single(&self, element: &Element) -> Option<&'a Value> {
        match self.by.get(element)?.as_slice() {
            [one] => Some(one),
            _ => None,
        }
    }
}
