//! What is refused of built-in kinds: what is missing, what can't be changed.

use serde_json::Value;

use crate::apiserver::Cause;
use crate::apiserver::state::metadata as meta;
use crate::apiserver::state::names;

/// Most bytes in the data of a ConfigMap or a Secret.
const DATA_LIMIT: usize = 1 << 20;

/// What is wrong with an object (`old` for an update).
pub(in crate::apiserver::state) fn validate(
    storage: &str,
    new: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    match storage {
        "pods" => pod(new, old, &mut causes),
        "configmaps" | "secrets" => data(storage, new, old, &mut causes),
        "services" => service(new, old, &mut causes),
        "persistentvolumeclaims" => claim(new, old, &mut causes),
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            workload(storage, new, old, &mut causes);
        }
        "poddisruptionbudgets.policy" => budget(new, &mut causes),
        "leases.coordination.k8s.io" => lease(new, &mut causes),
        "events" => event(new, &mut causes),
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io"
            if old.is_some_and(|old| old["roleRef"] != new["roleRef"]) => {
                causes.push(Cause::invalid(
                    "roleRef",
                    &new["roleRef"],
                    "cannot change roleRef",
                ));
            }
        _ => {}
    }
    causes
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    value[field].as_array().into_iter().flatten().enumerate()
}

fn pod(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    pod_spec(&new["spec"], "spec", causes);
    let Some(old) = old else {
        return;
    };
    if mutable_removed(&new["spec"]) != mutable_removed(&old["spec"]) {
        causes.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
        ));
    }
}

/// A pod's spec without what may be changed.
fn mutable_removed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for field in ["containers", "initContainers"] {
        for container in super::items(&mut spec, field) {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
            spec.remove(field);
        }
    }
    spec
}

fn pod_spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if list(spec, "containers").next().is_none() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    let mut seen = Vec::new();
    for field in ["initContainers", "containers"] {
        for (index, container) in list(spec, field) {
            let path = format!("{path}.{field}[{index}]");
            let name = text(container, "name");
            if name.is_empty() {
                causes.push(Cause::required(format!("{path}.name"), ""));
            } else if seen.contains(&name) {
                causes.push(duplicate(format!("{path}.name"), name));
            } else {
                for problem in names::label(name) {
                    causes.push(Cause::invalid(
                        format!("{path}.name"),
                        &name.into(),
                        &problem,
                    ));
                }
                seen.push(name);
            }
            if text(container, "image").is_empty() {
                causes.push(Cause::required(format!("{path}.image"), ""));
            }
            for (at, mount) in list(container, "volumeMounts") {
                let name = text(mount, "name");
                if !list(spec, "volumes").any(|(_, volume)| text(volume, "name") == name) {
                    causes.push(Cause {
                        reason: "FieldValueNotFound",
                        field: format!("{path}.volumeMounts[{at}].name"),
                        message: format!("Not found: {name:?}"),
                    });
                }
            }
        }
    }
    let policy = text(spec, "restartPolicy");
    if !matches!(policy, "Always" | "OnFailure" | "Never") {
        let field = format!("{path}.restartPolicy");
        causes.push(Cause::not_supported(
            field,
            &spec["restartPolicy"],
            &["Always", "OnFailure", "Never"],
        ));
    }
}

fn duplicate(field: String, value: &str) -> Cause {
    Cause {
        reason: "FieldValueDuplicate",
        field,
        message: format!("Duplicate value: {value:?}"),
    }
}

