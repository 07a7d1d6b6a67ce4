//! The status of a definition: accepted names, conditions, stored versions.

use serde_json::{Value, json};

use super::super::node::strings;
use super::super::report::Report;

/// `status.storedVersions` with the storage version added: the first of a new definition.
pub(super) fn stored_versions(object: &Value) -> Vec<String> {
    let mut stored = strings(&object["status"]["storedVersions"]);
    let first = storage_versions(object).next();
    if let Some(first) = first.filter(|first| !stored.iter().any(|known| known == first)) {
        stored.push(first.to_owned());
    }
    stored
}

fn storage_versions(object: &Value) -> impl Iterator<Item = &str> {
    let versions = object["spec"]["versions"].as_array();
    versions
        .into_iter()
        .flatten()
        .filter(|version| version["storage"] == true)
        .filter_map(|version| version["name"].as_str())
}

/// `ValidateCustomResourceDefinitionStoredVersions`.
pub(super) fn check(stored: &[String], object: &Value, report: &mut Report) {
    let path = "status.storedVersions";
    if stored.is_empty() {
        report.invalid(path, &Value::Null, "must have at least one stored version");
        return;
    }
    let mut unclaimed: Vec<(usize, &String)> = stored.iter().enumerate().collect();
    let versions = object["spec"]["versions"].as_array();
    for version in versions.into_iter().flatten() {
        let name = version["name"].as_str().unwrap_or_default();
        let before = unclaimed.len();
        unclaimed.retain(|(_, stored)| *stored != name);
        if version["storage"] == true && unclaimed.len() == before {
            let detail = format!("must have the storage version {name}");
            report.invalid(path, &json!(stored), &detail);
        }
    }
    for (i, name) in unclaimed {
        let detail = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in \
             spec.versions until a storage migration ensures no data remains persisted in {name} and \
             removes {name} from status.storedVersions"
        );
        report.invalid_text(format!("{path}[{i}]"), name, &detail);
    }
}

pub(super) fn is_established(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// What the naming and establishing controllers write: all names are free here, and a kind is served at once.
pub(super) fn complete(object: &mut Value, stored: &[String], now: &str) {
    let wanted = [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ];
    let old = object["status"]["conditions"].as_array().cloned();
    let mut conditions = old.unwrap_or_default();
    for (kind, reason, message) in wanted {
        let held = |condition: &Value| condition["type"] == kind && condition["status"] == "True";
        if conditions.iter().any(held) {
            continue;
        }
        conditions.retain(|condition| condition["type"] != kind);
        conditions.push(json!({
            "type": kind,
            "status": "True",
            "lastTransitionTime": now,
            "reason": reason,
            "message": message,
        }));
    }
    object["status"] = json!({
        "acceptedNames": object["spec"]["names"],
        "conditions": conditions,
        "storedVersions": stored,
    });
}
