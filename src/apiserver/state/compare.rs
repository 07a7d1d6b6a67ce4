//! What an update changes: as far as its subresource allows, and whether it is anything at all.

use serde_json::Value;

use super::object::metadata;
use super::{Served, kinds};

/// Puts back what the subresource (or its absence) can't change.
pub(super) fn isolate(served: &Served, subresource: &str, new: &mut Value, old: &Value) {
    if subresource == "status" {
        let status = new.get("status").cloned();
        if served.custom.is_some() {
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            if let Some(managed) = managed {
                metadata(new).insert("managedFields".to_owned(), managed);
            }
        } else {
            let metadata = new["metadata"].take();
            *new = old.clone();
            new["metadata"] = metadata;
            kinds::isolate_status(&served.storage, new, old);
        }
        set(new, "status", status.as_ref());
    } else if served.traits.status && subresource.is_empty() {
        set(new, "status", old.get("status"));
    }
}

fn set(object: &mut Value, field: &str, value: Option<&Value>) {
    if let Some(object) = object.as_object_mut() {
        match value {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
}

/// Whether the generation rises: anything but metadata and status has changed, or the annotations of a
/// Deployment, which its controller copies.
pub(super) fn changed(served: &Served, new: &Value, old: &Value) -> bool {
    let ignored = |field: &str| {
        matches!(field, "metadata" | "apiVersion" | "kind")
            || (field == "status" && served.traits.status)
    };
    let annotations = |object: &Value| object["metadata"].get("annotations").cloned();
    if served.storage.as_ref() == "deployments.apps" && annotations(new) != annotations(old) {
        return true;
    }
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return true;
    };
    new.iter()
        .any(|(field, value)| !ignored(field) && old.get(field) != Some(value))
        || old
            .keys()
            .any(|field| !ignored(field) && !new.contains_key(field))
}

/// Whether two stored objects are the same but for their versions and the times of managed fields.
pub(super) fn same(new: &Value, old: &Value) -> bool {
    let ignored = |field: &str| matches!(field, "apiVersion" | "kind" | "metadata");
    let (Some(a), Some(b)) = (new.as_object(), old.as_object()) else {
        return false;
    };
    let body =
        |map: &serde_json::Map<String, Value>| map.keys().filter(|field| !ignored(field)).count();
    body(a) == body(b)
        && a.iter()
            .all(|(field, value)| ignored(field) || b.get(field) == Some(value))
        && same_metadata(&new["metadata"], &old["metadata"])
}

fn same_metadata(new: &Value, old: &Value) -> bool {
    let (Some(a), Some(b)) = (new.as_object(), old.as_object()) else {
        return false;
    };
    let versioned = |map: &serde_json::Map<String, Value>| {
        map.len() - usize::from(map.contains_key("resourceVersion"))
    };
    versioned(a) == versioned(b)
        && a.iter().all(|(field, value)| match field.as_str() {
            "resourceVersion" => true,
            "managedFields" => b
                .get(field)
                .is_some_and(|old| timeless(value) == timeless(old)),
            _ => b.get(field) == Some(value),
        })
}

/// Takes the time off what was written through `scale`, which a real server does not note, and so
/// puts it first.
pub(super) fn untimed(object: &mut Value) {
    let Some(entries) = object["metadata"]["managedFields"].as_array_mut() else {
        return;
    };
    for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
        if entry.get("subresource").is_some_and(|name| name == "scale") {
            entry.remove("time");
        }
    }
    entries.sort_by_key(|entry| (entry["operation"] != "Apply", !entry["time"].is_null()));
}

fn timeless(managed: &Value) -> Vec<Value> {
    let mut entries = managed.as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    entries
}
