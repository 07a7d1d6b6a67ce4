//! Services.

use serde_json::{Value, json};

use super::{list, one_of, port_number, text};
use crate::apiserver::Cause;
use crate::apiserver::state::rules;

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn service(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    let headless = spec["clusterIP"] == "None";
    let external = spec["type"] == "ExternalName";
    one_of(spec, "type", "spec", TYPES, causes);
    if list(spec, "ports").next().is_none() && !headless && !external {
        causes.push(Cause::required("spec.ports", ""));
    }
    ports(spec, headless, causes);
    rules::labels(&spec["selector"], "spec.selector", causes);
    for (index, family) in list(spec, "ipFamilies") {
        if family != "IPv4" {
            let path = format!("spec.ipFamilies[{index}]");
            causes.push(Cause::invalid(path, family, "not configured on this cluster"));
        }
    }
    if spec["ipFamilyPolicy"] == "RequireDualStack" {
        causes.push(Cause::invalid(
            "spec.ipFamilyPolicy",
            &spec["ipFamilyPolicy"],
            "this cluster is not configured for dual-stack services",
        ));
    }
    if let Some(old) = old
        && old["spec"]["type"] != "ExternalName"
        && !external
        && !old["spec"]["clusterIP"].is_null()
        && spec["clusterIP"] != old["spec"]["clusterIP"]
    {
        let address = json!([spec["clusterIP"]]);
        causes.push(Cause::invalid("spec.clusterIPs[0]", &address, "may not change once set"));
    }
}

fn ports(spec: &Value, headless: bool, causes: &mut Vec<Cause>) {
    let count = list(spec, "ports").count();
    let mut names = Vec::new();
    let mut numbers = Vec::new();
    for (index, port) in list(spec, "ports") {
        let path = format!("spec.ports[{index}]");
        let name = text(port, "name");
        if name.is_empty() && count > 1 {
            causes.push(Cause::required(format!("{path}.name"), ""));
        } else if !name.is_empty() && names.contains(&name) {
            causes.push(super::duplicate(format!("{path}.name"), &name.into()));
        }
        names.push(name);
        port_number(&port["port"], format!("{path}.port"), causes);
        one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"], causes);
        match &port["targetPort"] {
            Value::String(name) => port_name(name, format!("{path}.targetPort"), causes),
            number if !headless || !number.is_null() => {
                port_number(number, format!("{path}.targetPort"), causes);
            }
            _ => {}
        }
        let key = (port["protocol"].clone(), port["port"].clone());
        if numbers.contains(&key) {
            // Go names the fields of its own type here.
            let told = json!({"Name": "", "Protocol": key.0, "AppProtocol": null, "Port": key.1,
                "TargetPort": 0, "NodePort": 0});
            causes.push(super::duplicate(path, &told));
        }
        numbers.push(key);
    }
}

/// The name of a port of a pod.
fn port_name(name: &str, path: String, causes: &mut Vec<Cause>) {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let why = if name.len() > 15 {
        "must be no more than 15 bytes"
    } else if !name.chars().all(known) {
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    } else if !name.chars().any(|c| c.is_ascii_lowercase()) {
        "must contain at least one letter (a-z)"
    } else {
        return;
    };
    causes.push(Cause::invalid(path, &name.into(), why));
}

pub(super) fn status(new: &Value, causes: &mut Vec<Cause>) {
    let ingress = &new["status"]["loadBalancer"]["ingress"];
    if ingress.as_array().is_some_and(|list| !list.is_empty()) && new["spec"]["type"] != "LoadBalancer" {
        causes.push(Cause::forbidden(
            "status.loadBalancer.ingress",
            "may only be used when `spec.type` is 'LoadBalancer'",
        ));
    }
}
