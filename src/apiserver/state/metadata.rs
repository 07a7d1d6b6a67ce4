//! What a server fills in, and keeps, of an object's metadata.

use serde_json::Value;

use super::object::{metadata, text};
use crate::apiserver::ApiError;

/// Longest name that a `generateName` may be completed to: a label, less the five letters.
const GENERATED_BASE: usize = 58;
/// Finalizer that orphans dependents.
pub(crate) const ORPHAN: &str = "orphan";
/// Finalizer that deletes dependents first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Sets the namespace of the request, or refuses another.
pub(super) fn ensure_namespace(
    object: &mut Value,
    namespace: Option<&str>,
) -> Result<(), ApiError> {
    let given = text(object, "namespace");
    match namespace {
        Some(namespace) if given.is_empty() => {
            metadata(object).insert("namespace".to_owned(), namespace.into());
        }
        Some(namespace) if given != namespace => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        None if !given.is_empty() => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        _ => {}
    }
    Ok(())
}

/// Refuses a body whose name is not the path's.
pub(super) fn check_name(object: &Value, name: &str) -> Result<(), ApiError> {
    let given = text(object, "name");
    if given == name {
        return Ok(());
    }
    let why = if given.is_empty() {
        format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    } else {
        format!("the name of the object ({given}) does not match the name on the URL ({name})")
    };
    Err(ApiError::bad_request(why))
}

/// Fills in what only a server may say of a new object.
pub(super) fn initialise(
    object: &mut Value,
    uid: &str,
    now: &str,
    suffix: impl FnOnce() -> String,
) {
    let metadata = metadata(object);
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        metadata.remove(field);
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), now.into());
    let unnamed = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .is_empty();
    if let (true, Some(base)) = (
        unnamed,
        metadata.get("generateName").and_then(Value::as_str),
    ) && !base.is_empty()
    {
        let mut end = base.len().min(GENERATED_BASE);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        let name = format!("{}{}", &base[..end], suffix());
        metadata.insert("name".to_owned(), name.into());
    }
}

/// Keeps what an update can't change. What it may leave out, but not say otherwise, is judged later.
pub(super) fn preserve(new: &mut Value, old: &Value) {
    let deleting = !old["metadata"]["deletionTimestamp"].is_null();
    let kept = [
        ("generation", true),
        ("creationTimestamp", true),
        ("selfLink", true),
        ("deletionTimestamp", deleting),
        (
            "deletionGracePeriodSeconds",
            deleting && new["metadata"]["deletionGracePeriodSeconds"].is_null(),
        ),
        ("uid", text(new, "uid").is_empty()),
    ];
    let metadata = metadata(new);
    for (field, keep) in kept {
        if keep {
            match old["metadata"].get(field) {
                Some(value) => metadata.insert(field.to_owned(), value.clone()),
                None => metadata.remove(field),
            };
        }
    }
}

/// Drops what JSON may say but Kubernetes does not store: nulls and empty maps in the metadata.
pub(super) fn tidy(object: &mut Value) {
    let metadata = metadata(object);
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::String(text) => !text.is_empty(),
        _ => true,
    });
    for field in ["labels", "annotations"] {
        if let Some(map) = metadata.get_mut(field).and_then(Value::as_object_mut) {
            for value in map.values_mut().filter(|value| value.is_null()) {
                *value = "".into();
            }
        }
    }
}

/// Drops owner references that are there twice, with a warning.
pub(super) fn deduplicate_owners(object: &mut Value) -> Option<String> {
    let owners = object["metadata"].get_mut("ownerReferences")?.as_array_mut()?;
    let mut seen: Vec<Value> = Vec::new();
    let mut twice: Vec<&str> = Vec::new();
    owners.retain(|owner| {
        let new = !seen.contains(owner);
        seen.push(owner.clone());
        new
    });
    for (index, owner) in seen.iter().enumerate() {
        let uid = owner["uid"].as_str().unwrap_or_default();
        if seen[..index].contains(owner) && !twice.contains(&uid) {
            twice.push(uid);
        }
    }
    (!twice.is_empty()).then(|| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in \
             1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate \
             UID(s) observed: {}",
            twice.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_come_from_their_beginning() {
        let mut object = json!({"metadata": {"generateName": "a-", "deletionTimestamp": "x"}});
        initialise(&mut object, "u", "t", || "bcdfg".to_owned());
        assert_eq!(
            object,
            json!({"metadata": {"generateName": "a-", "name": "a-bcdfg", "uid": "u", "creationTimestamp": "t"}})
        );
    }

    #[test]
    fn an_update_keeps_what_is_the_servers() {
        let old = json!({"metadata": {"uid": "u", "generation": 2, "creationTimestamp": "t"}});
        let mut new = json!({"metadata": {"generation": 7, "creationTimestamp": "x"}});
        preserve(&mut new, &old);
        assert_eq!(new, old);
    }
}
