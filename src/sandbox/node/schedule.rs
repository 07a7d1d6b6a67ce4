//! Which node a pod goes to, as kube-scheduler decides for what Mainstay's pods ask. Pure.
//!
//! A node must be ready, schedulable, of the selected labels, and its taints tolerated; required
//! (anti-)affinity between pods must hold. Among those that fit, the preferred anti-affinity decides,
//! then the number of pods, then the name. Resources are not counted: one machine is behind all nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelectorRequirement, NodeSelectorTerm, PodAffinityTerm, Taint, Toleration,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::kinds::{Node, Pod};
use crate::runtime::{Kind as _, Pairs};

/// Where `pod` is to run: the name of a node, or why there is none, as kube-scheduler says it.
pub(super) fn place(pod: &Pod, nodes: &[&Node], pods: &[&Pod]) -> Result<String, String> {
    let present: Vec<&Pod> = pods.iter().copied().filter(|pod| !pod.is_over()).collect();
    let pods = present.as_slice();
    let mut reasons: BTreeMap<String, usize> = BTreeMap::new();
    let mut fitting = Vec::new();
    for node in nodes {
        match obstacle(pod, node, nodes, pods) {
            None => fitting.push(*node),
            Some(reason) => *reasons.entry(reason).or_default() += 1,
        }
    }
    let best = fitting.into_iter().min_by_key(|node| {
        let name = &node.meta().name;
        let load = pods.iter().filter(|pod| pod.node() == name).count();
        (dislike(pod, node, nodes, pods), load, name.clone())
    });
    if let Some(node) = best {
        return Ok(node.meta().name.to_string());
    }
    let why: Vec<_> = reasons
        .iter()
        .map(|(why, count)| format!("{count} {why}"))
        .collect();
    let total = nodes.len();
    Err(if why.is_empty() {
        "no nodes available to schedule pods".to_owned()
    } else {
        format!("0/{total} nodes are available: {}.", why.join(", "))
    })
}

