//! What kubectl looks for in the documents.

use serde_json::{Value, json};

use super::{Described, document, index};
use crate::apiserver::{ResourceInfo, ScaleInfo};

fn check() -> ResourceInfo {
    ResourceInfo {
        group: "schema-check.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Check".to_owned(),
        list_kind: "CheckList".to_owned(),
        plural: "checks".to_owned(),
        namespaced: true,
        status: true,
        scale: Some(ScaleInfo::default()),
        ..ResourceInfo::default()
    }
}

fn config_map() -> ResourceInfo {
    ResourceInfo {
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
        namespaced: true,
        ..ResourceInfo::default()
    }
}

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "description": "Wanted.", "properties": {
            "n": {"type": "integer", "default": 3},
        }}},
    })
}

/// Every reference in a document leads somewhere.
fn check_references(value: &Value, document: &Value) {
    match value {
        Value::Object(fields) => {
            if let Some(reference) = fields.get("$ref").and_then(Value::as_str) {
                let pointer = reference.strip_prefix('#').expect("a local reference");
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            fields
                .values()
                .for_each(|value| check_references(value, document));
        }
        Value::Array(items) => items
            .iter()
            .for_each(|value| check_references(value, document)),
        _ => {}
    }
}

#[test]
fn patches_take_field_validation() {
    for info in [check(), config_map()] {
        let described = [Described {
            info: &info,
            schema: None,
        }];
        let document = document(&described, &info.group, &info.version).expect("a document");
        let paths = document["paths"].as_object().expect("paths");
        let patches: Vec<&Value> = paths
            .values()
            .filter_map(|path| path.get("patch"))
            .filter(|patch| patch["x-kubernetes-group-version-kind"]["kind"] == info.kind)
            .collect();
        assert!(!patches.is_empty());
        for patch in patches {
            let parameters = patch["parameters"].as_array().expect("parameters");
            assert!(
                parameters
                    .iter()
                    .any(|p| p["name"] == "fieldValidation" && p["in"] == "query")
            );
            let media = &patch["requestBody"]["content"];
            assert!(media.get("application/apply-patch+yaml").is_some());
            assert!(
                media
                    .get("application/strategic-merge-patch+json")
                    .is_none()
            );
        }
        check_references(&document, &document);
    }
}

#[test]
fn built_in_kinds_have_their_fields() {
    let info = ResourceInfo {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
        plural: "deployments".to_owned(),
        ..ResourceInfo::default()
    };
    let described = [Described {
        info: &info,
        schema: None,
    }];
    let document = document(&described, "apps", "v1").expect("a document");
    check_references(&document, &document);
    let schemas = &document["components"]["schemas"];
    let spec = &schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"];
    assert_eq!(spec["replicas"]["type"], "number");
    let containers = &schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["type"], "array");
}

#[test]
fn defined_kinds_have_their_whole_schema() {
    let (info, schema) = (check(), schema());
    let described = [Described {
        info: &info,
        schema: Some(&schema),
    }];
    let document = document(&described, "schema-check.example.com", "v1").expect("a document");
    let own = &document["components"]["schemas"]["com.example.schema-check.v1.Check"];
    assert_eq!(own["properties"]["spec"], schema["properties"]["spec"]);
    assert_eq!(own["properties"]["kind"]["type"], "string");
    assert_eq!(
        own["x-kubernetes-group-version-kind"],
        json!([{"group": "schema-check.example.com", "version": "v1", "kind": "Check"}])
    );
    let paths: Vec<&String> = document["paths"]
        .as_object()
        .expect("paths")
        .keys()
        .collect();
    let base = "/apis/schema-check.example.com/v1";
    assert_eq!(
        paths,
        [
            format!("{base}/checks").as_str(),
            &format!("{base}/namespaces/{{namespace}}/checks"),
            &format!("{base}/namespaces/{{namespace}}/checks/{{name}}"),
            &format!("{base}/namespaces/{{namespace}}/checks/{{name}}/scale"),
            &format!("{base}/namespaces/{{namespace}}/checks/{{name}}/status"),
        ]
    );
    let list = &document["paths"][paths[1]]["get"];
    assert_eq!(
        list["operationId"],
        "listSchemaCheckExampleComV1NamespacedCheck"
    );
    assert_eq!(list["tags"], json!(["schemaCheckExampleCom_v1"]));
    let all = &document["paths"][paths[0]]["get"];
    assert_eq!(
        all["operationId"],
        "listSchemaCheckExampleComV1CheckForAllNamespaces"
    );
}

#[test]
fn the_index_changes_with_a_schema() {
    let (check, config_map, schema) = (check(), config_map(), schema());
    let with = |schema: Option<&Value>| {
        let check = Described {
            info: &check,
            schema,
        };
        let config_map = Described {
            info: &config_map,
            schema: None,
        };
        index(&[check, config_map])["paths"].clone()
    };
    let (before, after) = (with(None), with(Some(&schema)));
    assert_eq!(before["api/v1"], after["api/v1"]);
    let own = "apis/schema-check.example.com/v1";
    assert_ne!(before[own], after[own]);
    let url = after[own]["serverRelativeURL"].as_str().expect("a URL");
    assert!(url.starts_with("/openapi/v3/apis/schema-check.example.com/v1?hash="));
    assert_eq!(document(&[], "", "v1"), None);
}
