//! Schema of `status`. It is left open (no enums of phases or steps, no bounds on lengths): a status
//! that can't be written helps nobody, and an operator that knows one more phase must be able to
//! write it before its definition is there.

use serde_json::{Value, json};

use super::schema::{boolean, integer, keyed_list, list, object, one_of, requiring, words};

pub(super) fn schema() -> Value {
    object(
        "What is so.",
        &[
            (
                "observedGeneration",
                integer(
                    "Generation of the spec that this status speaks of.",
                    "int64",
                ),
            ),
            (
                "phase",
                words(
                    "One word for the whole: Pending, Bootstrapping, Running, Degraded, FailingOver, SwitchingOver, Unavailable, Offline or Paused.",
                ),
            ),
            ("reason", words("Why, in a sentence.")),
            (
                "ready",
                words("Instances ready of instances wanted, such as 2/3."),
            ),
            ("replicas", integer("Instances that exist.", "int32")),
            ("selector", words("Label selector of the pods.")),
            ("version", words("MySQL version that the primary runs.")),
            (
                "currentPrimary",
                words("The instance that accepts writes, or was the last to do so."),
            ),
            (
                "targetPrimary",
                words("While the primary moves: the instance it moves to."),
            ),
            (
                "term",
                integer("Term of the leader that wrote this.", "int64"),
            ),
            ("quorum", quorum()),
            (
                "appAccountHash",
                words("Hash of the application account that the database was last given."),
            ),
            ("operation", operation()),
            (
                "conditions",
                keyed_list("Conditions, Ready first.", "type", &condition()),
            ),
            (
                "instances",
                keyed_list("One row an instance.", "name", &instance()),
            ),
        ],
    )
}

fn quorum() -> Value {
    let members = |description: &str| {
        object(
            description,
            &[
                ("primary", words("The primary whose commits these are.")),
                (
                    "members",
                    list(
                        "Replicas whose acknowledgement counts.",
                        &json!({ "type": "string" }),
                    ),
                ),
                (
                    "acks",
                    integer("Acknowledgements that a commit waits for.", "int32"),
                ),
            ],
        )
    };
    object(
        "Who may acknowledge commits, written before it takes effect. A promotion must satisfy both records.",
        &[
            ("current", members("In effect.")),
            ("next", members("Being put into effect.")),
            (
                "barrier",
                words(
                    "Set once next is in effect: what its members must hold before it is current (a GTID set).",
                ),
            ),
        ],
    )
}

fn operation() -> Value {
    object(
        "The operation under way, written before its first command so that any operator can resume it.",
        &[
            ("type", words("What is done: Failover or Switchover.")),
            ("step", words("The step under way.")),
            ("startedAt", words("When it began (RFC 3339).")),
            ("reason", words("Why it was begun.")),
        ],
    )
}

fn condition() -> Value {
    requiring(
        object(
            "A condition as Kubernetes' conventions have it.",
            &[
                ("type", words("Name of the condition.")),
                (
                    "status",
                    one_of("Whether it holds.", &["True", "False", "Unknown"]),
                ),
                ("reason", words("One word why.")),
                ("message", words("A sentence why.")),
                (
                    "lastTransitionTime",
                    words("When status last changed (RFC 3339)."),
                ),
                (
                    "observedGeneration",
                    integer("Generation of the spec that this was judged for.", "int64"),
                ),
            ],
        ),
        &["type", "status"],
    )
}

fn instance() -> Value {
    requiring(
        object(
            "The state of one instance.",
            &[
                ("name", words("Pod name.")),
                ("role", words("primary, replica or empty.")),
                (
                    "ready",
                    boolean(
                        "Whether it does its part: the primary accepts writes, a replica replicates.",
                    ),
                ),
                ("state", words("Why it is not ready, or what it is doing.")),
                ("version", words("MySQL version it runs.")),
                ("node", words("Node it runs on.")),
                (
                    "errant",
                    words("Transactions that this instance has and the primary has not."),
                ),
                (
                    "configHash",
                    words("Hash of the configuration it was started with."),
                ),
            ],
        ),
        &["name"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{
        Condition, InstanceRow, MySQLClusterStatus, Operation, OperationKind, Phase, Quorum,
        QuorumRecord,
    };

    /// A status with every field set, so that one that the schema forgets (and an API server would
    /// drop) is found.
    fn full() -> MySQLClusterStatus {
        let quorum = Quorum {
            primary: "a".to_owned(),
            members: vec!["b".to_owned()],
            acks: 1,
        };
        let some = || Some("x".to_owned());
        MySQLClusterStatus {
            observed_generation: 1,
            phase: Phase::Running,
            reason: "x".to_owned(),
            ready: "1/1".to_owned(),
            replicas: 1,
            selector: "a=b".to_owned(),
            version: some(),
            current_primary: some(),
            target_primary: some(),
            term: 1,
            quorum: Some(QuorumRecord {
                current: quorum.clone(),
                next: Some(quorum),
                barrier: some(),
            }),
            app_account_hash: Some(String::new()),
            operation: Some(Operation {
                kind: OperationKind::Failover,
                step: "x".to_owned(),
                started_at: "x".to_owned(),
                reason: "x".to_owned(),
            }),
            conditions: vec![Condition {
                kind: "Ready".to_owned(),
                status: "True".to_owned(),
                reason: "x".to_owned(),
                message: "x".to_owned(),
                last_transition_time: "x".to_owned(),
                observed_generation: 1,
            }],
            instances: vec![InstanceRow {
                name: "a".to_owned(),
                role: "primary".to_owned(),
                ready: true,
                state: "x".to_owned(),
                version: some(),
                node: some(),
                errant: some(),
                config_hash: some(),
            }],
        }
    }

    #[test]
    fn the_schema_and_the_type_have_the_same_fields() {
        fn compare(path: &str, schema: &Value, value: &Value) {
            match value {
                Value::Object(fields) => {
                    let properties = schema["properties"].as_object().unwrap();
                    let schema_names: Vec<_> = properties.keys().collect();
                    let names: Vec<_> = fields.keys().collect();
                    assert_eq!(schema_names, names, "{path}");
                    for (name, value) in fields {
                        compare(&format!("{path}.{name}"), &properties[name], value);
                    }
                }
                Value::Array(items) => compare(&format!("{path}[]"), &schema["items"], &items[0]),
                Value::String(_) => assert_eq!(schema["type"], "string", "{path}"),
                Value::Number(_) => assert_eq!(schema["type"], "integer", "{path}"),
                Value::Bool(_) => assert_eq!(schema["type"], "boolean", "{path}"),
                Value::Null => panic!("{path} is not set"),
            }
        }
        compare("status", &schema(), &serde_json::to_value(full()).unwrap());
    }
}
