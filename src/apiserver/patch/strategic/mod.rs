//! Kubernetes' strategic merge patch.
//!
//! A merge patch that knows which lists are merged and by which key, with directives: `$patch` in an
//! object, `$retainKeys` beside its fields, `$deleteFromPrimitiveList/x` and `$setElementOrder/x`
//! beside a list `x`.

mod lists;
mod order;

use serde_json::{Map as Object, Value};

use super::{
    ApiError, MergeSchema,
    go::go,
    schema::{DEDUCED, Id, Strategy, Types, UNTYPED},
};

const PATCH: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_FROM: &str = "$deleteFromPrimitiveList";
const SET_ORDER: &str = "$setElementOrder";

type Result<T> = std::result::Result<T, Refused>;

/// What is wrong with a patch, in a real server's words.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// The rest, which a real server takes for a fault of its own.
    #[error("{0}")]
    Other(String),
}

impl From<Refused> for ApiError {
    fn from(refused: Refused) -> Self {
        let message = refused.to_string();
        match refused {
            Refused::RetainKeys | Refused::PrimitiveList | Refused::ElementOrder => {
                Self::bad_request(message)
            }
            Refused::ListOfLists => super::json::refused(),
            Refused::Other(_) => Self::new(500, "", message),
        }
    }
}

/// Kubernetes' strategic merge, with its `$patch`, `$deleteFromPrimitiveList`, `$setElementOrder`, `$retainKeys`.
/// A patch that is refused changes nothing.
pub(crate) fn strategic(
    target: &mut Value,
    patch: &Value,
    schema: &MergeSchema,
) -> std::result::Result<(), ApiError> {
    if patch.is_null() {
        return Ok(());
    }
    let Value::Object(patch) = patch else {
        return Err(ApiError::bad_request(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            super::go::go_kind(patch)
        )));
    };
    let original = target.as_object().cloned().unwrap_or_default();
    let merged = merge_object(&schema.types, schema.root, original, patch.clone())?;
    *target = Value::Object(merged);
    Ok(())
}

/// How the field `name` of a type merges: its type and its strategy.
fn field(types: &Types, of: Id, name: &str) -> Result<(Id, Strategy)> {
    let Some(map) = &types.get(of).map else {
        return Ok((UNTYPED, Strategy::Default));
    };
    match (map.fields.get(name), map.rest) {
        (Some(field), _) => Ok((field.of, field.strategy.clone())),
        (None, Some(rest)) => Ok((rest, Strategy::Default)),
        (None, None) => Err(Refused::Other(format!(
            "unable to find api field in struct {} for the json field {name:?}",
            map.name
        ))),
    }
}

/// The type of the items of a list.
fn item(types: &Types, of: Id) -> Id {
    types
        .get(of)
        .list
        .as_ref()
        .map_or(DEDUCED, |list| list.item)
}

fn merge_object(
    types: &Types,
    of: Id,
    mut original: Object<String, Value>,
    mut patch: Object<String, Value>,
) -> Result<Object<String, Value>> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Object::new()),
            _ => Err(Refused::Other(format!(
                "unknown patch type: {} in map: {}",
                go(directive),
                go(&Value::Object(patch.clone())),
            ))),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order::apply(types, of, &mut original, &mut patch)?;
    for (key, value) in patch {
        if let Some(name) = key.strip_prefix(DELETE_FROM) {
            let name = name.strip_prefix('/').ok_or(Refused::PrimitiveList)?;
            if let (Some(Value::Array(list)), Value::Array(gone)) = (original.get_mut(name), &value)
            {
                list.retain(|item| !gone.contains(item));
            }
            continue;
        }
        if value.is_null() {
            original.remove(&key);
            continue;
        }
        let merged = match (original.remove(&key), value) {
            (Some(Value::Object(original)), Value::Object(patch)) => {
                match field(types, of, &key)? {
                    (_, Strategy::Replace) => Some(Value::Object(patch)),
                    (of, _) => Some(Value::Object(merge_object(types, of, original, patch)?)),
                }
            }
            (Some(Value::Array(original)), Value::Array(patch)) => match field(types, of, &key)? {
                (of, Strategy::Merge(key)) => {
                    let item = item(types, of);
                    let merged = lists::merge(types, item, key.as_deref(), original, patch)?;
                    Some(Value::Array(merged))
                }
                _ => Some(Value::Array(patch)),
            },
            (Some(old), new) if same_sort(&old, &new) => without_directives(new),
            (_, new) => without_directives(without_nulls(new)),
        };
        if let Some(merged) = merged {
            original.insert(key, merged);
        }
    }
    Ok(original)
}

fn same_sort(a: &Value, b: &Value) -> bool {
    std::mem::discriminant(a) == std::mem::discriminant(b)
}

/// Takes fields that the patch does not name in `$retainKeys` from `original`.
fn retain_keys(
    original: &mut Object<String, Value>,
    patch: &mut Object<String, Value>,
) -> Result<()> {
    let Some(keys) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = keys else {
        return Err(Refused::RetainKeys);
    };
    let kept = |name: &String| keys.iter().any(|key| key.as_str() == Some(name));
    let directive = |name: &str| name.starts_with(DELETE_FROM) || name.starts_with(SET_ORDER);
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && !directive(name) && !kept(name))
    {
        return Err(Refused::RetainKeys);
    }
    original.retain(|name, _| kept(name));
    Ok(())
}

/// Whether a key is about another one.
fn is_directive(key: &str) -> bool {
    key == RETAIN_KEYS || key.starts_with(DELETE_FROM) || key.starts_with(SET_ORDER)
}

/// `value` without directives and what carries a `$patch`; `None` if it does itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(object) if object.contains_key(PATCH) => None,
        Value::Object(object) => Some(
            object
                .into_iter()
                .filter(|(key, _)| !is_directive(key))
                .filter_map(|(key, value)| Some((key, without_directives(value)?)))
                .collect(),
        ),
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

/// `value` without fields that are null.
fn without_nulls(mut value: Value) -> Value {
    super::schema::drop_nulls(&mut value);
    value
}

#[cfg(test)]
mod tests;
