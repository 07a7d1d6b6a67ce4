//! What a new object is given beside its defaults: its first status.

use serde_json::{Value, json};

use super::{pod, workload};

/// Completes a new object. Its status, where it has one, is empty.
pub(in crate::apiserver::state) fn create(storage: &str, object: &mut Value) {
    match storage {
        "pods" => pod::create(object),
        "namespaces" => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        "services" => object["status"] = json!({"loadBalancer": {}}),
        "persistentvolumeclaims" | "persistentvolumes" => {
            object["status"] = json!({"phase": "Pending"});
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
        "nodes" => {
            object["status"] =
                json!({"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {}});
            if object["spec"].is_null() {
                object["spec"] = json!({});
            }
        }
        "ingresses.networking.k8s.io" => {
            object["status"] = json!({"loadBalancer": {}});
        }
        _ => {}
    }
}
