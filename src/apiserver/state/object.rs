//! A stored object: its JSON bytes, and the little that selectors and the garbage collector ask for.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

/// Every stored body begins so: metadata first, and in it the resource version. A version can be
/// exchanged without parsing.
const PREFIX: &str = r#"{"metadata":{"resourceVersion":""#;

/// One version of one object. Immutable: a write makes a new one.
#[derive(Debug)]
pub(crate) struct Entry {
    /// `namespace/name`, or `name` alone where there are no namespaces: etcd's order.
    pub(crate) key: Arc<str>,
    pub(crate) rv: u64,
    pub(crate) uid: Box<str>,
    /// The object as JSON, without `apiVersion` and `kind`, beginning with [`PREFIX`].
    pub(crate) body: Bytes,
    pub(crate) labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the storage's selectable fields, in its order.
    pub(crate) fields: Box<[Box<str>]>,
    /// UIDs of its owners.
    pub(crate) owners: Box<[Box<str>]>,
    /// Whether it has a deletion timestamp.
    pub(crate) deleting: bool,
    /// The schema that it was last held to; 0 for built-in kinds.
    pub(crate) shape: u32,
}

impl Entry {
    /// Makes an entry of `object` at version `rv`.
    pub(crate) fn new(
        key: Arc<str>,
        rv: u64,
        mut object: Value,
        selectable: &[String],
        shape: u32,
    ) -> Self {
        let fields = selectable.iter().map(|path| field(&object, path)).collect();
        let labels = object["metadata"]["labels"]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| {
                (
                    key.as_str().into(),
                    value.as_str().unwrap_or_default().into(),
                )
            })
            .collect();
        let owners = object["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|owner| owner["uid"].as_str().unwrap_or_default().into())
            .collect();
        let uid = text(&object, "uid").into();
        let deleting = !object["metadata"]["deletionTimestamp"].is_null();
        let body = serialise(&mut object, rv);
        Self {
            key,
            rv,
            uid,
            body,
            labels,
            fields,
            owners,
            deleting,
            shape,
        }
    }

    /// The object, without `apiVersion` and `kind`.
    pub(crate) fn value(&self) -> Value {
        serde_json::from_slice(&self.body).expect("was serialised by `serialise`")
    }

    /// Namespace and name.
    pub(crate) fn names(&self) -> (&str, &str) {
        split(&self.key)
    }

    /// The same object, said to be of version `rv`: what a watch says of a deletion.
    pub(crate) fn at(&self, rv: u64) -> Self {
        let rest = &self.body[PREFIX.len() + digits(self.rv)..];
        let mut body = Vec::with_capacity(self.body.len() + 2);
        body.extend_from_slice(PREFIX.as_bytes());
        body.extend_from_slice(rv.to_string().as_bytes());
        body.extend_from_slice(rest);
        Self {
            key: Arc::clone(&self.key),
            rv,
            uid: self.uid.clone(),
            body: body.into(),
            labels: self.labels.clone(),
            fields: self.fields.clone(),
            owners: self.owners.clone(),
            deleting: self.deleting,
            shape: self.shape,
        }
    }

    /// One label.
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(name, _)| &**name == key)
            .map(|(_, value)| &**value)
    }
}

/// Namespace (empty for none) and name of a key.
pub(crate) fn split(key: &str) -> (&str, &str) {
    key.split_once('/').unwrap_or(("", key))
}

/// The key of an object.
pub(crate) fn key(namespace: Option<&str>, name: &str) -> Arc<str> {
    match namespace {
        Some(namespace) => format!("{namespace}/{name}").into(),
        None => name.into(),
    }
}

/// A text of the metadata; empty where there is none.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The metadata, made where there is none.
pub(crate) fn metadata(object: &mut Value) -> &mut Map<String, Value> {
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = Value::Object(Map::new());
    }
    metadata.as_object_mut().expect("made above")
}

/// The texts of a list in the metadata, such as `finalizers`.
pub(crate) fn texts(object: &Value, field: &str) -> Vec<String> {
    object["metadata"][field]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// The value at a dotted path, as a field selector sees it.
fn field(object: &Value, path: &str) -> Box<str> {
    if path == "source" {
        // Of an Event: the component, by either of its names.
        let component = object["source"]["component"].as_str().unwrap_or_default();
        return match component {
            "" => object["reportingComponent"].as_str().unwrap_or_default().into(),
            component => component.into(),
        };
    }
    let mut value = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        value = &value[part];
    }
    match value {
        Value::String(text) => text.as_str().into(),
        Value::Bool(_) | Value::Number(_) => value.to_string().into(),
        // Kubernetes' selectable fields have Go's zero values.
        Value::Null if path.ends_with("hostNetwork") || path.ends_with("unschedulable") => {
            "false".into()
        }
        Value::Null if path.ends_with("status.replicas") || path.ends_with("successful") => {
            "0".into()
        }
        _ => "".into(),
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// Writes `object` as a body of version `rv`.
fn serialise(object: &mut Value, rv: u64) -> Bytes {
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(PREFIX.as_bytes());
    out.extend_from_slice(rv.to_string().as_bytes());
    out.push(b'"');
    metadata(object).remove("resourceVersion");
    members(&mut out, &object["metadata"]);
    out.push(b'}');
    if let Some(object) = object.as_object_mut() {
        object.remove("metadata");
        object.remove("apiVersion");
        object.remove("kind");
    }
    members(&mut out, object);
    out.push(b'}');
    out.shrink_to_fit();
    out.into()
}

/// `,"key":value` for each member.
fn members(out: &mut Vec<u8>, object: &Value) {
    for (key, value) in object.as_object().into_iter().flatten() {
        out.push(b',');
        serde_json::to_writer(&mut *out, key).expect("a text serialises into memory");
        out.push(b':');
        serde_json::to_writer(&mut *out, value).expect("a value serialises into memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn entry(object: Value) -> Entry {
        Entry::new("a/b".into(), 99, object, &["spec.nodeName".to_owned()], 0)
    }

    #[test]
    fn a_version_is_exchanged_without_parsing() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "b", "uid": "u",
            "annotations": {"x": "\"resourceVersion\":\"7\""}, "labels": {"k": "v"},
            "resourceVersion": "5"}, "spec": {"nodeName": "n"}});
        let entry = entry(object);
        assert_eq!((&*entry.uid, &*entry.fields[0]), ("u", "n"));
        assert_eq!(entry.label("k"), Some("v"));
        let later = entry.at(100);
        let mut value = later.value();
        assert_eq!(value["metadata"]["resourceVersion"], "100");
        assert!(value.get("kind").is_none());
        value["metadata"]["resourceVersion"] = json!("99");
        assert_eq!(value, entry.value());
    }

    #[test]
    fn keys_name_the_namespace_first() {
        assert_eq!(split(&key(Some("ns"), "name")), ("ns", "name"));
        assert_eq!(split(&key(None, "node")), ("", "node"));
    }
}
