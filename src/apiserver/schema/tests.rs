//! What is said here, held against what kube-apiserver 1.37.2 was recorded to say (`testdata/`).

use serde_json::{Value, json};

use super::{Definition, Structural};
use crate::apiserver::Cause;

const NOW: &str = "2026-11-30T00:00:00Z";

fn told(causes: &[Cause]) -> Vec<[String; 3]> {
    let mut told: Vec<[String; 3]> = causes
        .iter()
        .map(|cause| {
            [
                cause.reason.to_owned(),
                cause.field.clone(),
                cause.message.clone(),
            ]
        })
        .collect();
    told.sort();
    told
}

fn recorded(causes: &Value) -> Vec<[String; 3]> {
    let mut recorded: Vec<[String; 3]> =
        serde_json::from_value(causes.clone()).expect("recorded causes");
    for cause in &mut recorded {
        cause[2] = without_schema(&cause[2]);
    }
    recorded.sort();
    recorded
}

/// A message without a schema in it: real servers show one by the names that its fields have in Go.
fn without_schema(message: &str) -> String {
    match message.find("}: only [") {
        Some(end) => message[end..].to_owned(),
        None => message.to_owned(),
    }
}

fn compile(mut object: Value) -> Result<Definition, Vec<[String; 3]>> {
    Definition::compile(&mut object, NOW).map_err(|error| {
        let mut told: Vec<[String; 3]> = error.details["causes"]
            .as_array()
            .expect("causes")
            .iter()
            .map(|cause| {
                ["reason", "field", "message"]
                    .map(|name| cause[name].as_str().expect("a text").to_owned())
            })
            .collect();
        for cause in &mut told {
            cause[2] = without_schema(&cause[2]);
        }
        told.sort();
        told
    })
}

fn schema(definition: &Value) -> std::sync::Arc<Structural> {
    let definition = compile(definition.clone()).expect("a definition");
    definition.versions[0].schema.clone()
}

#[test]
fn objects_are_judged_as_a_real_server_does() {
    let data: Value = serde_json::from_str(include_str!("testdata/objects.json")).expect("JSON");
    let schema = schema(&data["definition"]);
    let mut wrong = Vec::new();
    for case in data["cases"].as_array().expect("cases") {
        let mut object = json!({
            "apiVersion": "schema-check.example.com/v1",
            "kind": "Check",
            "metadata": {"name": "x"},
            "spec": case["object"]["spec"],
        });
        schema.prune(&mut object);
        schema.default(&mut object);
        let told = told(&schema.validate(&object, None));
        if let Some(causes) = case.get("causes") {
            if told != recorded(causes) {
                wrong.push((case["object"].clone(), told, recorded(causes)));
            }
        } else if !told.is_empty() || object["spec"] != case["spec"] {
            wrong.push((case["object"].clone(), told, Vec::new()));
        }
    }
    assert!(wrong.is_empty(), "{} differ: {wrong:#?}", wrong.len());
}

/// A definition whose spec has this schema.
fn defined(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "rules.schema-check.example.com"},
        "spec": {
            "group": "schema-check.example.com",
            "scope": "Cluster",
            "names": {"plural": "rules", "kind": "Rule"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {
                    "spec": spec,
                    "status": {"type": "object", "properties": {
                        "n": {"type": "integer", "maximum": 5},
                    }},
                }},
            }}],
        },
    })
}

