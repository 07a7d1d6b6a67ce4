//! What the metadata of any object may be, in the words of apimachinery's validation.

use serde_json::{Value, json};

use super::metadata::{FOREGROUND, ORPHAN};
use super::names;
use super::object::{text, texts};
use super::served::Served;
use crate::apiserver::Cause;

/// Most bytes in all annotations of an object.
const ANNOTATIONS_LIMIT: usize = 256 << 10;
/// Finalizers without a domain that built-in kinds may have.
const STANDARD_FINALIZERS: [&str; 3] = [ORPHAN, FOREGROUND, "kubernetes"];

/// What is wrong with the metadata of any object.
pub(super) fn validate(served: &Served, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(object, "name");
    let generate = text(object, "generateName");
    let check = |value: &str| {
        if served.traits.path_names {
            names::path_segment(value)
        } else if served.traits.label_names {
            names::label(value)
        } else {
            names::subdomain(value)
        }
    };
    if !generate.is_empty() {
        let probe = format!("{}a", generate.trim_end_matches('-'));
        for problem in check(&probe) {
            causes.push(Cause::invalid(
                "metadata.generateName",
                &generate.into(),
                &problem,
            ));
        }
    }
    if name.is_empty() {
        causes.push(Cause::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for problem in check(name) {
            causes.push(Cause::invalid("metadata.name", &name.into(), &problem));
        }
    }
    let namespace = text(object, "namespace");
    if served.info.namespaced {
        for problem in names::label(namespace) {
            causes.push(Cause::invalid(
                "metadata.namespace",
                &namespace.into(),
                &problem,
            ));
        }
    }
    let metadata = &object["metadata"];
    labels(&metadata["labels"], "metadata.labels", &mut causes);
    annotations(&metadata["annotations"], &mut causes);
    owners(&metadata["ownerReferences"], &mut causes);
    let finalizers = texts(object, "finalizers");
    for (index, finalizer) in finalizers.iter().enumerate() {
        let value = finalizer.as_str().into();
        for problem in names::qualified(finalizer) {
            causes.push(Cause::invalid("metadata.finalizers", &value, &problem));
        }
        let standard = STANDARD_FINALIZERS.contains(&finalizer.as_str()) || finalizer.contains('/');
        if !standard && served.custom.is_none() {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            causes.push(Cause::invalid(format!("metadata.finalizers[{index}]"), &value, why));
        }
    }
    if finalizers.iter().any(|f| f == ORPHAN) && finalizers.iter().any(|f| f == FOREGROUND) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        causes.push(Cause::invalid(
            "metadata.finalizers",
            &metadata["finalizers"],
            &why,
        ));
    }
    causes
}

/// What is wrong with labels.
pub(super) fn labels(labels: &Value, path: &str, causes: &mut Vec<Cause>) {
    for (key, value) in labels.as_object().into_iter().flatten() {
        for problem in names::label_key(key) {
            causes.push(Cause::invalid(path, &key.as_str().into(), &problem));
        }
        if let Some(problem) = value.as_str().and_then(names::label_value) {
            causes.push(Cause::invalid(path, value, &problem));
        }
    }
}

fn annotations(annotations: &Value, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for (key, value) in annotations.as_object().into_iter().flatten() {
        size += key.len() + value.as_str().map_or(0, str::len);
        for problem in names::qualified(&key.to_lowercase()) {
            causes.push(Cause::invalid(
                "metadata.annotations",
                &key.as_str().into(),
                &problem,
            ));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".to_owned(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
}

fn owners(owners: &Value, causes: &mut Vec<Cause>) {
    let mut controller: Option<String> = None;
    for (index, owner) in owners.as_array().into_iter().flatten().enumerate() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if owner[field].as_str().unwrap_or_default().is_empty() {
                let path = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::required(path, "must not be empty"));
            }
        }
        let version = owner["apiVersion"].as_str().unwrap_or_default();
        if version.matches('/').count() > 1 || version.ends_with('/') {
            let path = format!("metadata.ownerReferences[{index}].apiVersion");
            let why = "must be <group>/<version> or <version>";
            causes.push(Cause::invalid(path, &version.into(), why));
        }
        if version == "v1" && owner["kind"] == "Event" {
            let path = format!("metadata.ownerReferences[{index}]");
            let why = "/v1, Kind=Event is disallowed from being an owner";
            causes.push(Cause::invalid(path, owner, why));
        }
        if owner["controller"] == json!(true) {
            let text = |field: &str| owner[field].as_str().unwrap_or_default();
            let this = format!("{}/{}", text("kind"), text("name"));
            if let Some(first) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                );
                causes.push(Cause::invalid("metadata.ownerReferences", owners, &why));
            } else {
                controller = Some(this);
            }
        }
    }
}

/// What an update of metadata may not do.
pub(super) fn validate_update(new: &Value, old: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if !old["metadata"]["deletionTimestamp"].is_null() {
        let before = texts(old, "finalizers");
        let mut added = texts(new, "finalizers");
        added.retain(|finalizer| !before.contains(finalizer));
        if !added.is_empty() {
            added.sort();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added
                    .iter()
                    .map(|f| format!("{f:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            );
            causes.push(Cause::forbidden("metadata.finalizers", &why));
        }
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        let (new, old) = (&new["metadata"][field], &old["metadata"][field]);
        if new != old {
            causes.push(Cause::invalid(format!("metadata.{field}"), new, "field is immutable"));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finalizers_can_only_go_once_it_is_being_deleted() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b"]}});
        let new = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}});
        assert_eq!(validate_update(&new, &old)[0].field, "metadata.finalizers");
        assert_eq!(validate_update(&old, &new), []);
    }
}
