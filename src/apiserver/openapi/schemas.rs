//! The schemas of a document.

use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::{Described, builtin};
use crate::apiserver::ResourceInfo;

static SHARED: LazyLock<Map<String, Value>> = LazyLock::new(|| {
    serde_json::from_str(include_str!("components.json")).expect("the file is well formed")
});

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// What every document has: metadata, options, status.
pub(super) fn shared() -> Map<String, Value> {
    SHARED.clone()
}

/// The name of a kind's schema: the domain of its group from the end, the version, the kind.
pub(super) fn name(info: &ResourceInfo) -> String {
    let (group, version) = (info.group.as_str(), info.version.as_str());
    let kind = &info.kind;
    match group {
        "" => format!("io.k8s.api.core.{version}.{kind}"),
        "apiextensions.k8s.io" => {
            format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.{version}.{kind}")
        }
        "apiregistration.k8s.io" => {
            format!("io.k8s.kube-aggregator.pkg.apis.apiregistration.{version}.{kind}")
        }
        group if !group.contains('.') || group.ends_with(".k8s.io") => {
            let first = group.split('.').next().unwrap_or_default();
            format!("io.k8s.api.{first}.{version}.{kind}")
        }
        group => {
            let domain: Vec<&str> = group.split('.').rev().collect();
            format!("{}.{version}.{kind}", domain.join("."))
        }
    }
}

pub(super) fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

pub(super) fn meta(name: &str) -> Value {
    reference(&format!("{META}{name}"))
}

/// Adds the schemas of a kind and of its list.
pub(super) fn add(one: &Described<'_>, components: &mut Map<String, Value>) {
    let info = one.info;
    let own = name(info);
    let mut schema = match one.schema {
        Some(schema) => schema.clone(),
        None => sketch(info, components),
    };
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    let properties = &mut schema["properties"];
    typed(properties);
    properties["metadata"] = described("Standard object's metadata.", "metadata", "ObjectMeta");
    schema["x-kubernetes-group-version-kind"] = group_version_kind(info, &info.kind);
    components.insert(own.clone(), schema);

    let list_kind = match info.list_kind.as_str() {
        "" => format!("{}List", info.kind),
        list_kind => list_kind.to_owned(),
    };
    let mut list = json!({
        "description": format!("{list_kind} is a list of {}", info.kind),
        "type": "object",
        "required": ["items"],
        "properties": {
            "items": {
                "description": format!(
                    "List of {}. More info: https://git.k8s.io/community/contributors/devel/\
                     sig-architecture/api-conventions.md",
                    info.plural
                ),
                "type": "array",
                "items": reference(&own),
            },
            "metadata": described("Standard list metadata.", "types-kinds", "ListMeta"),
        },
    });
    typed(&mut list["properties"]);
    list["x-kubernetes-group-version-kind"] = group_version_kind(info, &list_kind);
    components.insert(format!("{own}List"), list);
}

/// Of a built-in kind: its fields, without words; any fields where they are not known here.
fn sketch(info: &ResourceInfo, components: &mut Map<String, Value>) -> Value {
    let description = format!("{} as its API reference describes it.", info.kind);
    match builtin::fields(info, components) {
        Some(properties) => json!({
            "description": description,
            "type": "object",
            "properties": properties,
        }),
        None => json!({
            "description": description,
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
        }),
    }
}

/// `apiVersion` and `kind`, with the words of a real server.
fn typed(properties: &mut Value) {
    properties["apiVersion"] = json!({
        "description": "APIVersion defines the versioned schema of this representation of an object. Servers \
            should convert recognized schemas to the latest internal value, and may reject unrecognized \
            values. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
            api-conventions.md#resources",
        "type": "string",
    });
    properties["kind"] = json!({
        "description": "Kind is a string value representing the REST resource this object represents. \
            Servers may infer this from the endpoint the client submits requests to. Cannot be updated. In \
            CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
            api-conventions.md#types-kinds",
        "type": "string",
    });
}

fn described(what: &str, anchor: &str, schema: &str) -> Value {
    json!({
        "description": format!(
            "{what} More info: https://git.k8s.io/community/contributors/devel/sig-architecture/\
             api-conventions.md#{anchor}"
        ),
        "allOf": [meta(schema)],
    })
}

fn group_version_kind(info: &ResourceInfo, kind: &str) -> Value {
    json!([{"group": info.group, "version": info.version, "kind": kind}])
}
