//! The Lease object, as client-go's elector reads and writes it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::client::LEASE;

/// A Lease. What it holds beyond our fields is kept as it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lease {
    api_version: String,
    kind: String,
    metadata: Map<String, Value>,
    #[serde(default)]
    pub(super) spec: Record,
}

/// Who leads since when. Times are for people and for other electors to see that they change; they
/// are never compared with a clock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Record {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) holder_identity: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_duration_seconds: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) acquire_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) renew_time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lease_transitions: Option<i32>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl Lease {
    /// A Lease that does not exist yet.
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        let mut metadata = Map::new();
        metadata.insert("namespace".to_owned(), namespace.into());
        metadata.insert("name".to_owned(), name.into());
        Self {
            api_version: LEASE.api_version(),
            kind: LEASE.kind.to_owned(),
            metadata,
            spec: Record::default(),
        }
    }

    /// The version it was read at, which an update carries.
    #[cfg(test)]
    pub(super) fn version(&self) -> &str {
        self.metadata
            .get("resourceVersion")
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    #[cfg(test)]
    pub(super) fn set_version(&mut self, version: u64) {
        self.metadata
            .insert("resourceVersion".to_owned(), version.to_string().into());
    }
}

impl Record {
    /// The holder; empty when the lease is free.
    pub(super) fn holder(&self) -> &str {
        self.holder_identity.as_deref().unwrap_or_default()
    }

    /// How often the lease changed hands.
    pub(super) fn transitions(&self) -> i32 {
        self.lease_transitions.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_of_client_go_is_understood_and_kept_whole() {
        let text = r#"{
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "7", "labels": {"x": "y"}},
            "spec": {
                "holderIdentity": "pod_uid", "leaseDurationSeconds": 15,
                "acquireTime": "2026-11-29T10:00:00.000000Z",
                "renewTime": "2026-11-29T10:00:05.123456Z",
                "leaseTransitions": 3, "strategy": "OldestEmulationVersion"
            }
        }"#;
        let lease: Lease = serde_json::from_str(text).unwrap();
        assert_eq!(
            (lease.spec.holder(), lease.spec.transitions()),
            ("pod_uid", 3)
        );
        assert_eq!(lease.version(), "7");
        let back: Value = serde_json::to_value(&lease).unwrap();
        assert_eq!(back, serde_json::from_str::<Value>(text).unwrap());
    }
}
