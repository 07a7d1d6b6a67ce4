//! Services and what stands behind them.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Printed, few, labels, list, str_of};

pub(super) fn service(it: Printed<'_>) -> Vec<Value> {
    let ports: Vec<String> = it.list("/spec/ports").iter().map(port).collect();
    let ports = if ports.is_empty() {
        "<none>".to_owned()
    } else {
        ports.join(",")
    };
    vec![
        it.name(),
        it.text("/spec/type"),
        it.text_or("/spec/clusterIPs/0", "<none>"),
        json!(external(it)),
        json!(ports),
        it.age(),
        json!(labels(it.at("/spec/selector"))),
    ]
}

fn port(port: &Value) -> String {
    let protocol = str_of(port, "protocol");
    match port["nodePort"].as_i64() {
        Some(node) if node > 0 => format!("{}:{node}/{protocol}", port["port"]),
        _ => format!("{}/{protocol}", port["port"]),
    }
}

fn external(it: Printed<'_>) -> String {
    let own: Vec<&str> = it
        .list("/spec/externalIPs")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let joined = own.join(",");
    match it.str("/spec/type") {
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => joined,
        "LoadBalancer" => {
            let balanced = balancers(it.list("/status/loadBalancer/ingress"));
            match (balanced.is_empty(), own.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, true) => balanced,
                (true, false) => joined,
                (false, false) => format!("{balanced},{joined}"),
            }
        }
        "ExternalName" => it.str("/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// The addresses of load balancers, sorted.
fn balancers(ingress: &[Value]) -> String {
    let addresses: BTreeSet<&str> = ingress
        .iter()
        .map(|one| match str_of(one, "ip") {
            "" => str_of(one, "hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

pub(super) fn endpoints(it: Printed<'_>) -> Vec<Value> {
    let mut shown = Vec::new();
    for subset in it.list("/subsets") {
        let addresses = list(&subset["addresses"]);
        let ports = list(&subset["ports"]);
        if ports.is_empty() {
            shown.extend(addresses.iter().map(|one| str_of(one, "ip").to_owned()));
        }
        for port in ports {
            let at = |one: &Value| match str_of(one, "ip") {
                v6 if v6.contains(':') => format!("[{v6}]:{}", port["port"]),
                v4 => format!("{v4}:{}", port["port"]),
            };
            shown.extend(addresses.iter().map(at));
        }
    }
    let shown = if it.list("/subsets").is_empty() {
        "<none>".to_owned()
    } else if shown.is_empty() {
        String::new()
    } else {
        few(&shown, 3)
    };
    vec![it.name(), json!(shown), it.age()]
}

pub(super) fn endpoint_slice(it: Printed<'_>) -> Vec<Value> {
    let port = |port: &Value| match (&port["port"], &port["name"]) {
        (Value::Number(number), _) => number.to_string(),
        (_, Value::String(name)) => name.clone(),
        _ => "*".to_owned(),
    };
    let ports: Vec<String> = it.list("/ports").iter().map(port).collect();
    let addresses: Vec<String> = it
        .list("/endpoints")
        .iter()
        .flat_map(|endpoint| list(&endpoint["addresses"]))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    vec![
        it.name(),
        it.text("/addressType"),
        json!(few(&ports, 3)),
        json!(few(&addresses, 3)),
        it.age(),
    ]
}

pub(super) fn ingress(it: Printed<'_>) -> Vec<Value> {
    let rules = it.list("/spec/rules");
    let hosts: Vec<String> = rules
        .iter()
        .map(|rule| str_of(rule, "host").to_owned())
        .filter(|host| !host.is_empty())
        .collect();
    let hosts = if hosts.is_empty() {
        "*".to_owned()
    } else {
        few(&hosts, 3)
    };
    let ports = if it.list("/spec/tls").is_empty() {
        "80"
    } else {
        "80, 443"
    };
    vec![
        it.name(),
        it.text_or("/spec/ingressClassName", "<none>"),
        json!(hosts),
        json!(balancers(it.list("/status/loadBalancer/ingress"))),
        json!(ports),
        it.age(),
    ]
}

pub(super) fn ingress_class(it: Printed<'_>) -> Vec<Value> {
    let annotations = it.at("/metadata/annotations");
    let default = annotations["ingressclass.kubernetes.io/is-default-class"] == "true";
    let name = it.str("/metadata/name");
    let name = if default {
        format!("{name} (default)")
    } else {
        name.to_owned()
    };
    let parameters = it.at("/spec/parameters");
    let parameters = if parameters.is_object() {
        let group = str_of(parameters, "apiGroup");
        let dot = if group.is_empty() { "" } else { "." };
        let (kind, name) = (str_of(parameters, "kind"), str_of(parameters, "name"));
        format!("{kind}{dot}{group}/{name}")
    } else {
        "<none>".to_owned()
    };
    vec![
        json!(name),
        it.text("/spec/controller"),
        json!(parameters),
        it.age(),
    ]
}
