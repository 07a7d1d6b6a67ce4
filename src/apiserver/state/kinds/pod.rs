//! Pods, and the pod templates of everything else.

use serde_json::{Value, json};

use super::{items, set};

/// Defaults of a pod itself, which its template does not have.
pub(super) fn default_pod(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    default(spec);
    set(spec, "enableServiceLinks", true);
    for field in ["initContainers", "containers"] {
        for container in items(spec, field) {
            let limits = container["resources"]["limits"].clone();
            for (resource, limit) in limits.as_object().into_iter().flatten() {
                set(&mut container["resources"]["requests"], resource, limit.clone());
            }
        }
    }
}

/// Defaults of a pod's spec, in a pod or in a template.
pub(super) fn default(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    set(spec, "restartPolicy", "Always");
    set(spec, "dnsPolicy", "ClusterFirst");
    set(spec, "schedulerName", "default-scheduler");
    set(spec, "terminationGracePeriodSeconds", 30);
    set(spec, "securityContext", json!({}));
    if let Some(account) = spec["serviceAccountName"].as_str().map(str::to_owned)
        && !account.is_empty()
    {
        set(spec, "serviceAccount", account);
    }
    for field in ["initContainers", "containers", "ephemeralContainers"] {
        items(spec, field).for_each(container);
    }
    items(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value) {
    set(container, "terminationMessagePath", "/dev/termination-log");
    set(container, "terminationMessagePolicy", "File");
    set(container, "resources", json!({}));
    let image = container["image"].as_str().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let pinned = name.contains('@') || name.split_once(':').is_some_and(|(_, tag)| tag != "latest");
    set(
        container,
        "imagePullPolicy",
        if pinned { "IfNotPresent" } else { "Always" },
    );
    for port in items(container, "ports") {
        set(port, "protocol", "TCP");
    }
    for variable in items(container, "env") {
        if let Some(field) = variable["valueFrom"].get_mut("fieldRef") {
            set(field, "apiVersion", "v1");
        }
    }
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = container.get_mut(name).filter(|probe| probe.is_object()) {
            self::probe(probe);
        }
    }
}

fn probe(probe: &mut Value) {
    set(probe, "timeoutSeconds", 1);
    set(probe, "periodSeconds", 10);
    set(probe, "successThreshold", 1);
    set(probe, "failureThreshold", 3);
    if let Some(get) = probe.get_mut("httpGet") {
        set(get, "path", "/");
        set(get, "scheme", "HTTP");
    }
    if let Some(grpc) = probe.get_mut("grpc") {
        set(grpc, "service", "");
    }
}

fn volume(volume: &mut Value) {
    let Some(volume) = volume.as_object_mut() else {
        return;
    };
    for (kind, source) in volume {
        match kind.as_str() {
            "secret" | "configMap" => set(source, "defaultMode", 0o644),
            "downwardAPI" => {
                set(source, "defaultMode", 0o644);
                items(source, "items")
                    .for_each(|item| set(&mut item["fieldRef"], "apiVersion", "v1"));
            }
            "hostPath" => set(source, "type", ""),
            "projected" => {
                set(source, "defaultMode", 0o644);
                for source in items(source, "sources") {
                    if let Some(token) = source.get_mut("serviceAccountToken") {
                        set(token, "expirationSeconds", 3600);
                    }
                }
            }
            _ => {}
        }
    }
}

/// What a new pod is given: by the admission plugins that every cluster runs, and its first status.
pub(super) fn create(pod: &mut Value) {
    let spec = &mut pod["spec"];
    set(spec, "serviceAccountName", "default");
    let account = spec["serviceAccountName"].clone();
    set(spec, "serviceAccount", account);
    set(spec, "priority", 0);
    set(spec, "preemptionPolicy", "PreemptLowerPriority");
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for taint in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        let tolerated = tolerations.iter().any(|toleration| {
            let key = toleration["key"].as_str().unwrap_or_default();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (key == taint || key.is_empty()) && matches!(effect, "NoExecute" | "")
        });
        if !tolerated {
            tolerations.push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = tolerations.into();
    let class = quality(spec);
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
}

/// The quality of service that requests and limits add up to.
fn quality(spec: &Value) -> &'static str {
    let containers = ["initContainers", "containers"]
        .into_iter()
        .flat_map(|field| spec[field].as_array().into_iter().flatten());
    let (mut any, mut all) = (false, true);
    for container in containers {
        let (requests, limits) = (
            &container["resources"]["requests"],
            &container["resources"]["limits"],
        );
        for resource in ["cpu", "memory"] {
            let (request, limit) = (&requests[resource], &limits[resource]);
            any |= !request.is_null() || !limit.is_null();
            all &= !limit.is_null() && (request.is_null() || request == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// What an update may leave out, and keeps.
pub(super) fn keep(new: &mut Value, old: &Value) {
    for field in [
        "nodeName",
        "priority",
        "preemptionPolicy",
        "serviceAccountName",
        "serviceAccount",
        "enableServiceLinks",
    ] {
        if !old["spec"][field].is_null() {
            set(&mut new["spec"], field, old["spec"][field].clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_gets_what_a_cluster_gives() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "image": "r:5000/x/y:1",
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}, "livenessProbe": {"httpGet": {"port": 1}}}],
            "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}});
        default_pod(&mut pod["spec"]);
        create(&mut pod);
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["imagePullPolicy"], "IfNotPresent");
        assert_eq!(container["resources"]["requests"]["cpu"], "1");
        assert_eq!(container["livenessProbe"]["httpGet"]["scheme"], "HTTP");
        assert_eq!(pod["spec"]["volumes"][0]["secret"]["defaultMode"], 420);
        assert_eq!(
            pod["status"],
            json!({"phase": "Pending", "qosClass": "Guaranteed"})
        );
        assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(2));
    }
}
