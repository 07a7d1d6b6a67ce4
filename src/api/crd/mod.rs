//! The CustomResourceDefinition of MySQLCluster: structural, with defaults, bounds and rules, so that
//! an API server refuses what can never work and `kubectl explain` tells the rest.
//!
//! Bounds on lengths and counts also keep the rules within the API server's cost limits.

mod schema;
mod spec;
mod status;

use serde_json::{Value, json};

use self::schema::{described, object, rule};
use super::MYSQL_CLUSTER;

/// Longest name of a cluster: the longest name made of it, `NAME-instances`, and its pods' names are
/// DNS labels (63), with room for what later versions may append.
pub const MAX_NAME_LENGTH: usize = 40;

/// The definition as JSON.
#[must_use]
pub fn definition() -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{}", MYSQL_CLUSTER.plural, MYSQL_CLUSTER.group),
            "labels": { "app.kubernetes.io/name": "mainstay" },
        },
        "spec": {
            "group": MYSQL_CLUSTER.group,
            "scope": "Namespaced",
            // In no category: `kubectl delete all --all` must not delete a database.
            "names": {
                "kind": MYSQL_CLUSTER.kind,
                "listKind": format!("{}List", MYSQL_CLUSTER.kind),
                "plural": MYSQL_CLUSTER.plural,
                "singular": MYSQL_CLUSTER.kind.to_lowercase(),
                "shortNames": ["myc"],
            },
            "versions": [{
                "name": MYSQL_CLUSTER.version,
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": root() },
                "subresources": {
                    "status": {},
                    "scale": {
                        "specReplicasPath": ".spec.instances",
                        "statusReplicasPath": ".status.replicas",
                        "labelSelectorPath": ".status.selector",
                    },
                },
                "additionalPrinterColumns": [
                    column("Ready", "string", ".status.ready", "Instances ready of instances wanted."),
                    column("Primary", "string", ".status.currentPrimary", "The instance that accepts writes."),
                    column("Status", "string", ".status.phase", "One word for the whole."),
                    column("Version", "string", ".status.version", "MySQL version of the primary."),
                    column("Age", "date", ".metadata.creationTimestamp", "Time since creation."),
                    {
                        "name": "Reason",
                        "type": "string",
                        "jsonPath": ".status.reason",
                        "description": "Why, in a sentence.",
                        "priority": 1,
                    },
                ],
            }],
        },
    })
}

/// The definition as YAML, as `manifests/crd/` holds it.
#[must_use]
pub fn yaml() -> String {
    let body = serde_yaml::to_string(&definition()).expect("JSON with text keys is YAML");
    format!(
        "# Printed by `mainstay crd`. To change it, change src/api/crd and run:\n\
         # cargo run -- crd > manifests/crd/mysqlclusters.mysql.mainstay.dev.yaml\n{body}"
    )
}

fn root() -> Value {
    let mut root = object(
        "A MySQL cluster: one primary that accepts writes, replicas that follow it, and a new primary when the first is lost.",
        &[
            ("apiVersion", json!({ "type": "string" })),
            ("kind", json!({ "type": "string" })),
            ("metadata", json!({ "type": "object" })),
            ("spec", described("What is asked for.", spec::schema())),
            ("status", described("What is so.", status::schema())),
        ],
    );
    root["required"] = json!(["spec"]);
    // The size of volumes and their class are settled once there is data; a cluster that never came
    // up, because its class or size can't be had, is healed by changing them.
    let settled = "has(oldSelf.status) && has(oldSelf.status.currentPrimary)";
    let class =
        "(has(self.spec.storage.storageClassName) ? self.spec.storage.storageClassName : '')";
    root["x-kubernetes-validations"] = json!([
        rule(
            &format!("self.metadata.name.size() <= {MAX_NAME_LENGTH}"),
            &format!(
                "metadata.name must be at most {MAX_NAME_LENGTH} characters, so that names of pods and Services made of it fit"
            ),
        ),
        rule(
            "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must be a DNS label that begins with a letter: lower-case letters, digits and '-'",
        ),
        at(
            ".spec.storage.size",
            &format!(
                "!({settled}) || quantity(self.spec.storage.size).compareTo(quantity(oldSelf.spec.storage.size)) >= 0"
            ),
            "spec.storage.size can't shrink: volumes only grow",
        ),
        at(
            ".spec.storage",
            &format!(
                "!({settled}) || {class} == {}",
                class.replace("self.", "oldSelf.")
            ),
            "spec.storage.storageClassName can't change once the cluster holds data",
        ),
    ]);
    root
}

