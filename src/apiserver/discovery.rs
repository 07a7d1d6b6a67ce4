//! Discovery documents: which groups, versions and resources there are.
//!
//! All of it is pure: the resources that are served in, JSON out. Groups come in the order of a real server
//! and definitions' groups after them by name; versions are ordered as apimachinery ranks them, and the
//! first is the preferred one. `storageVersionHash` is left out, as it is where a server has none.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::ResourceInfo;

/// The content type of aggregated discovery, as it is asked for and answered.
pub(crate) const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Groups in the order that a real server lists them in.
const ORDER: [&str; 21] = [
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "storagemigration.k8s.io",
];

/// `/api`. `address` is the server's own, as `host:port`.
pub(crate) fn versions(address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// `/apis`.
pub(crate) fn groups(resources: &[&ResourceInfo]) -> Value {
    let groups = served(resources)
        .into_iter()
        .filter(|(group, _)| !group.is_empty())
        .map(|(group, versions)| api_group(group, &versions))
        .collect::<Vec<_>>();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/GROUP`; `None` where there is no such group.
pub(crate) fn group(resources: &[&ResourceInfo], group: &str) -> Option<Value> {
    let (name, versions) = served(resources)
        .into_iter()
        .find(|(name, _)| *name == group && !name.is_empty())?;
    let mut document = json!({"kind": "APIGroup", "apiVersion": "v1"});
    if let (Value::Object(document), Value::Object(group)) =
        (&mut document, api_group(name, &versions))
    {
        document.extend(group);
    }
    Some(document)
}

/// `/api/v1` (with an empty group) and `/apis/GROUP/VERSION`; `None` where nothing is served there.
pub(crate) fn resources(resources: &[&ResourceInfo], group: &str, version: &str) -> Option<Value> {
    let mut here = of_version(resources, group, version).peekable();
    here.peek()?;
    let mut all = Vec::new();
    for info in here {
        all.push(api_resource(info));
        all.extend(
            subresources(info)
                .iter()
                .map(|sub| api_subresource(info, sub)),
        );
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": group_version(group, version),
        "resources": all,
    });
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

/// `/api` (with `core`) and `/apis` as one `APIGroupDiscoveryList`.
pub(crate) fn aggregated(resources: &[&ResourceInfo], core: bool) -> Value {
    let items: Vec<Value> = served(resources)
        .into_iter()
        .filter(|(group, _)| group.is_empty() == core)
        .map(|(group, versions)| {
            let versions: Vec<Value> = versions
                .iter()
                .map(|version| {
                    let all: Vec<Value> = of_version(resources, group, version)
                        .map(aggregated_resource)
                        .collect();
                    json!({"version": version, "resources": all, "freshness": "Current"})
                })
                .collect();
            let metadata = if core {
                json!({})
            } else {
                json!({"name": group})
            };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

/// The `ETag` of a document: its SHA-512 in capitals, quoted, as a real server makes it.
pub(crate) fn etag(document: &[u8]) -> String {
    let hash = Sha512::digest(document);
    let mut tag = String::from("\"");
    for byte in hash {
        // A text takes all that is written.
        let _ = write!(tag, "{byte:02X}");
    }
    tag.push('"');
    tag
}

/// The groups in order, each with its versions in order.
fn served<'a>(resources: &[&'a ResourceInfo]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: BTreeMap<(usize, &str), Vec<&str>> = BTreeMap::new();
    for info in resources {
        let place = ORDER.iter().position(|group| *group == info.group);
        let place = place.unwrap_or(if info.group.is_empty() {
            0
        } else {
            ORDER.len()
        });
        groups
            .entry((place, &info.group))
            .or_default()
            .push(&info.version);
    }
    groups
        .into_iter()
        .map(|((_, group), mut versions)| {
            versions.sort_by_key(|version| Reverse(rank(version)));
            versions.dedup();
            (group, versions)
        })
        .collect()
}

/// How apimachinery's `version.CompareKubeAwareVersionStrings` ranks versions: `v2`, `v1`, `v1beta2`,
/// `v1beta1`, `v1alpha1`; what is no version at all comes last, by the alphabet.
pub(crate) fn rank(version: &str) -> (u8, u32, u32, Reverse<&str>) {
    let parsed = || {
        let digits = version.strip_prefix('v')?;
        let end = digits
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(digits.len());
        let major = digits[..end].parse().ok()?;
        let (stage, minor) = match &digits[end..] {
            "" => (3, "0"),
            rest => rest
                .strip_prefix("beta")
                .map(|minor| (2, minor))
                .or(rest.strip_prefix("alpha").map(|minor| (1, minor)))?,
        };
        Some((stage, major, minor.parse().ok()?))
    };
    match parsed() {
        Some((stage, major, minor)) => (stage, major, minor, Reverse("")),
        None => (0, 0, 0, Reverse(version)),
    }
}

fn of_version<'a>(
    resources: &[&'a ResourceInfo],
    group: &str,
    version: &str,
) -> impl Iterator<Item = &'a ResourceInfo> {
    let mut here: Vec<&ResourceInfo> = resources
        .iter()
        .filter(|info| info.group == group && info.version == version)
        .copied()
        .collect();
    here.sort_by_key(|info| &info.plural);
    here.into_iter()
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

fn api_group(group: &str, versions: &[&str]) -> Value {
    let of =
        |version: &&str| json!({"groupVersion": group_version(group, version), "version": version});
    let versions: Vec<Value> = versions.iter().map(of).collect();
    json!({
        "name": group,
        "preferredVersion": versions.first(),
        "versions": versions,
    })
}

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
struct Subresource<'a> {
    name: &'a str,
    kind: &'a str,
    foreign: Option<(&'static str, &'static str)>,
    verbs: &'static [&'static str],
}

fn subresources(info: &ResourceInfo) -> Vec<Subresource<'_>> {
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

fn api_resource(info: &ResourceInfo) -> Value {
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

fn api_subresource(info: &ResourceInfo, sub: &Subresource<'_>) -> Value {
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

fn aggregated_resource(info: &ResourceInfo) -> Value {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::ScaleInfo;

    fn info(group: &str, version: &str, kind: &str) -> ResourceInfo {
        ResourceInfo {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: format!("{}s", kind.to_lowercase()),
            singular: kind.to_lowercase(),
            namespaced: true,
            ..ResourceInfo::default()
        }
    }

    #[test]
    fn versions_rank_as_in_apimachinery() {
        let mut all = [
            "foo", "v1alpha1", "v1", "v10", "v2beta1", "v1beta2", "v1beta10", "bar",
        ];
        all.sort_by_key(|version| Reverse(rank(version)));
        assert_eq!(
            all,
            [
                "v10", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "bar", "foo"
            ]
        );
    }

    #[test]
    fn groups_prefer_their_best_version() {
        let (a, b) = (
            info("x.example.com", "v1beta1", "A"),
            info("x.example.com", "v1", "A"),
        );
        let (pod, apps) = (info("", "v1", "Pod"), info("apps", "v1", "Deployment"));
        let all = [&a, &b, &pod, &apps];
        let groups = groups(&all);
        assert_eq!(groups["groups"][0]["name"], "apps");
        assert_eq!(groups["groups"][1]["preferredVersion"]["version"], "v1");
        assert_eq!(
            groups["groups"][1]["versions"][1]["groupVersion"],
            "x.example.com/v1beta1"
        );
        assert_eq!(groups["groups"][2], Value::Null);
        assert_eq!(group(&all, "apps").expect("a group")["kind"], "APIGroup");
        assert_eq!(group(&all, ""), None);
        assert_eq!(resources(&all, "apps", "v2"), None);
    }

    #[test]
    fn subresources_have_their_own_kinds() {
        let mut pod = info("", "v1", "Pod");
        pod.status = true;
        pod.subresources = vec![
            ("log".to_owned(), "Pod".to_owned()),
            ("eviction".to_owned(), "Eviction".to_owned()),
        ];
        let list = resources(&[&pod], "", "v1").expect("resources");
        assert_eq!(list["groupVersion"], "v1");
        let names: Vec<&str> = list["resources"]
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|resource| resource["name"].as_str())
            .collect();
        assert_eq!(names, ["pods", "pods/eviction", "pods/log", "pods/status"]);
        assert_eq!(list["resources"][1]["group"], "policy");
        assert_eq!(list["resources"][1]["verbs"], json!(["create"]));
    }

    #[test]
    fn definitions_say_their_kind_in_full() {
        let mut check = info("x.example.com", "v1", "Check");
        check.status = true;
        check.scale = Some(ScaleInfo::default());
        let all = aggregated(&[&check], false);
        let resource = &all["items"][0]["versions"][0]["resources"][0];
        assert_eq!(resource["responseKind"]["group"], "x.example.com");
        assert_eq!(resource["subresources"][0]["responseKind"]["kind"], "Check");
        assert_eq!(
            resource["subresources"][1]["responseKind"],
            json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
        );
        assert_eq!(aggregated(&[&check], true)["items"], json!([]));
    }
}
