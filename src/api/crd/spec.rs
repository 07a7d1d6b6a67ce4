//! Schema of `spec`.

use serde_json::{Map, Value, json};

use super::schema::{boolean, defaulting, integer, list, object, one_of, pattern, rule, text};
use crate::mysql::config::owned_variables;

/// What Kubernetes takes as a quantity that is not negative.
const QUANTITY: &str =
    r"^\+?([0-9]+|[0-9]+\.[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$";
/// A label's key: an optional DNS prefix and a name.
const LABEL_KEY: &str =
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";
/// A DNS subdomain.
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$";
/// The only value that the schema takes for a variable of ours: what its refusal then says.
const OWNED: &str = "decided by Mainstay, leave it out";

pub(super) fn schema() -> Value {
    object(
        "What is asked for.",
        &[
            ("instances", instances()),
            (
                "version",
                defaulting(
                    pattern(
                        "MySQL series or version as a text, such as \"9.7\" or \"9.7.4\". Chooses the image docker.io/library/mysql:VERSION where none is named.",
                        32,
                        r"^[0-9]+\.[0-9]+(\.[0-9]+){0,2}$",
                    ),
                    json!("9.7"),
                ),
            ),
            (
                "image",
                pattern(
                    "Image with mysqld, in place of the one that version would choose.",
                    512,
                    "^[A-Za-z0-9][-A-Za-z0-9._/:@]*$",
                ),
            ),
            ("config", defaulting(config(), json!({}))),
            ("storage", defaulting(storage(), json!({}))),
            ("resources", defaulting(resources(), json!({}))),
            ("scheduling", defaulting(scheduling(), json!({}))),
            (
                "offline",
                defaulting(
                    boolean("No pods run while this is true; volumes, Secrets and Services stay."),
                    json!(false),
                ),
            ),
            (
                "paused",
                defaulting(
                    boolean(
                        "The operator changes nothing of this cluster while this is true: a lost primary is not replaced either.",
                    ),
                    json!(false),
                ),
            ),
        ],
    )
}

fn instances() -> Value {
    let mut schema = integer(
        "Number of MySQL servers, 1 to 9. With three or more, the loss of one is survived without the loss of a write.",
        "int32",
    );
    schema["minimum"] = json!(1);
    schema["maximum"] = json!(9);
    defaulting(schema, json!(3))
}

/// Open for any variable, because an unquoted `ON` is a boolean in YAML and no structural schema
/// says "text, number or boolean"; closed, by name, for the variables that are ours. The enum's one
/// value is there for the message: it is refused too, when the configuration is rendered.
fn config() -> Value {
    let owned: Map<String, Value> = owned_variables()
        .into_iter()
        .map(|name| {
            let schema = json!({
                "description": "Decided by Mainstay: leave it out.",
                "x-kubernetes-preserve-unknown-fields": true,
                "enum": [OWNED],
            });
            (name.to_owned(), schema)
        })
        .collect();
    json!({
        "type": "object",
        "description": "mysqld variables by name, for [mysqld] of my.cnf: texts, numbers or booleans. \
            Variables that replication, identity and paths depend on are decided by Mainstay and refused. \
            innodb_buffer_pool_size is derived from the memory limit where it is not set. \
            A variable that this mysqld does not know is reported in the status, unless it has the prefix loose_.",
        "maxProperties": 300,
        "properties": owned,
        "x-kubernetes-preserve-unknown-fields": true,
    })
}

fn storage() -> Value {
    let mut size = text(
        "Size of each instance's volume, a quantity such as 10Gi. It can grow where the storage class allows it, never shrink.",
        20,
    );
    size["x-kubernetes-validations"] = json!([
        rule(
            "isQuantity(self)",
            "spec.storage.size must be a quantity such as 10Gi",
        ),
        rule(
            "!isQuantity(self) || quantity(self).compareTo(quantity('256Mi')) >= 0",
            "spec.storage.size must be at least 256Mi: an empty MySQL needs as much",
        ),
    ]);
    object(
        "One volume per instance. Volumes stay when the cluster is deleted; a cluster of the same name adopts them.",
        &[
            ("size", defaulting(size, json!("10Gi"))),
            (
                "storageClassName",
                text(
                    "Storage class of the volumes; the default class where it is not set. Can't change once the cluster holds data.",
                    253,
                ),
            ),
        ],
    )
}

fn resources() -> Value {
    let amounts = |description: &str| {
        json!({
            "type": "object",
            "description": description,
            "maxProperties": 16,
            "additionalProperties": {
                "anyOf": [{ "type": "integer" }, { "type": "string" }],
                "pattern": QUANTITY,
                "maxLength": 32,
                "x-kubernetes-int-or-string": true,
            },
        })
    };
    let mut schema = object(
        "Requests and limits of the MySQL container, as in core/v1. Where none are given: requests of 250m CPU and 768Mi memory, and a limit of 1Gi memory.",
        &[
            (
                "limits",
                amounts(
                    "The most that may be used, by resource. mysqld takes about 550Mi before any buffer pool.",
                ),
            ),
            ("requests", amounts("What is reserved, by resource.")),
        ],
    );
    schema["x-kubernetes-validations"] = json!([rule(
        "!has(self.limits) || !has(self.requests) || self.requests.all(name, !(name in self.limits) || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",
        "spec.resources.requests must not exceed spec.resources.limits",
    )]);
    schema
}

fn scheduling() -> Value {
    let toleration = object(
        "Tolerates taints that match.",
        &[
            (
                "key",
                text(
                    "Taint's key; all keys where it is not set, with operator Exists.",
                    316,
                ),
            ),
            (
                "operator",
                one_of(
                    "Equal (the default) compares the value, Exists does not.",
                    &["Equal", "Exists"],
                ),
            ),
            ("value", text("Taint's value, for operator Equal.", 63)),
            (
                "effect",
                one_of(
                    "Taint's effect; all effects where it is not set.",
                    &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                ),
            ),
            (
                "tolerationSeconds",
                integer(
                    "For effect NoExecute: how long the pod may stay; for ever where it is not set.",
                    "int64",
                ),
            ),
        ],
    );
    let mut tolerations = list("Taints that are tolerated.", &toleration);
    tolerations["maxItems"] = json!(32);
    object(
        "Where pods may run. Instances always prefer to be apart.",
        &[
            (
                "nodeSelector",
                json!({
                    "type": "object",
                    "description": "Labels that a node must have.",
                    "maxProperties": 32,
                    "additionalProperties": { "type": "string", "maxLength": 63 },
                }),
            ),
            ("tolerations", tolerations),
            (
                "priorityClassName",
                pattern("Priority class of the pods.", 253, SUBDOMAIN),
            ),
            (
                "topologyKey",
                defaulting(
                    pattern(
                        "Node label whose values instances spread over where they can.",
                        316,
                        LABEL_KEY,
                    ),
                    json!("kubernetes.io/hostname"),
                ),
            ),
        ],
    )
}