fn at(path: &str, condition: &str, message: &str) -> Value {
    let mut rule = rule(condition, message);
    rule["fieldPath"] = json!(path);
    rule
}

fn column(name: &str, kind: &str, path: &str, description: &str) -> Value {
    json!({ "name": name, "type": kind, "jsonPath": path, "description": description })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::MySQLClusterSpec;

    fn version() -> Value {
        definition()["spec"]["versions"][0].take()
    }

    fn properties(name: &str) -> Value {
        version()["schema"]["openAPIV3Schema"]["properties"][name].take()
    }

    /// The value that an API server makes of `{}`.
    fn defaulted(schema: &Value) -> Option<Value> {
        let mut value = schema.get("default").cloned()?;
        if let (Some(value), Some(properties)) =
            (value.as_object_mut(), schema["properties"].as_object())
        {
            for (name, schema) in properties {
                if let Some(default) = defaulted(schema) {
                    value.entry(name.clone()).or_insert(default);
                }
            }
        }
        Some(value)
    }

    #[test]
    fn the_manifest_is_what_the_code_prints() {
        assert!(
            include_str!("../../../manifests/crd/mysqlclusters.mysql.mainstay.dev.yaml") == yaml(),
            "manifests/crd is stale: cargo run -- crd > manifests/crd/mysqlclusters.mysql.mainstay.dev.yaml"
        );
    }

    #[test]
    fn the_sample_is_what_its_readers_take_it_for() {
        let sample: Value =
            serde_yaml::from_str(include_str!("../../../manifests/samples/mysqlcluster.yaml"))
                .unwrap();
        assert_eq!(sample["apiVersion"], MYSQL_CLUSTER.api_version());
        let spec: MySQLClusterSpec = serde_json::from_value(sample["spec"].clone()).unwrap();
        assert_eq!((spec.instances, spec.storage.size.as_str()), (3, "1Gi"));
    }

    #[test]
    fn defaults_of_the_schema_are_the_defaults_of_the_code() {
        let mut spec = properties("spec");
        spec["default"] = json!({});
        let spec = defaulted(&spec).unwrap();
        assert_eq!(spec["storage"]["size"], "10Gi");
        assert_eq!(
            serde_json::from_value::<MySQLClusterSpec>(spec).unwrap(),
            MySQLClusterSpec::default()
        );
    }

    #[test]
    fn every_field_explains_itself() {
        fn walk(path: &str, schema: &Value) {
            assert!(
                schema["description"]
                    .as_str()
                    .is_some_and(|text| text.ends_with('.')),
                "{path} has no description"
            );
            for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
                walk(&format!("{path}.{name}"), schema);
            }
            if let Some(items) = schema
                .get("items")
                .filter(|items| items["type"] == "object")
            {
                walk(&format!("{path}[]"), items);
            }
        }
        for name in ["spec", "status"] {
            walk(name, &properties(name));
        }
    }

    #[test]
    fn columns_are_those_people_look_for() {
        let names: Vec<_> = version()["additionalPrinterColumns"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|column| column.get("priority").is_none())
            .map(|column| column["name"].as_str().unwrap().to_uppercase())
            .collect();
        assert_eq!(names, ["READY", "PRIMARY", "STATUS", "VERSION", "AGE"]);
    }
}
