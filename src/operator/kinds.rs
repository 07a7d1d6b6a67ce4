//! The kinds that the operator caches, each a projection of what it reads.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::api::{MYSQL_CLUSTER, MySQLClusterSpec, MySQLClusterStatus};
use crate::client;
use crate::runtime::{Kind, Meta, exact, kind};

/// A MySQLCluster.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Cluster {
    /// Metadata.
    pub metadata: Meta,
    /// What is asked for.
    #[serde(default)]
    pub spec: MySQLClusterSpec,
    /// What was last written of it.
    #[serde(default)]
    pub status: MySQLClusterStatus,
}

/// A pod of a cluster.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Pod {
    /// Metadata.
    pub metadata: Meta,
    /// Where it runs.
    #[serde(default)]
    pub spec: PodSpec,
    /// How it does.
    #[serde(default)]
    pub status: PodStatus,
}

/// The slice of a pod's spec that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// Node it was bound to; empty before.
    pub node_name: String,
}

/// The slice of a pod's status that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// Pending, Running, Succeeded, Failed or Unknown.
    pub phase: String,
    /// Why the pod failed, such as Evicted.
    pub reason: String,
    /// Why, in a sentence.
    pub message: String,
    /// Address; empty before it has one.
    #[serde(rename = "podIP")]
    pub pod_ip: String,
    /// Conditions.
    #[serde(deserialize_with = "exact")]
    pub conditions: Vec<PodCondition>,
    /// Containers.
    #[serde(deserialize_with = "exact")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Init containers.
    #[serde(deserialize_with = "exact")]
    pub init_container_statuses: Vec<ContainerStatus>,
}

/// A pod's condition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// Name, such as `PodScheduled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// One word why.
    pub reason: String,
    /// A sentence why.
    pub message: String,
}

/// One container's state.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// Container name.
    pub name: String,
    /// Whether its readiness probe passes.
    pub ready: bool,
    /// Restarts so far.
    pub restart_count: u32,
    /// `waiting`, `running` or `terminated` with its fields.
    pub state: ContainerState,
    /// How the last run ended.
    pub last_state: ContainerState,
}

/// State of a container: one of the three is there.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ContainerState {
    /// Not running yet.
    pub waiting: Option<StateReason>,
    /// Running; since when is not read.
    pub running: Option<IgnoredAny>,
    /// Ended.
    pub terminated: Option<StateReason>,
}

/// Why a container waits or ended.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StateReason {
    /// One word, such as ErrImagePull.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Exit code where it ended.
    pub exit_code: i32,
}

/// A Secret, decoded.
#[derive(Clone, Default, Deserialize)]
pub struct Secret {
    /// Metadata.
    pub metadata: Meta,
    /// Content.
    #[serde(default, deserialize_with = "base64_map")]
    pub data: BTreeMap<String, Vec<u8>>,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret")
            .field("metadata", &self.metadata)
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl Secret {
    /// An entry as text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key).and_then(|v| std::str::from_utf8(v).ok())
    }
}

fn base64_map<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
    Option::<BTreeMap<String, String>>::deserialize(from)?
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| {
            let value = STANDARD
                .decode(&value)
                .map_err(|e| serde::de::Error::custom(format!("data.{key}: {e}")))?;
            Ok((key, value))
        })
        .collect()
}

/// A child that is compared as a whole with what it should be.
pub trait Whole: Kind {
    /// All fields but `metadata` and `status`.
    fn body(&self) -> &Map<String, Value>;
}

macro_rules! whole {
    ($(#[$doc:meta])* $name:ident, $resource:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        pub struct $name {
            /// Metadata.
            pub metadata: Meta,
            /// All fields but `metadata`; `status` is dropped.
            #[serde(flatten, deserialize_with = "without_status")]
            pub body: Map<String, Value>,
        }

        kind!($name, $resource);

        impl Whole for $name {
            fn body(&self) -> &Map<String, Value> {
                &self.body
            }
        }
    };
}

fn without_status<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    let mut body = Map::deserialize(from)?;
    body.remove("status");
    Ok(body)
}

whole!(
    /// A Service.
    Service,
    client::SERVICE
);
whole!(
    /// A ConfigMap.
    ConfigMap,
    client::CONFIG_MAP
);
whole!(
    /// A PodDisruptionBudget.
    PodDisruptionBudget,
    client::POD_DISRUPTION_BUDGET
);
whole!(
    /// A PersistentVolumeClaim.
    VolumeClaim,
    client::PERSISTENT_VOLUME_CLAIM
);

kind!(Cluster, MYSQL_CLUSTER);
kind!(Pod, client::POD);
kind!(Secret, client::SECRET);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_decoded_and_never_printed() {
        let secret: Secret = serde_json::from_str(
            r#"{"metadata":{"name":"a"},"data":{"password":"czNjcmV0"},"type":"Opaque"}"#,
        )
        .unwrap();
        assert_eq!(secret.text("password"), Some("s3cret"));
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn a_whole_child_keeps_its_body_but_not_its_status() {
        let service: Service = serde_json::from_str(
            r#"{"kind":"Service","metadata":{"name":"a"},"spec":{"x":1},"status":{"y":2}}"#,
        )
        .unwrap();
        assert_eq!(service.body["spec"]["x"], 1);
        assert!(!service.body.contains_key("status"));
    }
}
