//! What is said of one resource.

use serde_json::{Value, json};

use crate::apiserver::ResourceInfo;

/// Whether a group comes with the server; others come from definitions.
pub(crate) fn is_builtin(group: &str) -> bool {
    !group.contains('.') || group.ends_with(".k8s.io")
}

pub(crate) fn verbs(info: &ResourceInfo) -> &'static [&'static str] {
    match info.plural.as_str() {
        "bindings" if info.group.is_empty() => &["create"],
        "componentstatuses" if info.group.is_empty() => &["get", "list"],
        "namespaces" if info.group.is_empty() => &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ],
        plural if is_builtin(&info.group) && plural.ends_with("reviews") => &["create"],
        _ if is_builtin(&info.group) => &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
        _ => &[
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "create",
            "update",
            "watch",
        ],
    }
}

/// A subresource: its name, what it is (group, version, kind; the group `None` for the resource's own), and
/// its verbs.
pub(super) struct Subresource<'a> {
    name: &'a str,
    kind: &'a str,
    foreign: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
}

pub(super) fn subresources(info: &ResourceInfo) -> Vec<Subresource<'_>> {
    let mut all = Vec::new();
    if info.status {
        all.push(subresource("status", &info.kind));
    }
    if info.scale.is_some() {
        all.push(subresource("scale", "Scale"));
    }
    for (name, kind) in &info.subresources {
        all.push(subresource(name, kind));
    }
    if is_builtin(&info.group) {
        all.sort_by_key(|sub| sub.name);
    }
    all
}

fn subresource<'a>(name: &'a str, kind: &'a str) -> Subresource<'a> {
    Subresource {
        name,
        kind,
        foreign: match kind {
            "Eviction" => Some(("policy", "v1")),
            "Scale" => Some(("autoscaling", "v1")),
            "TokenRequest" => Some(("authentication.k8s.io", "v1")),
            _ => None,
        },
        verbs: match name {
            "binding" | "eviction" | "token" => &["create"],
            "log" => &["get"],
            "attach" | "exec" | "portforward" => &["create", "get"],
            "proxy" => &["create", "delete", "get", "patch", "update"],
            "finalize" => &["update"],
            _ => &["get", "patch", "update"],
        },
    }
}

pub(super) fn api_resource(info: &ResourceInfo) -> Value {
    let mut resource = json!({
        "name": info.plural,
        "singularName": info.singular,
        "namespaced": info.namespaced,
        "kind": info.kind,
        "verbs": verbs(info),
    });
    names(info, &mut resource);
    resource
}

fn names(info: &ResourceInfo, resource: &mut Value) {
    if !info.short_names.is_empty() {
        resource["shortNames"] = json!(info.short_names);
    }
    if !info.categories.is_empty() {
        resource["categories"] = json!(info.categories);
    }
}

pub(super) fn api_subresource(info: &ResourceInfo, sub: &Subresource<'_>) -> Value {
    let mut resource = json!({
        "name": format!("{}/{}", info.plural, sub.name),
        "singularName": "",
        "namespaced": info.namespaced,
        "kind": sub.kind,
        "verbs": sub.verbs,
    });
    if let Some((group, version)) = sub.foreign {
        resource["group"] = json!(group);
        resource["version"] = json!(version);
    }
    resource
}

pub(super) fn aggregated_resource(info: &ResourceInfo) -> Value {
    let own = if is_builtin(&info.group) {
        ("", "")
    } else {
        (info.group.as_str(), info.version.as_str())
    };
    let kind = |(group, version): (&str, &str), kind: &str| json!({"group": group, "version": version, "kind": kind});
    let mut resource = json!({
        "resource": info.plural,
        "responseKind": kind(own, &info.kind),
        "scope": if info.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": info.singular,
        "verbs": verbs(info),
    });
    names(info, &mut resource);
    let subresources: Vec<Value> = subresources(info)
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": kind(sub.foreign.unwrap_or(own), sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    if !subresources.is_empty() {
        resource["subresources"] = json!(subresources);
    }
    resource
}
