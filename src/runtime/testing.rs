//! A small kind for the runtime's own tests.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::object::{Kind, Meta, OwnerReference};
use crate::client::Resource;

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub(crate) struct Thing {
    pub(crate) metadata: Meta,
    #[serde(default)]
    pub(crate) value: u64,
}

impl Kind for Thing {
    const RESOURCE: Resource = Resource {
        group: "test",
        version: "v1",
        kind: "Thing",
        plural: "things",
        namespaced: true,
    };

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

pub(crate) fn thing(namespace: &str, name: &str, uid: &str, version: u64) -> Thing {
    owned(namespace, name, uid, version, &[])
}

pub(crate) fn owned(ns: &str, name: &str, uid: &str, version: u64, owners: &[&str]) -> Thing {
    let owner = |uid: &&str| OwnerReference {
        uid: (*uid).into(),
        ..OwnerReference::default()
    };
    Thing {
        metadata: Meta {
            namespace: ns.into(),
            name: name.into(),
            uid: uid.into(),
            resource_version: version.to_string().into(),
            owner_references: owners.iter().map(owner).collect(),
            ..Meta::default()
        },
        value: version,
    }
}

/// The object as the API server would send it.
pub(crate) fn raw(namespace: &str, name: &str, uid: &str, version: u64) -> Box<RawValue> {
    raw_with(namespace, name, uid, version, version)
}

/// As [`raw`], with a value that may not fit the type.
pub(crate) fn raw_with(
    namespace: &str,
    name: &str,
    uid: &str,
    version: u64,
    value: impl Into<serde_json::Value>,
) -> Box<RawValue> {
    let object = serde_json::json!({
        "metadata": {
            "namespace": namespace, "name": name, "uid": uid,
            "resourceVersion": version.to_string(),
        },
        "value": value.into(),
    });
    serde_json::value::to_raw_value(&object).expect("JSON values serialise")
}

/// The bookmark that ends the objects a watch begins with.
pub(crate) fn initial_end(version: u64) -> Box<RawValue> {
    let object = serde_json::json!({"metadata": {
        "resourceVersion": version.to_string(),
        "annotations": {"k8s.io/initial-events-end": "true"},
    }});
    serde_json::value::to_raw_value(&object).expect("JSON values serialise")
}
