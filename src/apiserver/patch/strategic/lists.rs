//! Lists that are merged.

use serde_json::{Map as Object, Value};

use super::{super::go::go, Id, PATCH, Refused, Result, Types, merge_object, order};

/// Merges `patch` into `original`: objects by `key`, scalars as a set.
pub(super) fn merge(
    types: &Types,
    item: Id,
    key: Option<&str>,
    original: Vec<Value>,
    patch: Vec<Value>,
) -> Result<Vec<Value>> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    let objects = all_objects(original.iter().chain(&patch))?;
    if !objects {
        let mut merged: Vec<Value> = Vec::new();
        for value in original.iter().chain(&patch) {
            if !merged.contains(value) {
                merged.push(value.clone());
            }
        }
        let (ours, theirs) = order::split(merged, &patch, None)?;
        return Ok(order::arrange(ours, theirs, &patch, &original, None));
    }
    let key =
        key.ok_or_else(|| Refused::Other("cannot merge lists without merge key".to_owned()))?;
    let (base, patch) = directives(original, patch, key)?;
    let mut merged = base.clone();
    for value in &patch {
        let Value::Object(object) = value else {
            continue;
        };
        let id = object.get(key).ok_or_else(|| no_key(object, key))?;
        match merged.iter_mut().find(|value| value.get(key) == Some(id)) {
            Some(Value::Object(old)) => {
                let old_object = std::mem::take(old);
                *old = merge_object(types, item, old_object, object.clone())?;
            }
            _ => merged.push(value.clone()),
        }
    }
    let (ours, theirs) = order::split(merged, &patch, Some(key))?;
    Ok(order::arrange(ours, theirs, &patch, &base, Some(key)))
}

/// Obeys items with `$patch`: what is left of the list and of the patch.
fn directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let mut plain = Vec::new();
    let mut replace = false;
    for value in patch {
        match value
            .get(PATCH)
            .map(|directive| (directive, directive.as_str()))
        {
            None => plain.push(value),
            Some((_, Some("replace"))) => replace = true,
            Some((_, Some("delete"))) => match value.get(key) {
                Some(id) => original.retain(|item| item.get(key) != Some(id)),
                None => return Err(no_key(value.as_object().unwrap_or(&Object::new()), key)),
            },
            Some((_, Some("merge"))) => {
                return Err(Refused::Other(
                    "merging lists cannot yet be specified in the patch".to_owned(),
                ));
            }
            Some((directive, _)) => {
                return Err(Refused::Other(format!(
                    "unknown patch type: {} in map: {}",
                    go(directive),
                    go(&value)
                )));
            }
        }
    }
    if replace {
        Ok((plain, Vec::new()))
    } else {
        Ok((original, plain))
    }
}

/// Whether the items are objects, all of them or none.
pub(super) fn all_objects<'a>(items: impl Iterator<Item = &'a Value>) -> Result<bool> {
    let mut first: Option<&Value> = None;
    for item in items {
        if item.is_array() {
            return Err(Refused::ListOfLists);
        }
        match first {
            Some(first) if !super::same_sort(first, item) => {
                return Err(Refused::Other(format!(
                    "list element types are not identical: {} {}",
                    go(first),
                    go(item)
                )));
            }
            _ => first = Some(item),
        }
    }
    Ok(first.is_some_and(Value::is_object))
}

pub(super) fn no_key(object: &Object<String, Value>, key: &str) -> Refused {
    Refused::Other(format!(
        "map: {} does not contain declared merge key: {key}",
        go(&Value::Object(object.clone()))
    ))
}
