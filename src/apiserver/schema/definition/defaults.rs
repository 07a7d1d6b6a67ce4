//! Default values keep to the schema that they stand in.

use serde_json::Value;

use super::super::node::Node;
use super::super::report::Report;
use super::super::{cel, shape, validate};
use super::structure::{members, property};

/// `ValidateDefaults`, without those of metadata, where defaults are forbidden.
pub(super) fn check(schema: &Value, path: &str) -> Report {
    let mut report = Report::default();
    node(schema, path, true, &mut report);
    report
}

fn node(schema: &Value, path: &str, root: bool, report: &mut Report) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        value(schema, default, &format!("{path}.default"), report);
    }
    if schema["items"].is_object() {
        node(&schema["items"], &format!("{path}.items"), false, report);
    }
    let embedded = root || schema["x-kubernetes-embedded-resource"] == true;
    for (name, inner) in members(schema, "properties") {
        if !(embedded && matches!(name.as_str(), "metadata" | "kind" | "apiVersion")) {
            node(inner, &property(path, name), false, report);
        }
    }
}

fn value(schema: &Value, default: &Value, path: &str, report: &mut Report) {
    let mut node = Node::parse(schema);
    let mut pruned = default.clone();
    if node.embedded {
        shape::prune(&node, &mut pruned);
    } else {
        shape::prune_value(&node, &mut pruned);
    }
    if pruned != *default {
        report.invalid(path, default, "must not have unknown fields");
    }
    let outcome = validate::check(&node, default, "", None);
    if !outcome.is_valid() {
        report.extend(outcome.causes(path));
        return;
    }
    cel::attach(&mut node, schema, false);
    let object = node.embedded;
    let mut causes = Vec::new();
    cel::evaluate(
        &node,
        default,
        Some(default),
        path,
        object,
        false,
        &mut causes,
    );
    if causes.is_empty() {
        cel::evaluate(&node, default, None, path, object, false, &mut causes);
    }
    report.extend(causes);
}
