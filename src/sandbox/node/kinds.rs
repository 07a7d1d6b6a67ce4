//! The kinds that the node reads. What it only hands on is left as JSON.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{
    NodeSpec, NodeStatus, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus,
    PersistentVolumeSpec, PersistentVolumeStatus, PodSpec, PodStatus, ServiceSpec,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::client::{self, Resource};
use crate::runtime::{Kind, Meta};

const fn core(kind: &'static str, plural: &'static str) -> Resource {
    Resource {
        group: "",
        version: "v1",
        kind,
        plural,
        namespaced: false,
    }
}

/// `v1` Node.
pub(super) const NODE: Resource = core("Node", "nodes");
/// `v1` PersistentVolume.
pub(super) const PERSISTENT_VOLUME: Resource = core("PersistentVolume", "persistentvolumes");
/// `storage.k8s.io/v1` StorageClass.
pub(super) const STORAGE_CLASS: Resource = Resource {
    group: "storage.k8s.io",
    version: "v1",
    kind: "StorageClass",
    plural: "storageclasses",
    namespaced: false,
};
/// `discovery.k8s.io/v1` EndpointSlice.
pub(super) const ENDPOINT_SLICE: Resource = Resource {
    group: "discovery.k8s.io",
    version: "v1",
    kind: "EndpointSlice",
    plural: "endpointslices",
    namespaced: true,
};

/// `v1` Endpoints.
pub(super) const ENDPOINTS: Resource = Resource {
    namespaced: true,
    ..core("Endpoints", "endpoints")
};

macro_rules! kind {
    ($(#[$doc:meta])* $name:ident, $resource:path { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub(super) struct $name {
            pub(super) metadata: Meta,
            $($(#[$field_doc])* pub(super) $field: $type,)*
        }

        crate::runtime::kind!($name, $resource);
    };
}

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Pod {
    pub(super) metadata: PodMeta,
    pub(super) spec: PodSpec,
    pub(super) status: PodStatus,
}

/// A pod's metadata.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodMeta {
    #[serde(flatten)]
    pub(super) meta: Meta,
    /// Once it is being deleted: how long it may take to stop, counted from now on.
    pub(super) deletion_grace_period_seconds: Option<i64>,
}

impl Kind for Pod {
    const RESOURCE: Resource = client::POD;

    fn meta(&self) -> &Meta {
        &self.metadata.meta
    }
}

impl Pod {
    /// Name of the node that it is bound to; empty before.
    pub(super) fn node(&self) -> &str {
        self.spec.node_name.as_deref().unwrap_or_default()
    }

    /// Whether it ran to its end and will never run again.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.status.phase.as_deref(), Some("Succeeded" | "Failed"))
    }

    /// Names of the claims that it uses.
    pub(super) fn claims(&self) -> impl Iterator<Item = &str> {
        let volumes = self.spec.volumes.iter().flatten();
        volumes.filter_map(|volume| {
            let claim = volume.persistent_volume_claim.as_ref()?;
            Some(claim.claim_name.as_str())
        })
    }
}

kind! {
    /// A Node.
    Node, NODE {
        spec: NodeSpec,
        status: NodeStatus,
    }
}
kind! {
    /// A PersistentVolumeClaim.
    Claim, client::PERSISTENT_VOLUME_CLAIM {
        spec: PersistentVolumeClaimSpec,
        status: PersistentVolumeClaimStatus,
    }
}
kind! {
    /// A PersistentVolume.
    Volume, PERSISTENT_VOLUME {
        spec: PersistentVolumeSpec,
        status: PersistentVolumeStatus,
    }
}
kind! {
    /// A StorageClass.
    StorageClass, STORAGE_CLASS {
        provisioner: String,
        reclaim_policy: Option<String>,
        volume_binding_mode: Option<String>,
    }
}

/// A Secret. It has no `Debug`, so that it can't be printed.
#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Secret {
    pub(super) metadata: Meta,
    pub(super) data: Option<BTreeMap<String, ByteString>>,
}

impl Kind for Secret {
    const RESOURCE: Resource = client::SECRET;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

kind! {
    /// A ConfigMap.
    ConfigMap, client::CONFIG_MAP {
        data: Option<BTreeMap<String, String>>,
        binary_data: Option<BTreeMap<String, ByteString>>,
    }
}
kind! {
    /// A Service.
    Service, client::SERVICE {
        spec: ServiceSpec,
    }
}

/// An EndpointSlice, as it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct EndpointSlice {
    pub(super) metadata: Meta,
    /// All but `metadata`.
    #[serde(flatten)]
    pub(super) body: Map<String, Value>,
}

impl Kind for EndpointSlice {
    const RESOURCE: Resource = ENDPOINT_SLICE;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// An Endpoints, as it is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct Endpoints {
    pub(super) metadata: Meta,
    /// All but `metadata`.
    #[serde(flatten)]
    pub(super) body: Map<String, Value>,
}

impl Kind for Endpoints {
    const RESOURCE: Resource = ENDPOINTS;

    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_pod_is_read_with_the_grace_of_its_deletion() {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "a", "namespace": "ns", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 30, "managedFields": [],
            },
            "spec": { "nodeName": "n", "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data-a" } },
                { "name": "tmp", "emptyDir": {} },
            ] },
        }))
        .unwrap();
        assert_eq!(pod.metadata.deletion_grace_period_seconds, Some(30));
        assert!(pod.meta().is_terminating() && !pod.is_over());
        assert_eq!(
            (pod.node(), pod.claims().collect::<Vec<_>>()),
            ("n", vec!["data-a"])
        );
    }
}
