//! What a new object is given beside its defaults: its first status.

use serde_json::{Value, json};

use super::super::object::texts;
use super::{pod, workload};

/// Completes a new object. Its status, where it has one, is empty.
pub(in crate::apiserver::state) fn create(storage: &str, object: &mut Value, now: &str) {
    match storage {
        "pods" => pod::create(object),
        "namespaces" => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        "services" => {
            super::service::create(object);
            object["status"] = json!({"loadBalancer": {}});
        }
        "persistentvolumeclaims" => {
            protect(object, super::PVC_PROTECTION);
            object["status"] = json!({"phase": "Pending"});
        }
        "persistentvolumes" => {
            protect(object, super::PV_PROTECTION);
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        "poddisruptionbudgets.policy" => {
            object["status"] = json!({"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0});
        }
        "deployments.apps" | "cronjobs.batch" | "resourcequotas" => object["status"] = json!({}),
        "jobs.batch" => {
            workload::create_job(object);
            object["status"] = json!({});
        }
        "replicasets.apps" | "replicationcontrollers" => object["status"] = json!({"replicas": 0}),
        "statefulsets.apps" => object["status"] = json!({"replicas": 0, "availableReplicas": 0}),
        "daemonsets.apps" => {
            object["status"] = json!({"currentNumberScheduled": 0, "numberMisscheduled": 0,
                "desiredNumberScheduled": 0, "numberReady": 0});
        }
        "nodes" if object["spec"].is_null() => object["spec"] = json!({}),
        "ingresses.networking.k8s.io" => {
            object["status"] = json!({"loadBalancer": {}});
        }
        _ => {}
    }
}

/// Adds the finalizer that keeps what is in use.
fn protect(object: &mut Value, finalizer: &str) {
    let mut finalizers = texts(object, "finalizers");
    if !finalizers.iter().any(|name| name == finalizer) {
        finalizers.push(finalizer.to_owned());
    }
    object["metadata"]["finalizers"] = json!(finalizers);
}