fn data(storage: &str, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in new[field].as_object().into_iter().flatten() {
            let bytes = value.as_str().map_or(0, str::len);
            size += if storage == "secrets" || field == "binaryData" {
                bytes / 4 * 3
            } else {
                bytes
            };
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty()
                || key.len() > 253
                || !key.chars().all(plain)
                || matches!(key.as_str(), "." | "..")
            {
                causes.push(Cause::invalid(format!("{field}[{key}]"), &key.as_str().into(),
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"));
            }
        }
    }
    if size > DATA_LIMIT {
        causes.push(Cause {
            reason: "FieldValueTooLong",
            field: if storage == "secrets" { "data" } else { "" }.to_owned(),
            message: format!("Too long: may not be more than {DATA_LIMIT} bytes"),
        });
    }
    let Some(old) = old else {
        return;
    };
    if storage == "secrets" && new["type"] != old["type"] {
        causes.push(Cause::invalid("type", &new["type"], "field is immutable"));
    }
    if old["immutable"] == true {
        if new["immutable"] != true {
            causes.push(Cause::forbidden(
                "immutable",
                "field is immutable when `immutable` is set",
            ));
        }
        for field in ["data", "binaryData"] {
            if new[field] != old[field] {
                causes.push(Cause::forbidden(
                    field,
                    "field is immutable when `immutable` is set",
                ));
            }
        }
    }
}

fn service(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let headless = spec["clusterIP"] == "None";
    let external = spec["type"] == "ExternalName";
    let count = list(spec, "ports").count();
    if count == 0 && !headless && !external {
        causes.push(Cause::required("spec.ports", ""));
    }
    let mut seen = Vec::new();
    for (index, port) in list(spec, "ports") {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if name.is_empty() && count > 1 {
            causes.push(Cause::required(format!("{path}.name"), ""));
        } else if !name.is_empty() && seen.contains(&name) {
            causes.push(duplicate(format!("{path}.name"), name));
        }
        seen.push(name);
        let number = port["port"].as_i64().unwrap_or_default();
        if !(1..=65535).contains(&number) {
            causes.push(Cause::invalid(
                format!("{path}.port"),
                &number.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
    meta::labels(&spec["selector"], "spec.selector", causes);
    if let Some(old) = old
        && old["spec"]["type"] != "ExternalName"
        && !external
        && !old["spec"]["clusterIP"].is_null()
        && spec["clusterIP"] != old["spec"]["clusterIP"]
    {
        causes.push(Cause::invalid(
            "spec.clusterIPs[0]",
            &spec["clusterIPs"],
            "may not change once set",
        ));
    }
}

fn claim(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if list(spec, "accessModes").next().is_none() {
        causes.push(Cause::required(
            "spec.accessModes",
            "at least 1 access mode is required",
        ));
    }
    if spec["resources"]["requests"]["storage"].is_null() {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
    let Some(old) = old else {
        return;
    };
    let fixed = |spec: &Value| {
        let mut spec = spec.clone();
        spec["resources"]["requests"] = Value::Null;
        if let Some(spec) = spec.as_object_mut() {
            spec.remove("volumeAttributesClassName");
        }
        spec
    };
    // The binder, like anybody, may name the volume and the class once.
    let mut before = fixed(&old["spec"]);
    for field in ["volumeName", "storageClassName"] {
        if before[field].is_null() && !spec[field].is_null() {
            before[field] = spec[field].clone();
        }
    }
    if fixed(spec) != before {
        causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
}

fn workload(storage: &str, new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let labels = &spec["template"]["metadata"]["labels"];
    if spec["selector"].is_null() {
        causes.push(Cause::required("spec.selector", ""));
    } else {
        let selected = spec["selector"]["matchLabels"]
            .as_object()
            .is_none_or(|selector| {
                selector
                    .iter()
                    .all(|(key, value)| labels.get(key) == Some(value))
            });
        if !selected {
            causes.push(Cause::invalid(
                "spec.template.metadata.labels",
                labels,
                "`selector` does not match template `labels`",
            ));
        }
    }
    if spec["replicas"]
        .as_i64()
        .is_some_and(|replicas| replicas < 0)
    {
        causes.push(Cause::invalid(
            "spec.replicas",
            &spec["replicas"],
            "must be greater than or equal to 0",
        ));
    }
    pod_spec(&spec["template"]["spec"], "spec.template.spec", causes);
    let Some(old) = old else {
        return;
    };
    if storage == "statefulsets.apps" {
        let fixed = |spec: &Value| {
            let mut spec = spec.clone();
            if let Some(spec) = spec.as_object_mut() {
                for field in [
                    "replicas",
                    "ordinals",
                    "template",
                    "updateStrategy",
                    "revisionHistoryLimit",
                    "persistentVolumeClaimRetentionPolicy",
                    "minReadySeconds",
                ] {
                    spec.remove(field);
                }
            }
            spec
        };
        if fixed(spec) != fixed(&old["spec"]) {
            causes.push(Cause::forbidden("spec", "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
        }
    } else if spec["selector"] != old["spec"]["selector"] {
        causes.push(Cause::invalid(
            "spec.selector",
            &spec["selector"],
            "field is immutable",
        ));
    }
}

fn budget(new: &Value, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        causes.push(Cause::invalid(
            "spec",
            spec,
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
}

fn lease(new: &Value, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if spec["leaseDurationSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds <= 0)
    {
        let value = &spec["leaseDurationSeconds"];
        causes.push(Cause::invalid(
            "spec.leaseDurationSeconds",
            value,
            "must be greater than 0",
        ));
    }
    if spec["leaseTransitions"]
        .as_i64()
        .is_some_and(|transitions| transitions < 0)
    {
        let value = &spec["leaseTransitions"];
        causes.push(Cause::invalid(
            "spec.leaseTransitions",
            value,
            "must be greater than or equal to 0",
        ));
    }
}

fn event(new: &Value, causes: &mut Vec<Cause>) {
    let field = if new["involvedObject"].is_null() {
        "regarding"
    } else {
        "involvedObject"
    };
    let involved = text(&new[field], "namespace");
    let namespace = text(&new["metadata"], "namespace");
    if involved != namespace && !(involved.is_empty() && namespace == "default") {
        let value = &new[field]["namespace"];
        let value = if value.is_null() {
            &Value::String(String::new())
        } else {
            value
        };
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            value,
            "does not match event.namespace",
        ));
    }
}
