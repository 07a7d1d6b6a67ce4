use super::*;
use serde_json::json;

fn fields(storage: &str, new: &Value, old: Option<&Value>) -> Vec<String> {
    validate(storage, new, old).into_iter().map(|cause| cause.field).collect()
}

#[test]
fn a_secret_has_what_its_type_needs() {
    let tls = json!({"type": "kubernetes.io/tls", "data": {"tls.crt": "eA=="}});
    assert_eq!(fields("secrets", &tls, None), ["data[tls.key]"]);
    let old = json!({"type": "Opaque", "immutable": true, "data": {"a": "eA=="}});
    let new = json!({"type": "Opaque", "immutable": true, "data": {"a": "eQ=="}});
    assert_eq!(fields("secrets", &new, Some(&old)), ["data"]);
}

#[test]
fn a_claim_grows_only_once_it_is_bound() {
    let claim = |size: &str, phase: &str| {
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}},
            "status": {"phase": phase, "capacity": {"storage": "1Gi"}}})
    };
    let grown = claim("2Gi", "Pending");
    assert_eq!(fields("persistentvolumeclaims", &grown, Some(&claim("1Gi", "Pending"))), ["spec"]);
    assert!(fields("persistentvolumeclaims", &grown, Some(&claim("1Gi", "Bound"))).is_empty());
    let shrunk = claim("1Mi", "Bound");
    assert_eq!(
        fields("persistentvolumeclaims", &shrunk, Some(&claim("1Gi", "Bound"))),
        ["spec.resources.requests.storage"]
    );
    let mut named = claim("1Gi", "Pending");
    named["spec"]["volumeName"] = json!("v");
    assert!(fields("persistentvolumeclaims", &named, Some(&claim("1Gi", "Pending"))).is_empty());
}

#[test]
fn a_pod_asks_for_no_more_than_it_may_have() {
    let pod = json!({"spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 0}],
        "resources": {"requests": {"memory": "2Gi", "cpu": "100m"}, "limits": {"memory": "1025Mi", "cpu": "1"}}}]}});
    assert_eq!(
        fields("pods", &pod, None),
        ["spec.containers[0].ports[0].containerPort", "spec.containers[0].resources.requests"]
    );
}
