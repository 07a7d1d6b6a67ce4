//! What is particular to built-in kinds, as far as an operator or `kubectl` can see it: defaults, what
//! is set on creation, what can't be changed, what is refused.
//!
//! Kinds that are not named here are stored as they come, under the rules for metadata alone.

mod config;
mod create;
mod pod;
mod service;
mod validate;
mod workload;

use serde_json::{Map, Value};

pub(super) use create::create;
pub(super) use validate::{validate, validate_status};

/// Finalizer of claims, which keeps them while a pod uses them.
pub(super) const PVC_PROTECTION: &str = "kubernetes.io/pvc-protection";
/// Finalizer of volumes, which keeps them while a claim is bound to them.
pub(super) const PV_PROTECTION: &str = "kubernetes.io/pv-protection";

/// Sets what a real server's decoding sets.
pub(super) fn default(storage: &str, object: &mut Value) {
    match storage {
        "pods" => pod::default_pod(&mut object["spec"]),
        "podtemplates" => pod::default(&mut object["template"]["spec"]),
        "services" => service::default(object),
        "secrets" => config::default_secret(object),
        "persistentvolumeclaims" => set(&mut object["spec"], "volumeMode", "Filesystem"),
        "endpoints" => {
            for subset in items(object, "subsets") {
                items(subset, "ports").for_each(|port| set(port, "protocol", "TCP"));
            }
        }
        "endpointslices.discovery.k8s.io" => {
            items(object, "ports").for_each(|port| set(port, "protocol", "TCP"));
        }
        "persistentvolumes" => {
            if let Some(path) = object["spec"].get_mut("hostPath") {
                set(path, "type", "");
            }
            set(&mut object["spec"], "volumeMode", "Filesystem");
            set(
                &mut object["spec"],
                "persistentVolumeReclaimPolicy",
                "Retain",
            );
        }
        "namespaces" => {
            let name = super::object::text(object, "name").to_owned();
            if !name.is_empty() {
                object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name.into();
            }
        }
        "storageclasses.storage.k8s.io" => {
            set(object, "reclaimPolicy", "Delete");
            set(object, "volumeBindingMode", "Immediate");
        }
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => {
            config::default_binding(object);
        }
        "deployments.apps"
        | "replicasets.apps"
        | "statefulsets.apps"
        | "daemonsets.apps"
        | "replicationcontrollers"
        | "jobs.batch"
        | "cronjobs.batch" => workload::default(storage, object),
        _ => {}
    }
}

/// Keeps on an update what the server alone decides.
pub(super) fn update(storage: &str, subresource: &str, new: &mut Value, old: &Value) {
    match (storage, subresource) {
        ("services", "") => service::update(new, old),
        ("pods", "") => pod::keep(new, old),
        ("pods", "status") if new["status"]["qosClass"].is_null() => {
            new["status"]["qosClass"] = old["status"]["qosClass"].clone();
        }
        ("namespaces", "") => new["spec"] = old["spec"].clone(),

        _ => {}
    }
}

/// What a write of `status` leaves alone in the metadata of its kind.
pub(super) fn isolate_status(storage: &str, new: &mut Value, old: &Value) {
    let field = match storage {
        "pods" => "ownerReferences",
        "deployments.apps" => "labels",
        _ => return,
    };
    if let Some(metadata) = new["metadata"].as_object_mut() {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
}

/// Sets a member where there is none. Does nothing to what is no object.
fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if object.is_null() {
        *object = Value::Object(Map::new());
    }
    if let Some(object) = object.as_object_mut() {
        let there = object.entry(field.to_owned()).or_insert(Value::Null);
        if there.is_null() {
            *there = value.into();
        }
    }
}

/// The members of a list, to be changed.
fn items<'a>(object: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    object
        .get_mut(field)
        .and_then(Value::as_array_mut)
        .into_iter()
        .flatten()
}

/// The warning that goes with each answer about a kind that is on its way out.
pub(super) fn deprecation(storage: &str) -> Option<&'static str> {
    (storage == "endpoints")
        .then_some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice")
}
