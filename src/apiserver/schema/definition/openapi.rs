//! What a schema may say, node by node, the rules in CEL last.

use serde_json::{Map, Value, json};

use super::super::cel;
use super::super::gotext;
use super::super::report::Report;
use super::structure::{members, property};
use super::{lists, selectable};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// What stands around a node.
#[derive(Clone, Copy)]
struct Around<'a> {
    /// The schema of the whole object.
    root: bool,
    /// Whether it is below the metadata of an object.
    in_meta: bool,
    /// Why defaults are not allowed, where they are not.
    no_defaults: Option<&'a str>,
    /// The first list or map whose old and new values can't be told to be the same.
    uncorrelated: Option<&'a str>,
    /// Whether rules are looked at; they are not in alternatives, nor where the schema is unsound.
    rules: bool,
}

/// `ValidateCustomResourceDefinitionOpenAPISchema`. Rules are compiled where the schema is `sound`.
pub(super) fn check(schema: &Value, path: &str, sound: bool, report: &mut Report) {
    let around = Around {
        root: true,
        in_meta: false,
        no_defaults: None,
        uncorrelated: None,
        rules: sound,
    };
    let (mut schemas, mut rules) = (Report::default(), Report::default());
    node(schema, path, around, &mut schemas, &mut rules);
    report.append(schemas);
    report.append(rules);
}

/// What may stand at the root of a schema whose status is a subresource.
pub(super) fn root_with_status(schema: &Value, path: &str, report: &mut Report) {
    const ALLOWED: [&str; 22] = [
        "Description",
        "Type",
        "Format",
        "Title",
        "Maximum",
        "ExclusiveMaximum",
        "Minimum",
        "ExclusiveMinimum",
        "MaxLength",
        "MinLength",
        "Pattern",
        "MaxItems",
        "MinItems",
        "UniqueItems",
        "MultipleOf",
        "Required",
        "Items",
        "Properties",
        "ExternalDocs",
        "Example",
        "XPreserveUnknownFields",
        "XValidations",
    ];
    if schema["type"] != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status \
                      subresource is enabled";
        let kind = schema["type"].as_str().unwrap_or_default();
        report.invalid_text(format!("{path}.type"), kind, detail);
        return;
    }
    let allowed = |name: &String| match name.as_str() {
        "x-kubernetes-preserve-unknown-fields" | "x-kubernetes-validations" => true,
        name => {
            let mut title = name.to_owned();
            if let Some(first) = title.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            ALLOWED.contains(&title.as_str())
        }
    };
    if schema
        .as_object()
        .is_some_and(|fields| !fields.keys().all(allowed))
    {
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            ALLOWED.join(" ")
        );
        report.invalid(path, schema, &detail);
    }
}

fn node(schema: &Value, path: &str, around: Around<'_>, report: &mut Report, rules: &mut Report) {
    let before = report.len();
    itself(schema, path, around, report);
    children(schema, path, around, report, rules);
    if let Some(preserve @ Value::Bool(false)) = schema.get("x-kubernetes-preserve-unknown-fields")
    {
        let path = format!("{path}.x-kubernetes-preserve-unknown-fields");
        report.invalid(path, preserve, "must be true or undefined");
    }
    lists::types(schema, path, report);
    lists::keys(schema, path, report);
    let own = schema["x-kubernetes-validations"].as_array();
    let own = own.map(Vec::as_slice).unwrap_or_default();
    for (i, rule) in own.iter().enumerate() {
        let path = format!("{path}.x-kubernetes-validations[{i}]");
        rule_text(schema, rule, &path, report);
    }
    if report.len() == before && around.rules {
        for (i, rule) in own.iter().enumerate() {
            let path = format!("{path}.x-kubernetes-validations[{i}]");
            compile(schema, rule, &path, around, rules);
        }
    }
}

fn itself(schema: &Value, path: &str, around: Around<'_>, report: &mut Report) {
    let kind = schema["type"].as_str().unwrap_or_default();
    let at = |name: &str| format!("{path}.{name}");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        report.not_supported(at("type"), kind, &TYPES);
    }
    if let Some(reason) = around.no_defaults
        && schema
            .get("default")
            .is_some_and(|default| !default.is_null())
    {
        report.forbidden(at("default"), &format!("must not be set {reason}"));
    }
    for name in [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ] {
        if schema.get(name).is_some_and(|value| !value.is_null()) {
            report.forbidden(at(name), &format!("{name} is not supported"));
        }
    }
    if kind == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        report.forbidden(at("type"), detail);
    }
    if schema["items"].is_array() {
        report.forbidden(
            at("items"),
            "items must be a schema object and not an array",
        );
    }
    if around.in_meta && schema["x-kubernetes-embedded-resource"] == true {
        let detail = "must not be used inside of resource meta";
        report.forbidden(at("x-kubernetes-embedded-resource"), detail);
    }
    if schema["uniqueItems"] == true {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        report.forbidden(at("uniqueItems"), detail);
    }
    let additional = schema.get("additionalProperties").filter(|v| !v.is_null());
    let some = members(schema, "properties").next().is_some();
    if some && additional.is_some_and(|additional| *additional != true) {
        let detail = "additionalProperties and properties are mutual exclusive";
        report.forbidden(at("additionalProperties"), detail);
    }
}

