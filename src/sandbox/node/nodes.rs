//! The Node objects. Pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::kinds::{Node, Pod};
use crate::runtime::Kind as _;

/// One write that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Create a Node.
    Create(Value),
    /// Merge into a Node's status.
    Status(Value),
}

/// How long a node may be silent until it counts as lost (kube-controller-manager's
/// `--node-monitor-grace-period`).
pub(super) const MONITOR_GRACE: Duration = Duration::from_secs(50);
/// How long a pod may stay on a lost node (the toleration that each pod is given).
pub(super) const EVICTION: Duration = Duration::from_mins(5);

/// What becomes of a pod on a lost node.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Lost {
    /// Patch its status: nobody knows that it is ready any more.
    NotReady(Value),
    /// Delete it. It goes once its node is back, or by force.
    Evict,
}

/// What is to be done with a pod on a node that has been lost for so long.
pub(super) fn on_lost_node(pod: &Pod, lost: Duration, now: Timestamp) -> Option<Lost> {
    let mut conditions = pod.status.conditions.iter().flatten();
    if conditions.any(|c| c.type_ == "Ready" && c.status == "True") {
        let condition = json!({
            "type": "Ready", "status": "False", "lastTransitionTime": format!("{now:.0}"),
        });
        return Some(Lost::NotReady(json!({
            "metadata": { "uid": pod.meta().uid },
            "status": { "conditions": [condition] },
        })));
    }
    (lost >= EVICTION && !pod.meta().is_terminating()).then_some(Lost::Evict)
}

/// The name of a node, counted from 0.
pub(super) fn name(index: usize) -> String {
    format!("node-{}", index + 1)
}

/// What is to be written so that the node is there and ready (or not), at its address.
pub(super) fn decide(
    index: usize,
    address: &str,
    ready: bool,
    live: Option<&Node>,
    now: Timestamp,
) -> Option<Write> {
    let Some(live) = live else {
        return Some(Write::Create(node(index)));
    };
    let mut known = live.status.conditions.iter().flatten();
    let wanted = if ready { "True" } else { "Unknown" };
    if known.any(|c| c.type_ == "Ready" && c.status == wanted) {
        return None;
    }
    Some(Write::Status(json!({
        "metadata": { "uid": live.meta().uid },
        "status": status(&live.meta().name, address, ready, now),
    })))
}

fn node(index: usize) -> Value {
    let name = name(index);
    // Each node is a zone of its own: a topology to spread over.
    let zone = char::from(b'a' + u8::try_from(index % 26).unwrap_or(0));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": arch(),
                "topology.kubernetes.io/region": "local",
                "topology.kubernetes.io/zone": format!("local-{zone}"),
            },
        },
        "spec": { "providerID": format!("sandbox://{name}") },
    })
}

/// As Kubernetes names it.
fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn status(name: &str, address: &str, ready: bool, now: Timestamp) -> Value {
    let now = format!("{now:.0}");
    let condition = |kind: &str, status: &str, reason: &str, message: &str| {
        json!({
            "type": kind, "status": status, "reason": reason, "message": message,
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        })
    };
    let pressure = |kind: &str, what: &str| {
        let reason = format!("KubeletHasSufficient{what}");
        condition(
            kind,
            "False",
            &reason,
            &format!("kubelet has sufficient {what}"),
        )
    };
    let ready = if ready {
        condition(
            "Ready",
            "True",
            "KubeletReady",
            "kubelet is posting ready status",
        )
    } else {
        condition(
            "Ready",
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
        )
    };
    // One machine is behind all nodes, so their sizes are no promise; they are large enough for what
    // is run here.
    let resources =
        json!({ "cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "1Ti" });
    json!({
        "conditions": [
            pressure("MemoryPressure", "Memory"),
            pressure("DiskPressure", "Disk"),
            pressure("PIDPressure", "PID"),
            ready,
        ],
        "addresses": [
            { "type": "InternalIP", "address": address },
            { "type": "Hostname", "address": name },
        ],
        "capacity": resources,
        "allocatable": resources,
        "nodeInfo": {
            "architecture": arch(),
            "operatingSystem": "linux",
            "osImage": "Mainstay sandbox",
            "kernelVersion": "",
            "containerRuntimeVersion": concat!("sandbox://", env!("CARGO_PKG_VERSION")),
            "kubeletVersion": concat!("v", env!("CARGO_PKG_VERSION"), "-mainstay"),
            "kubeProxyVersion": "",
            "machineID": "", "systemUUID": "", "bootID": "",
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_created_then_made_ready_then_left_alone() {
        let now = Timestamp::UNIX_EPOCH;
        let Some(Write::Create(mut node)) = decide(0, "10.0.0.1", true, None, now) else {
            panic!()
        };
        assert_eq!(
            node["metadata"]["labels"]["topology.kubernetes.io/zone"],
            "local-a"
        );
        let live: Node = serde_json::from_value(node.clone()).unwrap();
        let Some(Write::Status(patch)) = decide(0, "10.0.0.1", true, Some(&live), now) else {
            panic!()
        };
        assert_eq!(node["metadata"]["name"], "node-1");
        node["status"] = patch["status"].clone();
        let live: Node = serde_json::from_value(node).unwrap();
        assert_eq!(decide(0, "10.0.0.1", true, Some(&live), now), None);
        assert!(matches!(
            decide(0, "10.0.0.1", false, Some(&live), now),
            Some(Write::Status(..))
        ));
    }

    #[test]
    fn a_pod_on_a_lost_node_is_not_ready_then_evicted() {
        let now = Timestamp::UNIX_EPOCH;
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": "a", "uid": "u" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }))
        .unwrap();
        let Some(Lost::NotReady(patch)) = on_lost_node(&pod, Duration::ZERO, now) else {
            panic!()
        };
        pod.status = serde_json::from_value(patch["status"].clone()).unwrap();
        assert_eq!(on_lost_node(&pod, Duration::from_secs(299), now), None);
        assert_eq!(on_lost_node(&pod, EVICTION, now), Some(Lost::Evict));
        pod.metadata.meta.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
        assert_eq!(on_lost_node(&pod, EVICTION, now), None);
    }
}
