//! Names in definitions.

use serde_json::Value;

use super::super::node::strings;
use super::super::report::Report;

/// `ValidateCustomResourceDefinitionNames`, and that the names are there.
pub(super) fn check(names: &Value, report: &mut Report) {
    let text = |name: &str| names[name].as_str().unwrap_or_default();
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(name).is_empty() {
            report.required(format!("spec.names.{name}"), "");
        }
    }
    for name in ["plural", "singular"] {
        let text = text(name);
        if let Some(error) = label_error(text).filter(|_| !text.is_empty()) {
            report.invalid_text(format!("spec.names.{name}"), text, &error);
        }
    }
    for name in ["kind", "listKind"] {
        let text = text(name);
        if let Some(error) = label_error(&text.to_lowercase()).filter(|_| !text.is_empty()) {
            let detail = format!("may have mixed case, but should otherwise match: {error}");
            report.invalid_text(format!("spec.names.{name}"), text, &detail);
        }
    }
    for list in ["shortNames", "categories"] {
        if list == "categories" && !text("kind").is_empty() && text("kind") == text("listKind") {
            let detail = "kind and listKind may not be the same";
            report.invalid_text("spec.names.listKind", text("listKind"), detail);
        }
        for (i, name) in strings(&names[list]).iter().enumerate() {
            if let Some(error) = label_error(name) {
                report.invalid_text(format!("spec.names.{list}[{i}]"), name, &error);
            }
        }
    }
}

/// What is wrong with a label of RFC 1035, in the words of apimachinery's `IsDNS1035Label`.
pub(super) fn label_error(label: &str) -> Option<String> {
    let mut errors = Vec::new();
    if label.len() > 63 {
        errors.push("must be no more than 63 characters");
    }
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let well_formed = label.starts_with(|c: char| c.is_ascii_lowercase())
        && edge(label.chars().last())
        && label
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !well_formed {
        errors.push(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
             alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
             regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')",
        );
    }
    (!errors.is_empty()).then(|| errors.join(","))
}

/// What is wrong with a domain of RFC 1123, in the words of apimachinery's `IsDNS1123Subdomain`.
pub(super) fn subdomain_error(name: &str) -> Option<String> {
    let mut errors = Vec::new();
    if name.len() > 253 {
        errors.push("must be no more than 253 characters");
    }
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let well_formed = name.split('.').all(|label| {
        label.starts_with(known)
            && label.ends_with(known)
            && label.chars().all(|c| known(c) || c == '-')
    });
    if !well_formed {
        errors.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
             validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
        );
    }
    (!errors.is_empty()).then(|| errors.join(","))
}
