//! Lists that are sets or maps hold nothing twice.

use serde_json::{Map, Value, json};

use super::super::node::{ListType, Node};
use super::cause;
use crate::apiserver::Cause;

/// Duplicates in lists of type set or map, anywhere in a value. `path` is empty at the root.
pub(in crate::apiserver::schema) fn check(
    node: &Node,
    value: &Value,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    if let Value::Array(items) = value {
        match &node.list_type {
            ListType::Atomic => {}
            ListType::Set => duplicates(items, path, causes),
            ListType::Map(keys) => mapped(keys, items, path, causes),
        }
    }
    node.each_below(value, path, |inner, value, path| {
        check(inner, value, path, causes);
    });
}

fn mapped(keys: &[String], items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    if let Some((i, item)) = items
        .iter()
        .enumerate()
        .find(|(_, item)| !item.is_object() && !item.is_null())
    {
        causes.push(cause(
            "FieldValueInvalid",
            format!("{path}[{i}]"),
            Some(item),
            "must be an object for an array of list-type map",
        ));
        return;
    }
    let identities: Vec<Value> = items
        .iter()
        .map(|item| {
            let of = |key: &String| Some((key.clone(), item.get(key)?.clone()));
            json!(keys.iter().filter_map(of).collect::<Map<_, _>>())
        })
        .collect();
    duplicates(&identities, path, causes);
}

/// Each value that is there more than once, at its second place.
fn duplicates(items: &[Value], path: &str, causes: &mut Vec<Cause>) {
    for (i, item) in items.iter().enumerate() {
        let before = items[..i].iter().filter(|other| *other == item).count();
        if before == 1 {
            causes.push(cause(
                "FieldValueDuplicate",
                format!("{path}[{i}]"),
                Some(item),
                "",
            ));
        }
    }
}
