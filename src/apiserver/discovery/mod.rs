//! Discovery documents: which groups, versions and resources there are.
//!
//! All of it is pure: the resources that are served in, JSON out. Groups come in the order of a real server
//! and definitions' groups after them by name; versions are ordered as apimachinery ranks them, and the
//! first is the preferred one. `storageVersionHash` is left out, as it is where a server has none.

mod resource;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use super::ResourceInfo;
use resource::{aggregated_resource, api_resource, api_subresource, subresources};
pub(crate) use resource::{is_builtin, verbs};

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
    let mut tag = "\"".to_owned();
    for byte in Sha512::digest(document) {
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

#[cfg(test)]
mod tests;