#[test]
fn updates_are_judged_as_a_real_server_does() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("testdata/transitions.json")).expect("JSON");
    let mut wrong = Vec::new();
    for case in &cases {
        let schema = schema(&defined(&case["schema"]));
        let object = |spec: &Value| json!({"metadata": {"name": "x"}, "spec": spec});
        let (old, new) = (object(&case["old"]), object(&case["new"]));
        let told = told(&schema.validate(&new, Some(&old)));
        if told != recorded(&case["causes"]) {
            wrong.push((case.to_string(), told));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ: {wrong:#?}",
        wrong.len(),
        cases.len()
    );
}

#[test]
fn a_write_of_the_status_is_judged_by_the_status() {
    let schema = schema(&defined(&json!({"type": "object", "required": ["a"]})));
    let object = |status: Value| json!({"metadata": {"name": "x"}, "spec": {}, "status": status});
    let old = object(json!({"n": 1}));
    let judged = |status: Value| {
        let causes = schema.validate_status(&object(status), Some(&old));
        causes
            .first()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
    };
    assert_eq!(judged(json!({"n": 3})), None);
    assert_eq!(
        judged(json!({"n": 9})).as_deref(),
        Some("status.n: Invalid value: 9: n in body should be less than or equal to 5")
    );
    assert_eq!(
        judged(json!("x")).as_deref(),
        Some("status: Invalid value: \"string\":  in body must be of type object: \"string\"")
    );
}

#[test]
fn rules_are_run_as_a_real_server_does() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("testdata/rules.json")).expect("JSON");
    let mut wrong = Vec::new();
    for case in &cases {
        let definition = defined(&case["schema"]);
        let told = match compile(definition) {
            Ok(definition) => {
                let object = json!({"metadata": {"name": "x"}, "spec": case["value"]});
                told(&definition.versions[0].schema.validate(&object, None))
            }
            Err(told) => told,
        };
        if told != recorded(&case["causes"]) {
            wrong.push((
                case["schema"]["x-kubernetes-validations"].to_string(),
                told,
                recorded(&case["causes"]),
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ: {wrong:#?}",
        wrong.len(),
        cases.len()
    );
}

/// The definition of a project that is served here.
fn own() -> Value {
    let text = include_str!("../../../manifests/crd/mysqlclusters.mysql.mainstay.dev.yaml");
    serde_yaml::from_str(text).expect("YAML")
}

#[test]
fn the_definition_of_clusters_compiles_with_every_rule() {
    let object = own();
    let rules = object.to_string().matches("\"rule\":").count();
    let definition = compile(object).expect("a definition");
    let compiled: usize = definition
        .versions
        .iter()
        .map(|v| v.schema.rule_count())
        .sum();
    assert_eq!(compiled, rules);
    assert!(rules >= 7, "{rules}");
}

#[test]
fn every_rule_of_clusters_can_fail() {
    let schema = schema(&own());
    let cluster = |name: &str, spec: Value, status: Value| {
        let mut object = json!({
            "apiVersion": "mysql.mainstay.dev/v1",
            "kind": "MySQLCluster",
            "metadata": {"name": name},
            "spec": {"storage": {"size": "10Gi"}},
            "status": status,
        });
        for (field, value) in spec.as_object().expect("fields") {
            object["spec"][field] = value.clone();
        }
        schema.default(&mut object);
        object
    };
    let plain = cluster("demo", json!({}), json!({}));
    assert_eq!(schema.validate(&plain, None), []);
    let fields = |object: &Value, old: Option<&Value>| -> Vec<String> {
        let causes = schema.validate(object, old);
        causes.into_iter().map(|cause| cause.field).collect()
    };
    let too_much = json!({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}});
    assert_eq!(
        fields(&cluster("demo", too_much, json!({})), None),
        ["spec.resources"]
    );
    let enough = json!({"resources": {"requests": {"cpu": 1}, "limits": {"cpu": "1500m"}}});
    assert_eq!(fields(&cluster("demo", enough, json!({})), None), [""; 0]);
    for (size, count) in [("x", 1), ("255Mi", 1), ("256Mi", 0)] {
        let object = cluster("demo", json!({"storage": {"size": size}}), json!({}));
        assert_eq!(
            fields(&object, None),
            vec!["spec.storage.size"; count],
            "{size}"
        );
    }
    for (name, count) in [
        ("a".repeat(41), 1),
        ("1a".to_owned(), 1),
        ("a-b".to_owned(), 0),
    ] {
        let object = cluster(&name, json!({}), json!({}));
        assert_eq!(fields(&object, None), vec!["<nil>"; count], "{name}");
    }
    let with_data = cluster("demo", json!({}), json!({"currentPrimary": "demo-0"}));
    let smaller = |old: &Value| {
        let object = cluster(
            "demo",
            json!({"storage": {"size": "9Gi"}}),
            old["status"].clone(),
        );
        fields(&object, Some(old)).len()
    };
    assert_eq!((smaller(&plain), smaller(&with_data)), (0, 1));
    let elsewhere = json!({"storage": {"size": "10Gi", "storageClassName": "other"}});
    let elsewhere = cluster("demo", elsewhere, with_data["status"].clone());
    assert_eq!(fields(&elsewhere, Some(&with_data)).len(), 1);
}

#[test]
fn definitions_are_judged_as_a_real_server_does() {
    let cases: Vec<Value> =
        serde_json::from_str(include_str!("testdata/definitions.json")).expect("JSON");
    let mut wrong = Vec::new();
    for case in &cases {
        let object = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": case["name"]},
            "spec": case["spec"],
        });
        let told = compile(object).err().unwrap_or_default();
        let recorded = case.get("causes").map(recorded).unwrap_or_default();
        if told != recorded {
            wrong.push((case["spec"].to_string(), told, recorded));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ: {wrong:#?}",
        wrong.len(),
        cases.len()
    );
}
