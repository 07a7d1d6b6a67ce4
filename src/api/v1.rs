//! `mysql.mainstay.dev/v1`, the stored version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::client::Resource;

/// `mysqlclusters.mysql.mainstay.dev`, version v1.
pub const MYSQL_CLUSTER: Resource = Resource {
    group: "mysql.mainstay.dev",
    version: "v1",
    kind: "MySQLCluster",
    plural: "mysqlclusters",
    namespaced: true,
};

/// Asks for a graceful switchover to the instance that it names.
pub const PROMOTE_ANNOTATION: &str = "mysql.mainstay.dev/promote";

/// What a person asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MySQLClusterSpec {
    /// Number of MySQL servers, 1 to 9.
    pub instances: u32,
    /// MySQL series or version, such as `9.7`; chooses the image where none is named.
    pub version: String,
    /// Image with `mysqld`; overrides what `version` would choose.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// mysqld variables, by name. Numbers and booleans are accepted and kept as text; a value that
    /// is none of these (a list, a map) begins with [`NOT_A_SCALAR`].
    #[serde(deserialize_with = "scalars")]
    pub config: BTreeMap<String, String>,
    /// Volumes.
    pub storage: StorageSpec,
    /// Requests and limits of the MySQL container.
    #[serde(deserialize_with = "quantities_as_text")]
    pub resources: ResourceRequirements,
    /// Where pods may run.
    pub scheduling: SchedulingSpec,
    /// No pods; volumes, Secrets and Services stay.
    pub offline: bool,
    /// The operator changes nothing of this cluster (a failing primary included) until this is false.
    pub paused: bool,
}

impl Default for MySQLClusterSpec {
    fn default() -> Self {
        Self {
            instances: 3,
            version: "9.7".to_owned(),
            image: None,
            config: BTreeMap::new(),
            storage: StorageSpec::default(),
            resources: ResourceRequirements::default(),
            scheduling: SchedulingSpec::default(),
            offline: false,
            paused: false,
        }
    }
}

/// One volume per instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StorageSpec {
    /// Size of each volume, a quantity such as `10Gi`.
    pub size: String,
    /// Storage class; `None` for the cluster's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
}

impl Default for StorageSpec {
    fn default() -> Self {
        Self {
            size: "10Gi".to_owned(),
            storage_class_name: None,
        }
    }
}

/// Where pods may run. Instances always prefer to be apart (by `topologyKey`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SchedulingSpec {
    /// Labels that a node must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// Priority class of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Node label whose values instances spread over.
    pub topology_key: String,
}

impl Default for SchedulingSpec {
    fn default() -> Self {
        Self {
            node_selector: BTreeMap::new(),
            tolerations: Vec::new(),
            priority_class_name: None,
            topology_key: "kubernetes.io/hostname".to_owned(),
        }
    }
}

/// What is so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MySQLClusterStatus {
    /// Generation of the spec that this status speaks of.
    pub observed_generation: i64,
    /// One word for the whole.
    pub phase: Phase,
    /// Why, in a sentence.
    pub reason: String,
    /// `2/3`: instances ready of instances wanted.
    pub ready: String,
    /// Instances that exist, for the scale subresource.
    pub replicas: u32,
    /// Label selector of the pods, for the scale subresource.
    pub selector: String,
    /// Version that the primary runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The instance that accepts writes, or was the last to do so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_primary: Option<String>,
    /// Set, before the first command, while the primary moves: the instance it moves to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_primary: Option<String>,
    /// Term of the leader that wrote this.
    pub term: u64,
    /// Who may acknowledge commits, written before it takes effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quorum: Option<QuorumRecord>,
    /// Hash of the application account that the database was last given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_account_hash: Option<String>,
    /// The operation under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// Conditions, `Ready` first.
    pub conditions: Vec<Condition>,
    /// One row an instance.
    pub instances: Vec<InstanceRow>,
}

/// One word for the state of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Nothing runs yet.
    #[default]
    Pending,
    /// First start: volumes, servers, the first primary.
    Bootstrapping,
    /// All wanted instances are ready.
    Running,
    /// Writes are served, but not all instances are ready.
    Degraded,
    /// The primary is lost and another is being promoted.
    FailingOver,
    /// The primary role is being handed over on purpose.
    SwitchingOver,
    /// No primary serves and none can be promoted now; the reason says why.
    Unavailable,
    /// Stopped on request.
    Offline,
    /// Left alone on request.
    Paused,
}

/// Who may acknowledge commits. While `next` is set, a commit may have been acknowledged under either
/// rule: it is on at least the smaller number of acknowledgements among the members of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuorumRecord {
    /// In effect.
    pub current: Quorum,
    /// Being put into effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Quorum>,
    /// Set once `next` is in effect for new commits: all that the primary had committed by then
    /// (a GTID set). `next` is `current` as soon as enough of its members hold this too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub barrier: Option<String>,
}

