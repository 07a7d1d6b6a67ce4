//! What makes a schema structural: every field has a type outside of its alternatives, which only restrict.

use serde_json::{Value, json};

use super::super::pattern::Pattern;
use super::super::report::Report;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// `ValidateStructural`, sorted as there.
pub(super) fn check(schema: &Value, path: &str) -> Report {
    let mut report = Report::default();
    node(schema, Level::Root, path, &mut report);
    complete(schema, schema, path, path, &mut report);
    report.sorted()
}

/// The path of a field's schema.
pub(super) fn property(path: &str, name: &str) -> String {
    format!("{path}.properties[{name}]")
}

/// The members of an object, none for anything else.
pub(super) fn members<'a>(
    schema: &'a Value,
    name: &str,
) -> impl Iterator<Item = (&'a String, &'a Value)> + use<'a> {
    schema[name].as_object().into_iter().flatten()
}

fn on(schema: &Value, flag: &str) -> bool {
    schema[flag] == true
}

fn type_of(schema: &Value) -> &str {
    schema["type"].as_str().unwrap_or_default()
}

fn node(schema: &Value, level: Level, path: &str, report: &mut Report) {
    let kind = type_of(schema);
    let embedded = on(schema, "x-kubernetes-embedded-resource");
    let int_or_string = on(schema, "x-kubernetes-int-or-string");
    let preserve = on(schema, "x-kubernetes-preserve-unknown-fields");
    if kind == "array" && !schema["items"].is_object() {
        report.required(format!("{path}.items"), "must be specified");
    }
    if schema["items"].is_object() {
        node(
            &schema["items"],
            Level::Item,
            &format!("{path}.items"),
            report,
        );
    }
    for (name, inner) in members(schema, "properties") {
        node(inner, Level::Field, &property(path, name), report);
    }
    if let Some(additional) = schema.get("additionalProperties").filter(|v| !v.is_null()) {
        let path = format!("{path}.additionalProperties");
        if level == Level::Root {
            report.forbidden(&path, "must not be used at the root");
        }
        if embedded {
            let detail = "must not be used if x-kubernetes-embedded-resource is set";
            report.forbidden(&path, detail);
        }
        if additional.is_object() {
            node(additional, Level::Field, &path, report);
        }
    }
    for (set, name) in [
        (preserve, "x-kubernetes-preserve-unknown-fields"),
        (embedded, "x-kubernetes-embedded-resource"),
    ] {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            report.invalid(format!("{path}.{name}"), &Value::Bool(true), detail);
        }
    }
    let either = json!([{"type": "integer"}, {"type": "string"}]);
    let any_of = schema["anyOf"] == either;
    let all_of_any_of = schema["allOf"][0]["anyOf"] == either;
    restrictions(schema, any_of, all_of_any_of, path, report);

    let type_path = format!("{path}.type");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() {
            report.required(&type_path, detail);
        } else {
            report.invalid_text(&type_path, kind, detail);
        }
    } else if kind.is_empty() && !int_or_string && !preserve {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        report.required(&type_path, detail);
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        report.invalid_text(&type_path, kind, "must be object at the root");
    }
    meta(schema, level, embedded, path, report);
    let empty = members(schema, "properties").next().is_none();
    if embedded && !preserve && empty {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        report.required(format!("{path}.properties"), detail);
    }
}

/// The fields that every object has can hardly be restricted.
fn meta(schema: &Value, level: Level, embedded: bool, path: &str, report: &mut Report) {
    let object = level == Level::Root || embedded;
    let properties = &schema["properties"];
    for name in ["kind", "apiVersion"] {
        if let Some(inner) = properties.get(name)
            && object
            && type_of(inner) != "string"
        {
            let path = format!("{}.type", property(path, name));
            report.invalid_text(path, type_of(inner), "must be string");
        }
    }
    let Some(metadata) = properties.get("metadata") else {
        return;
    };
    let path = property(path, "metadata");
    if object && type_of(metadata) != "object" {
        let path = format!("{path}.type");
        report.invalid_text(path, type_of(metadata), "must be object");
    }
    if level == Level::Root {
        let named = members(metadata, "properties")
            .all(|(name, _)| name == "name" || name == "generateName");
        let plain = metadata.as_object().is_some_and(|fields| {
            let fine = |name: &String| matches!(name.as_str(), "type" | "default" | "properties");
            fields.keys().all(fine)
        });
        if !named || !plain {
            let detail = "must not specify anything other than name and generateName, but metadata is \
                          implicitly specified";
            report.forbidden(path, detail);
        }
    }
}

