//! Roles that are bound, and what is served.

use serde_json::{Value, json};

use super::{Printed, list, str_of};

pub(super) fn binding(it: Printed<'_>) -> Vec<Value> {
    let role = it.at("/roleRef");
    let role = format!("{}/{}", str_of(role, "kind"), str_of(role, "name"));
    let subjects = |kind: &str| {
        let own = it
            .list("/subjects")
            .iter()
            .filter(|one| one["kind"] == kind);
        let shown = own.map(|subject| match kind {
            "ServiceAccount" => {
                format!(
                    "{}/{}",
                    str_of(subject, "namespace"),
                    str_of(subject, "name")
                )
            }
            _ => str_of(subject, "name").to_owned(),
        });
        json!(shown.collect::<Vec<_>>().join(", "))
    };
    vec![
        it.name(),
        json!(role),
        it.age(),
        subjects("User"),
        subjects("Group"),
        subjects("ServiceAccount"),
    ]
}

pub(super) fn definition(it: Printed<'_>) -> Vec<Value> {
    let mut versions: Vec<String> = it
        .list("/spec/versions")
        .iter()
        .filter(|version| version["served"] == true)
        .map(
            |version| match (str_of(version, "name"), &version["storage"]) {
                (name, Value::Bool(true)) => format!("{name}(storage)"),
                (name, _) => name.to_owned(),
            },
        )
        .collect();
    versions.sort();
    let short: Vec<&str> = it
        .list("/spec/names/shortNames")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let established =
        |condition: &Value| condition["type"] == "Established" && condition["status"] == "True";
    vec![
        it.name(),
        it.text("/spec/scope"),
        json!(versions.join(",")),
        it.at("/metadata/creationTimestamp").clone(),
        it.text("/spec/group"),
        it.text("/spec/names/kind"),
        json!(short.join(",")),
        json!(it.list("/status/conditions").iter().any(established)),
    ]
}

pub(super) fn api_service(it: Printed<'_>) -> Vec<Value> {
    let service = it.at("/spec/service");
    let service = if service.is_object() {
        format!(
            "{}/{}",
            str_of(service, "namespace"),
            str_of(service, "name")
        )
    } else {
        "Local".to_owned()
    };
    let available = list(it.at("/status/conditions"))
        .iter()
        .find(|condition| condition["type"] == "Available");
    let available = match available {
        None => "Unknown".to_owned(),
        Some(condition) if condition["status"] == "True" => "True".to_owned(),
        Some(condition) => format!(
            "{} ({})",
            str_of(condition, "status"),
            str_of(condition, "reason")
        ),
    };
    vec![it.name(), json!(service), json!(available), it.age()]
}
