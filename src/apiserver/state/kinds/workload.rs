//! Deployments and their kin.

use serde_json::{Value, json};

use super::{pod, set};

pub(super) fn default(storage: &str, object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        return;
    }
    match storage {
        "deployments.apps" => deployment(spec),
        "replicasets.apps" => set(spec, "replicas", 1),
        "replicationcontrollers" => replication_controller(object),
        "statefulsets.apps" => stateful_set(spec),
        "daemonsets.apps" => daemon_set(spec),
        "jobs.batch" => job(spec),
        _ => {
            set(spec, "concurrencyPolicy", "Allow");
            set(spec, "suspend", false);
            set(spec, "successfulJobsHistoryLimit", 3);
            set(spec, "failedJobsHistoryLimit", 1);
            pod::default(&mut spec["jobTemplate"]["spec"]["template"]["spec"]);
            return;
        }
    }
    pod::default(&mut object["spec"]["template"]["spec"]);
}

fn deployment(spec: &mut Value) {
    set(spec, "replicas", 1);
    set(&mut spec["strategy"], "type", "RollingUpdate");
    if spec["strategy"]["type"] == "RollingUpdate" {
        let rolling = &mut spec["strategy"]["rollingUpdate"];
        set(rolling, "maxUnavailable", "25%");
        set(rolling, "maxSurge", "25%");
    }
    set(spec, "revisionHistoryLimit", 10);
    set(spec, "progressDeadlineSeconds", 600);
}

fn replication_controller(object: &mut Value) {
    set(&mut object["spec"], "replicas", 1);
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() {
        set(&mut object["spec"], "selector", labels.clone());
        set(&mut object["metadata"], "labels", labels);
    }
}

fn stateful_set(spec: &mut Value) {
    set(spec, "replicas", 1);
    set(spec, "podManagementPolicy", "OrderedReady");
    set(&mut spec["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        let rolling = &mut spec["updateStrategy"]["rollingUpdate"];
        set(rolling, "partition", 0);
        set(rolling, "maxUnavailable", 1);
    }
    set(spec, "revisionHistoryLimit", 10);
    let retention = &mut spec["persistentVolumeClaimRetentionPolicy"];
    set(retention, "whenDeleted", "Retain");
    set(retention, "whenScaled", "Retain");
    for claim in super::items(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        set(&mut claim["spec"], "volumeMode", "Filesystem");
        set(&mut claim["status"], "phase", "Pending");
    }
}

fn daemon_set(spec: &mut Value) {
    set(&mut spec["updateStrategy"], "type", "RollingUpdate");
    if spec["updateStrategy"]["type"] == "RollingUpdate" {
        let rolling = &mut spec["updateStrategy"]["rollingUpdate"];
        set(rolling, "maxUnavailable", 1);
        set(rolling, "maxSurge", 0);
    }
    set(spec, "revisionHistoryLimit", 10);
}

fn job(spec: &mut Value) {
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        set(spec, "completions", 1);
    }
    set(spec, "parallelism", 1);
    set(spec, "backoffLimit", 6);
    set(spec, "completionMode", "NonIndexed");
    set(spec, "suspend", false);
    set(spec, "manualSelector", false);
    set(spec, "podReplacementPolicy", "TerminatingOrFailed");
}

/// What a new Job is given: a selector for its own pods.
pub(super) fn create_job(object: &mut Value) {
    if object["spec"]["manualSelector"] == json!(true) {
        return;
    }
    let uid = object["metadata"]["uid"].clone();
    let name = object["metadata"]["name"].clone();
    let labels = &mut object["spec"]["template"]["metadata"]["labels"];
    for (key, value) in [
        ("controller-uid", &uid),
        ("job-name", &name),
        ("batch.kubernetes.io/controller-uid", &uid),
        ("batch.kubernetes.io/job-name", &name),
    ] {
        set(labels, key, value.clone());
    }
    object["spec"]["selector"] =
        json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deployment_rolls_by_default() {
        let mut object = json!({"spec": {"template": {"spec": {"containers": []}}}});
        default("deployments.apps", &mut object);
        assert_eq!(object["spec"]["replicas"], 1);
        assert_eq!(
            object["spec"]["strategy"]["rollingUpdate"]["maxSurge"],
            "25%"
        );
        assert_eq!(
            object["spec"]["template"]["spec"]["restartPolicy"],
            "Always"
        );
    }
}