/// `validateValueValidation`: alternatives, and the pattern.
fn restrictions(
    schema: &Value,
    skip_any_of: bool,
    skip_first_any_of: bool,
    path: &str,
    report: &mut Report,
) {
    for junctor in ["anyOf", "allOf", "oneOf"] {
        if junctor == "anyOf" && skip_any_of {
            continue;
        }
        let all = schema[junctor].as_array().map(Vec::as_slice);
        for (i, inner) in all.unwrap_or_default().iter().enumerate() {
            let skip = junctor == "allOf" && skip_first_any_of && i == 0;
            let path = format!("{path}.{junctor}[{i}]");
            nested(inner, skip, &path, report);
        }
    }
    if schema["not"].is_object() {
        nested(&schema["not"], false, &format!("{path}.not"), report);
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Err(error) = Pattern::compile(pattern)
    {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        report.invalid_text(format!("{path}.pattern"), pattern, &detail);
    }
}

/// What stands in an alternative restricts values; it adds no structure.
fn nested(schema: &Value, skip_any_of: bool, path: &str, report: &mut Report) {
    restrictions(schema, skip_any_of, false, path, report);
    if schema["items"].is_object() {
        nested(&schema["items"], false, &format!("{path}.items"), report);
    }
    for (name, inner) in members(schema, "properties") {
        nested(inner, false, &property(path, name), report);
    }
    for (name, detail) in [
        ("type", "must be empty to be structural"),
        ("additionalProperties", "must be undefined to be structural"),
        ("default", "must be undefined to be structural"),
        ("title", "must be empty to be structural"),
        ("description", "must be empty to be structural"),
        ("nullable", "must be false to be structural"),
        (
            "x-kubernetes-preserve-unknown-fields",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-embedded-resource",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-int-or-string",
            "must be false to be structural",
        ),
        (
            "x-kubernetes-list-map-keys",
            "must be empty to be structural",
        ),
        (
            "x-kubernetes-list-type",
            "must be undefined to be structural",
        ),
        (
            "x-kubernetes-map-type",
            "must be undefined to be structural",
        ),
        ("x-kubernetes-validations", "must be empty to be structural"),
    ] {
        let unset = match schema.get(name) {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::String(text)) => text.is_empty(),
            Some(Value::Array(list)) => list.is_empty(),
            Some(_) => false,
        };
        if !unset {
            report.forbidden(format!("{path}.{name}"), detail);
        }
    }
    if schema["properties"].get("metadata").is_some() {
        let detail = "must not be specified in a nested context";
        report.forbidden(property(path, "metadata"), detail);
    }
}

/// What alternatives restrict is there in the structure. `at` is where in the alternative, `path` where in
/// the structure.
fn complete(restriction: &Value, schema: &Value, path: &str, at: &str, report: &mut Report) {
    for junctor in ["allOf", "anyOf", "oneOf"] {
        let all = restriction[junctor].as_array().map(Vec::as_slice);
        for (i, inner) in all.unwrap_or_default().iter().enumerate() {
            complete_nested(inner, schema, path, &format!("{at}.{junctor}[{i}]"), report);
        }
    }
    if restriction["not"].is_object() {
        let at = format!("{at}.not");
        complete_nested(&restriction["not"], schema, path, &at, report);
    }
}

fn complete_nested(restriction: &Value, schema: &Value, path: &str, at: &str, report: &mut Report) {
    complete(restriction, schema, path, at, report);
    let inner =
        |restriction: &Value, schema: Option<&Value>, path: &str, at: &str, report: &mut Report| {
            match schema {
                Some(schema) => complete_nested(restriction, schema, path, at, report),
                None => report.required(path, &format!("because it is defined in {at}")),
            }
        };
    if restriction["items"].is_object() {
        let (path, at) = (format!("{path}.items"), format!("{at}.items"));
        inner(
            &restriction["items"],
            schema.get("items"),
            &path,
            &at,
            report,
        );
    }
    for (name, field) in members(restriction, "properties") {
        let (path, at) = (property(path, name), property(at, name));
        inner(field, schema["properties"].get(name), &path, &at, report);
    }
}
