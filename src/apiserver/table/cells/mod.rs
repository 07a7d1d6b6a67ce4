//! The cells of built-in kinds, as kube-apiserver's printers make them.

mod access;
mod events;
mod network;
mod node;
mod pod;
mod storage;
mod workload;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use crate::apiserver::ResourceInfo;

/// An object to print, with what is around it.
#[derive(Clone, Copy)]
struct Printed<'a> {
    object: &'a Value,
    /// All that are in the same table.
    all: &'a [&'a Value],
    now: Timestamp,
}

/// The cells of an object; `None` for kinds that have no printer.
pub(super) fn builtin(
    info: &ResourceInfo,
    object: &Value,
    all: &[&Value],
    now: Timestamp,
) -> Option<Vec<Value>> {
    let it = Printed { object, all, now };
    Some(match (info.group.as_str(), info.kind.as_str()) {
        ("", "ConfigMap") => vec![it.name(), it.count(&["/data", "/binaryData"]), it.age()],
        ("", "Secret") => vec![it.name(), it.text("/type"), it.count(&["/data"]), it.age()],
        ("", "ServiceAccount") => vec![it.name(), it.age()],
        ("", "Namespace") => vec![it.name(), it.text("/status/phase"), it.age()],
        ("", "Node") => node::node(it),
        ("", "Pod") => pod::pod(it),
        ("", "PodTemplate") => workload::pod_template(it),
        ("", "ReplicationController") => workload::replication_controller(it),
        ("", "ResourceQuota") => node::resource_quota(it),
        ("" | "events.k8s.io", "Event") => events::event(it),
        ("", "PersistentVolume") => storage::persistent_volume(it),
        ("", "PersistentVolumeClaim") => storage::persistent_volume_claim(it),
        ("", "Service") => network::service(it),
        ("", "Endpoints") => network::endpoints(it),
        ("discovery.k8s.io", "EndpointSlice") => network::endpoint_slice(it),
        ("networking.k8s.io", "Ingress") => network::ingress(it),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(it),
        ("networking.k8s.io", "NetworkPolicy") => {
            vec![
                it.name(),
                json!(selector(it.at("/spec/podSelector"))),
                it.age(),
            ]
        }
        ("apps", "ControllerRevision") => workload::controller_revision(it),
        ("apps", "DaemonSet") => workload::daemon_set(it),
        ("apps", "Deployment") => workload::deployment(it),
        ("apps", "ReplicaSet") => workload::replica_set(it),
        ("apps", "StatefulSet") => workload::stateful_set(it),
        ("batch", "CronJob") => workload::cron_job(it),
        ("batch", "Job") => workload::job(it),
        ("autoscaling", "HorizontalPodAutoscaler") => workload::autoscaler(it),
        ("policy", "PodDisruptionBudget") => workload::disruption_budget(it),
        ("coordination.k8s.io", "Lease") => {
            vec![it.name(), it.text("/spec/holderIdentity"), it.age()]
        }
        ("storage.k8s.io", "StorageClass") => storage::storage_class(it),
        ("storage.k8s.io", "CSIDriver") => storage::driver(it),
        ("storage.k8s.io", "CSINode") => {
            vec![it.name(), it.count(&["/spec/drivers"]), it.age()]
        }
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(it),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => access::binding(it),
        ("scheduling.k8s.io", "PriorityClass") => vec![
            it.name(),
            it.number("/value"),
            it.flag("/globalDefault", false),
            it.age(),
            it.text("/preemptionPolicy"),
        ],
        (
            "admissionregistration.k8s.io",
            "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration",
        ) => vec![it.name(), it.count(&["/webhooks"]), it.age()],
        ("apiextensions.k8s.io", "CustomResourceDefinition") => access::definition(it),
        ("apiregistration.k8s.io", "APIService") => access::api_service(it),
        _ => return None,
    })
}

