//! `mysql.mainstay.dev/v1`, the stored version.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ResourceRequirements, Toleration};
use serde::{Deserialize, Deserializer, Serialize};

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
    pub image: Option<String>,
    /// mysqld variables, by name. Numbers are accepted and kept as text.
    #[serde(deserialize_with = "scalars")]
    pub config: BTreeMap<String, String>,
    /// Volumes.
    pub storage: StorageSpec,
    /// Requests and limits of the MySQL container.
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

/// Who may acknowledge commits. A promotion must satisfy `current` and, while set, `next`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuorumRecord {
    /// In effect.
    pub current: Quorum,
    /// Being put into effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Quorum>,
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

/// A map whose values may be written as text, numbers or booleans in YAML.
fn scalars<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Scalar {
        Text(String),
        Integer(i64),
        Flag(bool),
        Number(f64),
    }
    let map = BTreeMap::<String, Scalar>::deserialize(from)?;
    Ok(map
        .into_iter()
        .map(|(name, value)| {
            let text = match value {
                Scalar::Text(text) => text,
                Scalar::Integer(number) => number.to_string(),
                Scalar::Flag(flag) => if flag { "ON" } else { "OFF" }.to_owned(),
                Scalar::Number(number) => number.to_string(),
            };
            (name, text)
        })
        .collect())
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
            serde_json::from_str(r#"{"config":{"max_connections":500,"a":true,"b":"x"}}"#).unwrap();
        assert_eq!(spec.config["max_connections"], "500");
        assert_eq!(spec.config["a"], "ON");
        assert_eq!(spec.config["b"], "x");
    }
}
