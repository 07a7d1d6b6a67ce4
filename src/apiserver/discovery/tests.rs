//! Documents of a few resources.

use std::cmp::Reverse;

use serde_json::{Value, json};

use super::{aggregated, group, groups, rank, resources};
use crate::apiserver::{ResourceInfo, ScaleInfo};

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