/// What is said of a row: that a pod is done.
pub(super) fn conditions(info: &ResourceInfo, object: &Value) -> Option<Value> {
    if !info.group.is_empty() || info.kind != "Pod" {
        return None;
    }
    let message = match object["status"]["phase"].as_str()? {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return None,
    };
    Some(json!([{
        "type": "Completed",
        "status": "True",
        "reason": object["status"]["phase"],
        "message": message,
    }]))
}

impl<'a> Printed<'a> {
    fn at(self, pointer: &str) -> &'a Value {
        self.object.pointer(pointer).unwrap_or(&Value::Null)
    }

    fn str(self, pointer: &str) -> &'a str {
        self.at(pointer).as_str().unwrap_or_default()
    }

    fn list(self, pointer: &str) -> &'a [Value] {
        list(self.at(pointer))
    }

    fn name(self) -> Value {
        self.at("/metadata/name").clone()
    }

    /// A text, empty where there is none.
    fn text(self, pointer: &str) -> Value {
        json!(self.str(pointer))
    }

    /// A text, or what stands for none.
    fn text_or(self, pointer: &str, none: &str) -> Value {
        match self.str(pointer) {
            "" => json!(none),
            text => json!(text),
        }
    }

    fn integer(self, pointer: &str) -> i64 {
        self.at(pointer).as_i64().unwrap_or_default()
    }

    /// A number, 0 where there is none.
    fn number(self, pointer: &str) -> Value {
        json!(self.integer(pointer))
    }

    fn flag(self, pointer: &str, unset: bool) -> Value {
        json!(self.at(pointer).as_bool().unwrap_or(unset))
    }

    /// How many members these have together.
    fn count(self, pointers: &[&str]) -> Value {
        let sizes = pointers.iter().map(|pointer| match self.at(pointer) {
            Value::Object(fields) => fields.len(),
            Value::Array(items) => items.len(),
            _ => 0,
        });
        json!(sizes.sum::<usize>())
    }

    fn since(self, pointer: &str) -> String {
        age::since(self.at(pointer), self.now)
    }

    fn age(self) -> Value {
        json!(self.since("/metadata/creationTimestamp"))
    }

    fn deleted(self) -> bool {
        self.at("/metadata/deletionTimestamp").is_string()
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn str_of<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_default()
}

/// A count or a percentage as it was given.
fn int_or_string(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Labels as `a=b,c=d`, `<none>` for none.
fn labels(labels: &Value) -> String {
    let pairs = labels.as_object().into_iter().flatten();
    let all: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if all.is_empty() {
        "<none>".to_owned()
    } else {
        all.join(",")
    }
}

/// A label selector, `<none>` where it asks for nothing.
fn selector(selector: &Value) -> String {
    match requirements(selector) {
        all if all.is_empty() => "<none>".to_owned(),
        all => all,
    }
}

/// What a label selector asks for, by key.
fn requirements(selector: &Value) -> String {
    let mut all: Vec<(String, String)> = Vec::new();
    for (key, value) in selector["matchLabels"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default();
        all.push((key.clone(), format!("{key}={value}")));
    }
    for expression in list(&selector["matchExpressions"]) {
        let key = str_of(expression, "key");
        let mut values: Vec<&str> = list(&expression["values"])
            .iter()
            .filter_map(Value::as_str)
            .collect();
        values.sort_unstable();
        let values = values.join(",");
        let shown = match str_of(expression, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        all.push((key.to_owned(), shown));
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    let shown: Vec<String> = all.into_iter().map(|(_, shown)| shown).collect();
    shown.join(",")
}

/// The names and the images of containers.
fn containers(containers: &Value) -> [Value; 2] {
    ["name", "image"].map(|field| {
        let all: Vec<&str> = list(containers)
            .iter()
            .map(|one| str_of(one, field))
            .collect();
        json!(all.join(","))
    })
}

/// The first few of a list, and how many more there are.
fn few(shown: &[String], most: usize) -> String {
    if shown.is_empty() {
        return "<unset>".to_owned();
    }
    let first = shown
        .iter()
        .take(most)
        .cloned()
        .collect::<Vec<_>>()
        .join(",");
    match shown.len() {
        count if count > most => format!("{first} + {} more...", count - most),
        _ => first,
    }
}
