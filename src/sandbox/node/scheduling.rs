//! What the scheduler writes for the pods that have no node yet. Pure.

use serde_json::{Value, json};

use super::kinds::{Claim, Node, Pod, StorageClass};
use super::schedule::place;
use super::volumes::{SELECTED_NODE, is_bound, waits_for_consumer};
use crate::runtime::{Kind as _, ObjectKey};

/// The scheduler that pods ask for if they ask for none.
const NAME: &str = "default-scheduler";

/// One write that is due.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Bind the pod (of this UID) to a node.
    Bind {
        pod: ObjectKey,
        uid: String,
        node: String,
    },
    /// Patch a claim: its volume is to be made for that node.
    SelectNode(ObjectKey, Value),
    /// Patch the pod's status: no node will do, for this reason.
    Unschedulable {
        pod: ObjectKey,
        uid: String,
        patch: Value,
        why: String,
    },
}

/// What there is.
pub(super) struct World<'a> {
    pub(super) pods: &'a [&'a Pod],
    pub(super) nodes: &'a [&'a Node],
    pub(super) claims: &'a [&'a Claim],
    pub(super) classes: &'a [&'a StorageClass],
}

/// What is to be written next. A pod is bound once its claims are; the volumes come first, for they
/// need to know the node. `now` is the time of a condition's change.
pub(super) fn decide(world: &World<'_>, now: &str) -> Vec<Write> {
    let mut writes = Vec::new();
    // Those that are placed in this pass count for those after them.
    let mut placed: Vec<Pod> = Vec::new();
    for pod in world.pods {
        let theirs = pod
            .spec
            .scheduler_name
            .as_deref()
            .is_some_and(|name| name != NAME);
        if theirs || !pod.node().is_empty() || pod.is_over() || pod.meta().is_terminating() {
            continue;
        }
        let others: Vec<&Pod> = world.pods.iter().copied().chain(&placed).collect();
        let claims = world.claims_of(pod);
        let node = claims
            .as_ref()
            .map_err(Clone::clone)
            .and_then(|_| place(pod, world.nodes, &others));
        let (meta, key) = (pod.meta(), pod.meta().key());
        match (claims, node) {
            (Ok(claims), Ok(node)) => {
                let mut assumed = (*pod).clone();
                assumed.spec.node_name = Some(node.clone());
                placed.push(assumed);
                let unbound: Vec<_> = claims.iter().filter(|claim| !is_bound(claim)).collect();
                if unbound.is_empty() {
                    writes.push(Write::Bind {
                        pod: key,
                        uid: meta.uid.to_string(),
                        node,
                    });
                }
                writes.extend(
                    unbound
                        .iter()
                        .filter_map(|claim| world.select(claim, &node_of(&placed))),
                );
            }
            (_, Err(why)) => writes.extend(unschedulable(pod, &why, now)),
            (Err(_), Ok(_)) => {}
        }
    }
    writes
}

/// The node that was just chosen.
fn node_of(placed: &[Pod]) -> String {
    placed
        .last()
        .map(|pod| pod.node().to_owned())
        .unwrap_or_default()
}

impl World<'_> {
    /// The claims of a pod, or why it can't have them.
    fn claims_of(&self, pod: &Pod) -> Result<Vec<&Claim>, String> {
        let find = |name: &str| {
            let mut claims = self.claims.iter().copied();
            let key = ObjectKey::new(&pod.meta().namespace, name);
            match claims.find(|claim| claim.meta().key() == key) {
                None => Err(format!("persistentvolumeclaim {name:?} not found")),
                Some(claim) if claim.meta().is_terminating() => {
                    Err(format!("persistentvolumeclaim {name:?} is being deleted"))
                }
                Some(claim) if claim.status.phase.as_deref() == Some("Lost") => Err(format!(
                    "persistentvolumeclaim {name:?} bound to non-existent persistentvolume"
                )),
                Some(claim) => Ok(claim),
            }
        };
        pod.claims().map(find).collect()
    }

    fn select(&self, claim: &Claim, node: &str) -> Option<Write> {
        let meta = claim.meta();
        let class = claim.spec.storage_class_name.as_deref();
        let class = self
            .classes
            .iter()
            .find(|c| Some(c.meta().name.as_str()) == class)?;
        if !waits_for_consumer(class) || meta.annotations.contains_key(SELECTED_NODE) {
            return None;
        }
        let patch = json!({ "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": { SELECTED_NODE: node },
        } });
        Some(Write::SelectNode(meta.key(), patch))
    }
}