fn children(
    schema: &Value,
    path: &str,
    around: Around<'_>,
    report: &mut Report,
    rules: &mut Report,
) {
    let below = Around {
        root: false,
        ..around
    };
    if schema["additionalProperties"].is_object() {
        let mut below = below;
        if around.in_meta {
            below.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        let path = format!("{path}.additionalProperties");
        node(&schema["additionalProperties"], &path, below, report, rules);
    }
    for (name, inner) in members(schema, "properties") {
        let object = around.root || schema["x-kubernetes-embedded-resource"] == true;
        let reason = format!("in top-level {name}");
        let mut below = below;
        if object && matches!(name.as_str(), "metadata" | "kind" | "apiVersion") {
            below.in_meta = true;
            if around.root {
                below.no_defaults = Some(&reason);
            }
        }
        node(inner, &property(path, name), below, report, rules);
    }
    let alternative = Around {
        rules: false,
        ..below
    };
    if schema["not"].is_object() {
        node(
            &schema["not"],
            &format!("{path}.not"),
            alternative,
            report,
            rules,
        );
    }
    for junctor in ["allOf", "oneOf", "anyOf"] {
        let all = schema[junctor].as_array().map(Vec::as_slice);
        for (i, inner) in all.unwrap_or_default().iter().enumerate() {
            let path = format!("{path}.{junctor}[{i}]");
            node(inner, &path, alternative, report, rules);
        }
    }
    if schema["items"].is_object() {
        let mut below = below;
        if schema["x-kubernetes-list-type"] != "map" {
            below.uncorrelated = below.uncorrelated.or(Some(path));
        }
        node(
            &schema["items"],
            &format!("{path}.items"),
            below,
            report,
            rules,
        );
    }
}

/// What a rule says besides its expression.
fn rule_text(schema: &Value, rule: &Value, path: &str, report: &mut Report) {
    let text = |name: &str| rule[name].as_str().unwrap_or_default();
    let broken = |text: &str| text.contains(['\n', '\r']);
    let at = |name: &str| format!("{path}.{name}");
    let (own, message) = (text("rule").trim(), text("message"));
    if own.is_empty() {
        report.required(at("rule"), "rule is not specified");
    } else if !message.is_empty() && message.trim().is_empty() {
        report.invalid_text(at("message"), message, "must be non-empty if specified");
    } else if broken(message.trim()) {
        report.invalid_text(at("message"), message, "must not contain line breaks");
    } else if broken(own) && message.trim().is_empty() {
        let detail = "message must be specified if rule contains line breaks";
        report.required(at("message"), detail);
    }
    let expression = text("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        let detail = "messageExpression must be non-empty if specified";
        report.required(at("messageExpression"), detail);
    }
    if let Some(reason) = rule["reason"]
        .as_str()
        .filter(|reason| !REASONS.contains(reason))
    {
        report.not_supported(at("reason"), reason, &REASONS);
    }
    let field = text("fieldPath");
    if !field.is_empty() && selectable::find(schema, field, true).is_err() {
        report.invalid_text(at("fieldPath"), field, "must be a valid path");
    }
}

/// Compiles a rule as [`cel::attach`] will, to tell what is wrong with it.
fn compile(schema: &Value, rule: &Value, path: &str, around: Around<'_>, report: &mut Report) {
    let object = around.root || schema["x-kubernetes-embedded-resource"] == true;
    let compiled = cel::compile(schema, rule, object);
    if let Some(error) = &compiled.rule_error {
        report.invalid_shown(format!("{path}.rule"), &shown(rule), error);
    }
    if let Some(error) = &compiled.message_error {
        report.invalid_shown(format!("{path}.messageExpression"), &shown(rule), error);
    }
    if compiled.uses_old_self {
        if let Some(within) = around.uncorrelated {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {within}"
            );
            let own = rule["rule"].as_str().unwrap_or_default();
            report.invalid_text(format!("{path}.rule"), own, &detail);
        }
    } else if let Some(optional) = rule.get("optionalOldSelf").filter(|v| !v.is_null()) {
        let detail = "may not be set if oldSelf is not used in rule";
        report.invalid(format!("{path}.optionalOldSelf"), optional, detail);
    }
}

/// A rule as a real server shows it, which is by the names of its own structure.
fn shown(rule: &Value) -> String {
    let text = |name: &str| gotext::json(&json!(rule[name].as_str().unwrap_or_default()));
    let absent = Map::new();
    let or_null = |name: &str| {
        let own = rule.as_object().unwrap_or(&absent).get(name);
        own.map_or_else(|| "null".to_owned(), gotext::json)
    };
    format!(
        "{{\"Rule\":{},\"Message\":{},\"MessageExpression\":{},\"Reason\":{},\"FieldPath\":{},\
         \"OptionalOldSelf\":{}}}",
        text("rule"),
        text("message"),
        text("messageExpression"),
        or_null("reason"),
        text("fieldPath"),
        or_null("optionalOldSelf")
    )
}