/// A commit that was acknowledged to a client is on the primary and on `acks` of `members`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quorum {
    /// The primary whose commits these are.
    pub primary: String,
    /// Replicas whose acknowledgement counts, sorted.
    pub members: Vec<String>,
    /// Acknowledgements that a commit waits for.
    pub acks: u32,
}

/// An operation, written before its first command so that any operator can resume or abort it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Operation {
    /// What is done.
    #[serde(rename = "type")]
    pub kind: OperationKind,
    /// The step under way, for a person.
    pub step: String,
    /// When it began (RFC 3339).
    pub started_at: String,
    /// Why it was begun.
    pub reason: String,
}

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OperationKind {
    /// The primary was lost.
    Failover,
    /// The primary hands over.
    Switchover,
}

/// A condition as Kubernetes' conventions have it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Name.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word why.
    pub reason: String,
    /// A sentence why.
    pub message: String,
    /// When `status` last changed (RFC 3339).
    pub last_transition_time: String,
    /// Generation that this was judged for.
    pub observed_generation: i64,
}

/// One instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstanceRow {
    /// Pod name.
    pub name: String,
    /// `primary`, `replica` or empty.
    pub role: String,
    /// Whether it does its part: the primary accepts writes, a replica replicates.
    pub ready: bool,
    /// Why it is not ready, or what it is doing.
    pub state: String,
    /// MySQL version it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Node it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Transactions that this instance has and the primary has not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub errant: Option<String>,
    /// Hash of the configuration it was started with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_hash: Option<String>,
}

/// Marks a value of `spec.config` that was a list or a map. The schema can't refuse those (a map of
/// "text, number or boolean" has no structural schema), and an object that does not decode could
/// only be ignored; so it decodes, and rendering refuses the value by its variable's name.
pub const NOT_A_SCALAR: char = '\0';

/// A map whose values may be written as text, numbers or booleans in YAML, where an unquoted `ON`
/// is a boolean.
fn scalars<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    let map = Option::<BTreeMap<String, Value>>::deserialize(from)?.unwrap_or_default();
    Ok(map
        .into_iter()
        .filter_map(|(name, value)| {
            let text = match value {
                Value::Null => return None,
                Value::String(text) => text,
                Value::Bool(flag) => if flag { "ON" } else { "OFF" }.to_owned(),
                Value::Number(number) => number.to_string(),
                other => format!("{NOT_A_SCALAR}{other}"),
            };
            Some((name, text))
        })
        .collect())
}

/// Quantities may be written as numbers (`cpu: 1`); the generated type reads text only.
fn quantities_as_text<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<ResourceRequirements, D::Error> {
    let mut value = Value::deserialize(from)?;
    if value.is_null() {
        return Ok(ResourceRequirements::default());
    }
    for side in ["limits", "requests"] {
        let Some(amounts) = value.get_mut(side).and_then(Value::as_object_mut) else {
            continue;
        };
        for amount in amounts.values_mut() {
            if let Value::Number(number) = amount {
                *amount = Value::String(number.to_string());
            }
        }
    }
    serde_json::from_value(value).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_spec_has_the_documented_defaults() {
        let spec: MySQLClusterSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec, MySQLClusterSpec::default());
        assert_eq!((spec.instances, spec.storage.size.as_str()), (3, "10Gi"));
    }

    #[test]
    fn config_values_may_be_numbers_or_booleans() {
        let spec: MySQLClusterSpec =
            serde_json::from_str(r#"{"config":{"max_connections":500,"a":true,"b":"x","c":0.5,"d":18446744073709551615,"e":null}}"#).unwrap();
        assert_eq!(spec.config["max_connections"], "500");
        assert_eq!(spec.config["a"], "ON");
        assert_eq!(spec.config["b"], "x");
        assert_eq!(spec.config["c"], "0.5");
        assert_eq!(spec.config["d"], "18446744073709551615");
        assert!(!spec.config.contains_key("e"));
    }

    #[test]
    fn a_value_that_no_variable_can_have_does_not_make_the_object_unreadable() {
        let spec: MySQLClusterSpec =
            serde_json::from_str(r#"{"config":{"sql_mode":["ANSI"]}}"#).unwrap();
        assert!(spec.config["sql_mode"].starts_with(NOT_A_SCALAR));
    }

    #[test]
    fn resources_may_be_numbers() {
        let spec: MySQLClusterSpec =
            serde_json::from_str(r#"{"resources":{"limits":{"cpu":2,"memory":"1Gi"}}}"#).unwrap();
        let limits = spec.resources.limits.unwrap();
        assert_eq!(
            (limits["cpu"].0.as_str(), limits["memory"].0.as_str()),
            ("2", "1Gi")
        );
    }
}