/// Why the pod can't run there, in kube-scheduler's words.
fn obstacle(pod: &Pod, node: &Node, nodes: &[&Node], pods: &[&Pod]) -> Option<String> {
    if node.spec.unschedulable == Some(true) {
        return Some("node(s) were unschedulable".to_owned());
    }
    if !is_ready(node) {
        return Some("node(s) were not ready".to_owned());
    }
    let taints = node.spec.taints.iter().flatten();
    let mut hard = taints.filter(|taint| taint.effect != "PreferNoSchedule");
    if let Some(taint) = hard.find(|taint| !is_tolerated(pod, taint)) {
        let value = taint.value.as_deref().unwrap_or_default();
        return Some(format!(
            "node(s) had untolerated taint {{{}: {value}}}",
            taint.key
        ));
    }
    let labels = &node.meta().labels;
    let selector = pod.spec.node_selector.iter().flatten();
    let required = pod.spec.affinity.as_ref().and_then(|affinity| {
        let node = affinity.node_affinity.as_ref()?;
        node.required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let selected = selector
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value.as_str()))
        && required.is_none_or(|r| r.node_selector_terms.iter().any(|t| selects(t, node)));
    if !selected {
        return Some("node(s) didn't match Pod's node affinity/selector".to_owned());
    }
    let affinity = pod.spec.affinity.as_ref();
    let near = affinity.and_then(|affinity| {
        let terms = affinity.pod_affinity.as_ref()?;
        terms
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    if near.into_iter().flatten().any(|term| {
        let alone =
            !pods.iter().any(|other| concerns(term, pod, other)) && concerns(term, pod, pod);
        !alone && !meets(term, pod, node, nodes, pods)
    }) {
        return Some("node(s) didn't match pod affinity rules".to_owned());
    }
    if required_apart(pod).any(|term| meets(term, pod, node, nodes, pods)) {
        return Some("node(s) didn't match pod anti-affinity rules".to_owned());
    }
    let resented = pods.iter().any(|other| {
        let is_there = |term| together(term, node, other.node(), nodes);
        required_apart(other).any(|term| concerns(term, other, pod) && is_there(term))
    });
    resented.then(|| "node(s) didn't satisfy existing pods anti-affinity rules".to_owned())
}

/// How much the pod would rather not run there.
fn dislike(pod: &Pod, node: &Node, nodes: &[&Node], pods: &[&Pod]) -> i32 {
    let terms = pod.spec.affinity.as_ref().and_then(|affinity| {
        let apart = affinity.pod_anti_affinity.as_ref()?;
        apart
            .preferred_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let count = |term: &PodAffinityTerm| {
        let there =
            |other: &&&Pod| concerns(term, pod, other) && together(term, node, other.node(), nodes);
        i32::try_from(pods.iter().filter(there).count()).unwrap_or(i32::MAX)
    };
    let terms = terms.into_iter().flatten();
    terms
        .map(|term| term.weight.saturating_mul(count(&term.pod_affinity_term)))
        .fold(0, i32::saturating_add)
}

fn required_apart(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let terms = pod.spec.affinity.as_ref().and_then(|affinity| {
        let apart = affinity.pod_anti_affinity.as_ref()?;
        apart
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    terms.into_iter().flatten()
}

/// Whether a pod that the term is about runs in the node's topology domain.
fn meets(term: &PodAffinityTerm, pod: &Pod, node: &Node, nodes: &[&Node], pods: &[&Pod]) -> bool {
    pods.iter()
        .any(|other| concerns(term, pod, other) && together(term, node, other.node(), nodes))
}

/// Whether a term of `pod` is about `other`.
fn concerns(term: &PodAffinityTerm, pod: &Pod, other: &Pod) -> bool {
    let namespace = &other.meta().namespace;
    let in_namespace = match &term.namespaces {
        Some(namespaces) if !namespaces.is_empty() => namespaces.iter().any(|n| n == namespace),
        _ => pod.meta().namespace == *namespace,
    };
    in_namespace
        && term
            .label_selector
            .as_ref()
            .is_some_and(|selector| matches_selector(selector, &other.meta().labels))
}

/// Whether both nodes are in one domain of the term's topology.
fn together(term: &PodAffinityTerm, node: &Node, other: &str, nodes: &[&Node]) -> bool {
    let other = nodes.iter().find(|node| node.meta().name == other);
    let here = node.meta().labels.get(&term.topology_key);
    here.is_some() && other.is_some_and(|it| it.meta().labels.get(&term.topology_key) == here)
}

/// Whether the labels are selected.
pub(super) fn matches_selector(selector: &LabelSelector, labels: &Pairs) -> bool {
    let wanted = selector.match_labels.iter().flatten();
    let mut expressions = selector.match_expressions.iter().flatten();
    wanted
        .into_iter()
        .all(|(key, value)| labels.get(key) == Some(value.as_str()))
        && expressions.all(|e| holds(&e.key, &e.operator, e.values.as_deref(), labels))
}

fn selects(term: &NodeSelectorTerm, node: &Node) -> bool {
    let name = Pairs::from([("metadata.name", node.meta().name.as_str())]);
    let all = |requirements: &Option<Vec<NodeSelectorRequirement>>, labels: &Pairs| {
        let mut all = requirements.iter().flatten();
        all.all(|r| holds(&r.key, &r.operator, r.values.as_deref(), labels))
    };
    all(&term.match_expressions, &node.meta().labels) && all(&term.match_fields, &name)
}

fn holds(key: &str, operator: &str, values: Option<&[String]>, labels: &Pairs) -> bool {
    let label = labels.get(key);
    let values = values.unwrap_or_default();
    let number = |text: &str| text.parse::<i64>().ok();
    let compare = |greater: bool| {
        let (label, value) = (
            label.and_then(number),
            values.first().and_then(|value| number(value)),
        );
        label
            .zip(value)
            .is_some_and(|(label, value)| (label > value) == greater && label != value)
    };
    match operator {
        "In" => label.is_some_and(|label| values.iter().any(|value| value == label)),
        "NotIn" => label.is_none_or(|label| !values.iter().any(|value| value == label)),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        "Gt" => compare(true),
        "Lt" => compare(false),
        _ => false,
    }
}

fn is_ready(node: &Node) -> bool {
    let mut conditions = node.status.conditions.iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn is_tolerated(pod: &Pod, taint: &Taint) -> bool {
    let tolerates = |toleration: &Toleration| {
        let key = toleration.key.as_deref().unwrap_or_default();
        let effect = toleration.effect.as_deref().unwrap_or_default();
        let exists = toleration.operator.as_deref() == Some("Exists");
        (key == taint.key || (key.is_empty() && exists))
            && (effect.is_empty() || effect == taint.effect)
            && (exists
                || toleration.value.as_deref().unwrap_or_default()
                    == taint.value.as_deref().unwrap_or_default())
    };
    pod.spec.tolerations.iter().flatten().any(tolerates)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn node(name: &str, zone: &str, spec: &Value) -> Node {
        serde_json::from_value(json!({
            "metadata": { "name": name, "labels": { "zone": zone, "kubernetes.io/hostname": name } },
            "spec": spec,
            "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
        }))
        .unwrap()
    }

    fn pod(name: &str, on: &str, spec: &Value) -> Pod {
        let mut pod: Pod = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "ns", "labels": { "app": "demo" } },
            "spec": spec,
        }))
        .unwrap();
        pod.spec.node_name = (!on.is_empty()).then(|| on.to_owned());
        pod
    }

    fn apart(kind: &str, key: &str) -> Value {
        let term =
            json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": "demo" } } });
        let term = match kind {
            "required" => term,
            _ => json!({ "weight": 100, "podAffinityTerm": term }),
        };
        json!({ "affinity": { "podAntiAffinity": {
            format!("{kind}DuringSchedulingIgnoredDuringExecution"): [term] } } })
    }

    #[test]
    fn pods_that_prefer_to_be_apart_are_spread_and_share_where_they_must() {
        let nodes = ["a", "b"].map(|name| node(name, "z", &json!({})));
        let nodes: Vec<_> = nodes.iter().collect();
        let spec = apart("preferred", "kubernetes.io/hostname");
        let mut placed = Vec::new();
        for index in 0..3 {
            let new = pod(&index.to_string(), "", &spec);
            let at = place(&new, &nodes, &placed.iter().collect::<Vec<_>>()).unwrap();
            placed.push(pod(&index.to_string(), &at, &spec));
        }
        let at: Vec<_> = placed.iter().map(Pod::node).collect();
        assert_eq!(at, ["a", "b", "a"]);
    }

    #[test]
    fn pods_that_must_be_apart_wait_and_are_told_why() {
        let nodes = [node("a", "z1", &json!({})), node("b", "z1", &json!({}))];
        let nodes: Vec<_> = nodes.iter().collect();
        let spec = apart("required", "zone");
        let first = pod("0", "a", &spec);
        let second = pod("1", "", &spec);
        assert_eq!(
            place(&second, &nodes, &[&first]).unwrap_err(),
            "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
        );
        // A pod without such a wish is still kept away by the other's.
        let plain = pod("2", "", &json!({}));
        assert!(
            place(&plain, &nodes, &[&first])
                .unwrap_err()
                .contains("existing pods")
        );
        let mut over = first;
        over.status.phase = Some("Succeeded".to_owned());
        assert_eq!(place(&second, &nodes, &[&over]).as_deref(), Ok("a"));
    }

    #[test]
    fn nodes_are_left_out_for_each_of_their_reasons() {
        let mut dead = node("dead", "z", &json!({}));
        dead.status.conditions = None;
        let taint = json!({ "taints": [{ "key": "db", "value": "x", "effect": "NoSchedule" }] });
        let nodes = [
            node("cordoned", "z", &json!({ "unschedulable": true })),
            dead,
            node("tainted", "z", &taint),
            node("other", "far", &json!({})),
        ];
        let nodes: Vec<_> = nodes.iter().collect();
        let asked = pod("0", "", &json!({ "nodeSelector": { "zone": "z" } }));
        assert_eq!(
            place(&asked, &nodes, &[]).unwrap_err(),
            "0/4 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
             1 node(s) had untolerated taint {db: x}, 1 node(s) were not ready, \
             1 node(s) were unschedulable."
        );
        let tolerant = pod(
            "0",
            "",
            &json!({
                "nodeSelector": { "zone": "z" },
                "tolerations": [{ "key": "db", "operator": "Exists" }],
            }),
        );
        assert_eq!(place(&tolerant, &nodes, &[]).as_deref(), Ok("tainted"));
        assert_eq!(
            place(&asked, &[], &[]).unwrap_err(),
            "no nodes available to schedule pods"
        );
    }
}
