//! Nodes and quotas.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Printed, str_of};

pub(super) fn node(it: Printed<'_>) -> Vec<Value> {
    let mut conditions = it.list("/status/conditions").iter();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let mut status = match ready.map(|ready| &ready["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if it.at("/spec/unschedulable") == true {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let mut addresses = it.list("/status/addresses").iter();
        let found = addresses.find(|address| address["type"] == kind);
        json!(found.map_or("<none>", |address| str_of(address, "address")))
    };
    let kernel = it.text_or("/status/nodeInfo/kernelVersion", "<unknown>");
    let kernel = match (
        kernel.as_str().unwrap_or_default(),
        it.str("/status/nodeInfo/architecture"),
    ) {
        (kernel, "") => kernel.to_owned(),
        (kernel, architecture) => format!("{kernel} ({architecture})"),
    };
    vec![
        it.name(),
        json!(status),
        json!(roles(it)),
        it.age(),
        it.text("/status/nodeInfo/kubeletVersion"),
        address("InternalIP"),
        address("ExternalIP"),
        it.text_or("/status/nodeInfo/osImage", "<unknown>"),
        json!(kernel),
        it.text_or("/status/nodeInfo/containerRuntimeVersion", "<unknown>"),
    ]
}

fn roles(it: Printed<'_>) -> String {
    let labels = it.at("/metadata/labels").as_object();
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.as_str() {
            "kubernetes.io/role" => value.as_str(),
            key => key.strip_prefix("node-role.kubernetes.io/"),
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn resource_quota(it: Printed<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = it.at("/status/hard").as_object();
    for (resource, hard) in hard.into_iter().flatten() {
        let used = it.at("/status/used")[resource].as_str().unwrap_or("0");
        let shown = format!("{resource}: {used}/{}", hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") {
            limits.push(shown);
        } else {
            requests.push(shown);
        }
    }
    vec![
        it.name(),
        json!(requests.join(", ")),
        json!(limits.join(", ")),
        it.age(),
    ]
}
