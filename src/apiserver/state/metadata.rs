//! Rules for metadata: what a server fills in, what it keeps, what it refuses.

use serde_json::{Value, json};

use super::names;
use super::object::{metadata, text, texts};
use super::served::Served;
use crate::apiserver::{ApiError, Cause};

/// Most bytes in all annotations of an object.
const ANNOTATIONS_LIMIT: usize = 256 << 10;
/// Longest name that a `generateName` may be completed to: a label, less the five letters.
const GENERATED_BASE: usize = 58;
/// Finalizer that orphans dependents.
pub(crate) const ORPHAN: &str = "orphan";
/// Finalizer that deletes dependents first.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Checks `apiVersion` and `kind` of a body, where they are given, and sets them.
pub(super) fn check_type(served: &Served, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error",
            served.info.kind
        )));
    }
    let given = |field: &str| object[field].as_str().unwrap_or_default();
    let expected = served.api_version();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if served.custom.is_some() && kind.is_empty() {
        return Err(ApiError::bad_request(
            "Object 'Kind' is missing in the request body",
        ));
    }
    if !version.is_empty() && version != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({expected})"
        )));
    }
    if !kind.is_empty() && kind != served.info.kind {
        let expected = &served.info.kind;
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {expected}: the kind in the body is not {expected}",
            served.info.version
        )));
    }
    served.name_type(object);
    if !object["metadata"].is_object() && !object["metadata"].is_null() {
        return Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta",
            served.info.kind, served.info.version, served.info.kind
        )));
    }
    Ok(())
}

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
    for field in [
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
        "generation",
    ] {
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

/// Keeps what an update can't change.
pub(super) fn preserve(new: &mut Value, old: &Value) {
    let kept = [
        ("generation", true),
        ("creationTimestamp", true),
        ("deletionTimestamp", true),
        ("selfLink", true),
        ("deletionGracePeriodSeconds", true),
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
    if let Some(owners) = metadata
        .get_mut("ownerReferences")
        .and_then(Value::as_array_mut)
    {
        let mut seen: Vec<Value> = Vec::new();
        owners.retain(|owner| {
            let new = !seen.contains(owner);
            seen.push(owner.clone());
            new
        });
    }
}

/// What is wrong with the metadata of any object.
pub(super) fn validate(served: &Served, object: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let name = text(object, "name");
    let generate = text(object, "generateName");
    let check = |value: &str| {
        if served.traits.path_names {
            names::path_segment(value)
        } else if served.storage.as_ref() == "services" {
            names::label_1035(value)
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
    for finalizer in &finalizers {
        for problem in names::qualified(finalizer) {
            causes.push(Cause::invalid(
                "metadata.finalizers",
                &finalizer.as_str().into(),
                &problem,
            ));
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
        for problem in names::qualified(key) {
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
    for field in ["name", "namespace", "uid"] {
        if new["metadata"][field] != old["metadata"][field] {
            let path = format!("metadata.{field}");
            causes.push(Cause::invalid(
                path,
                &new["metadata"][field],
                "field is immutable",
            ));
        }
    }
    causes
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let mut new = json!({"metadata": {"generation": 7, "deletionTimestamp": "x"}});
        preserve(&mut new, &old);
        assert_eq!(new, old);
    }

    #[test]
    fn finalizers_can_only_go_once_it_is_being_deleted() {
        let old = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b"]}});
        let new = json!({"metadata": {"deletionTimestamp": "t", "finalizers": ["a/b", "c/d"]}});
        assert_eq!(validate_update(&new, &old)[0].field, "metadata.finalizers");
        assert_eq!(validate_update(&old, &new), []);
    }
}