/// The condition, unless the pod has it.
fn unschedulable(pod: &Pod, why: &str, now: &str) -> Option<Write> {
    let mut conditions = pod.status.conditions.iter().flatten();
    let known = conditions.find(|condition| condition.type_ == "PodScheduled");
    if known.is_some_and(|c| c.status == "False" && c.message.as_deref() == Some(why)) {
        return None;
    }
    let since = known
        .filter(|condition| condition.status == "False")
        .and_then(|condition| condition.last_transition_time.as_ref())
        .map_or_else(|| json!(now), |time| json!(time));
    let condition = json!({
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": why,
        "lastTransitionTime": since,
    });
    Some(Write::Unschedulable {
        pod: pod.meta().key(),
        uid: pod.meta().uid.to_string(),
        patch: json!({
            "metadata": { "uid": pod.meta().uid },
            "status": { "conditions": [condition] },
        }),
        why: why.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn pod(name: &str) -> Pod {
        read(json!({
            "metadata": { "name": name, "namespace": "ns", "uid": name },
            "spec": { "containers": [], "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data" } } ] },
        }))
    }

    fn node() -> Node {
        read(json!({
            "metadata": { "name": "node-1" },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }))
    }

    fn claim(status: &str, annotations: &Value) -> Claim {
        read(json!({
            "metadata": { "name": "data", "namespace": "ns", "annotations": annotations },
            "spec": { "storageClassName": "standard" },
            "status": { "phase": status },
        }))
    }

    fn writes(pods: &[&Pod], nodes: &[&Node], claims: &[&Claim]) -> Vec<Write> {
        let class: StorageClass = read(super::super::volumes::standard_class());
        decide(
            &World {
                pods,
                nodes,
                claims,
                classes: &[&class],
            },
            "2026-01-01T00:00:00Z",
        )
    }

    #[test]
    fn a_pod_is_bound_after_its_claims() {
        let (pod, node) = (pod("a"), node());
        let new = claim("Pending", &json!({}));
        let first = writes(&[&pod], &[&node], &[&new]);
        assert!(
            matches!(&first[..], [Write::SelectNode(_, patch)]
                if patch["metadata"]["annotations"][SELECTED_NODE] == "node-1"),
            "{first:?}"
        );
        let selected = claim("Pending", &json!({ SELECTED_NODE: "node-1" }));
        assert_eq!(
            writes(&[&pod], &[&node], &[&selected]),
            [],
            "its volume is being made"
        );
        let bound = claim("Bound", &json!({ SELECTED_NODE: "node-1" }));
        let last = writes(&[&pod], &[&node], &[&bound]);
        assert!(
            matches!(&last[..], [Write::Bind { node, .. }] if node == "node-1"),
            "{last:?}"
        );
    }

    #[test]
    fn why_a_pod_has_no_node_is_said_once() {
        let mut pod = pod("a");
        let first = writes(&[&pod], &[&node()], &[]);
        let [Write::Unschedulable { patch, why, .. }] = &first[..] else {
            panic!("{first:?}")
        };
        assert_eq!(why, "persistentvolumeclaim \"data\" not found");
        pod.status = read(patch["status"].clone());
        assert_eq!(writes(&[&pod], &[&node()], &[]), []);
        let [Write::Unschedulable { why, .. }] =
            &writes(&[&pod], &[], &[&claim("Bound", &json!({}))])[..]
        else {
            panic!()
        };
        assert_eq!(why, "no nodes available to schedule pods");
    }
}
