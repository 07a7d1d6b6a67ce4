//! Pods, and the pod templates of everything else.

use serde_json::Value;

use super::{list, not_negative, one_of, port_number, text};
use crate::apiserver::Cause;
use crate::apiserver::state::names;

pub(super) fn pod(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    spec(&new["spec"], "spec", causes);
    if old.is_some_and(|old| fixed(&new["spec"]) != fixed(&old["spec"])) {
        causes.push(Cause::forbidden(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,\
             `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
             additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be \
             set to 1 if it was previously negative)",
        ));
    }
}

/// A pod's spec without what may be changed.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for field in ["containers", "initContainers"] {
        for container in super::super::items(&mut spec, field) {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"] {
            spec.remove(field);
        }
    }
    spec
}

pub(super) fn spec(spec: &Value, path: &str, causes: &mut Vec<Cause>) {
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
                causes.push(super::duplicate(format!("{path}.name"), &name.into()));
            } else {
                for problem in names::label(name) {
                    causes.push(Cause::invalid(format!("{path}.name"), &name.into(), &problem));
                }
                seen.push(name);
            }
            self::container(container, spec, &path, causes);
        }
    }
    if spec.get("restartPolicy").is_some() {
        one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], causes);
    }
    not_negative(spec, "terminationGracePeriodSeconds", path, causes);
}

fn container(container: &Value, spec: &Value, path: &str, causes: &mut Vec<Cause>) {
    if text(container, "image").is_empty() {
        causes.push(Cause::required(format!("{path}.image"), ""));
    }
    if container.get("imagePullPolicy").is_some() {
        one_of(container, "imagePullPolicy", path, &["Always", "IfNotPresent", "Never"], causes);
    }
    for (at, port) in list(container, "ports") {
        port_number(&port["containerPort"], format!("{path}.ports[{at}].containerPort"), causes);
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
    let resources = &container["resources"];
    for (resource, request) in resources["requests"].as_object().into_iter().flatten() {
        let (Some(request), Some(limit)) = (request.as_str(), resources["limits"][resource].as_str()) else {
            continue;
        };
        let amounts = amount(request).zip(amount(limit));
        if amounts.is_some_and(|(request, limit)| request > limit) {
            let why = format!("must be less than or equal to {resource} limit of {limit}");
            causes.push(Cause::invalid(format!("{path}.resources.requests"), &request.into(), &why));
        }
    }
}

/// How much a quantity is, as closely as a comparison needs it.
pub(super) fn amount(quantity: &str) -> Option<f64> {
    let end = quantity
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(quantity.len());
    let number: f64 = quantity[..end].parse().ok()?;
    let unit = match &quantity[end..] {
        "" => 1.0,
        "n" => 1e-9,
        "u" => 1e-6,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024_f64,
        "Mi" => 1024_f64.powi(2),
        "Gi" => 1024_f64.powi(3),
        "Ti" => 1024_f64.powi(4),
        "Pi" => 1024_f64.powi(5),
        "Ei" => 1024_f64.powi(6),
        exponent => return format!("1{exponent}").parse().ok().map(|power: f64| number * power),
    };
    Some(number * unit)
}
