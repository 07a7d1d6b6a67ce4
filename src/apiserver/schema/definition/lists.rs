//! Lists and maps that say how they merge.

use serde_json::{Value, json};

use super::super::node::strings;
use super::super::report::Report;
use super::structure::property;

/// `x-kubernetes-list-type` and `x-kubernetes-map-type`.
pub(super) fn types(schema: &Value, path: &str, report: &mut Report) {
    let kind = schema["type"].as_str().unwrap_or_default();
    for (name, wanted, known) in [
        (
            "x-kubernetes-map-type",
            "object",
            &["atomic", "granular"][..],
        ),
        (
            "x-kubernetes-list-type",
            "array",
            &["atomic", "set", "map"][..],
        ),
    ] {
        let Some(own) = schema[name].as_str() else {
            continue;
        };
        if kind != wanted {
            let detail = format!("must be {wanted} if {name} is specified");
            let path = format!("{path}.type");
            if kind.is_empty() {
                report.required(path, &detail);
            } else {
                report.invalid_text(path, kind, &detail);
            }
        }
        if !known.contains(&own) {
            report.not_supported(format!("{path}.{name}"), own, known);
        }
    }
    let items = &schema["items"];
    if schema["x-kubernetes-list-type"] == "set" {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let list = items["x-kubernetes-list-type"].as_str();
        let granular = items["x-kubernetes-map-type"].as_str() != Some("atomic");
        if items["type"] == "array" && list.is_some_and(|list| list != "atomic") {
            let path = format!("{path}.items.x-kubernetes-list-type");
            report.invalid(path, &items["x-kubernetes-list-type"], detail);
        } else if items["type"] == "object" && granular {
            let path = format!("{path}.items.x-kubernetes-map-type");
            report.invalid(path, &items["x-kubernetes-list-type"], detail);
        }
    }
}

/// `x-kubernetes-list-map-keys`.
pub(super) fn keys(schema: &Value, path: &str, report: &mut Report) {
    let keys = strings(&schema["x-kubernetes-list-map-keys"]);
    let list_type = schema["x-kubernetes-list-type"].as_str();
    let keys_path = format!("{path}.x-kubernetes-list-map-keys");
    let items = &schema["items"];
    if !keys.is_empty() && list_type != Some("map") {
        let path = format!("{path}.x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => report.required(path, detail),
            Some(own) => report.invalid_text(path, own, detail),
        }
    }
    if list_type == Some("map") {
        if keys.is_empty() {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            report.required(&keys_path, detail);
        }
        if !items.is_object() {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            report.required(format!("{path}.items"), detail);
        } else if items["type"] != "object" {
            let kind = items["type"].as_str().unwrap_or_default();
            let detail = "must be object if parent array's x-kubernetes-list-type is map";
            report.invalid_text(format!("{path}.items.type"), kind, detail);
        } else {
            for (i, key) in keys.iter().enumerate() {
                let field = &items["properties"][key];
                if field.is_null() {
                    let detail = "entries must all be names of item properties";
                    report.invalid(&keys_path, &json!(keys), detail);
                } else if matches!(field["type"].as_str(), Some("array" | "object")) {
                    let path = format!("{}.type", property(&format!("{path}.items"), key));
                    let detail =
                        "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    report.invalid_text(path, "object", detail);
                }
                if keys[..i].contains(key) {
                    let detail = "must not contain duplicate entries";
                    report.invalid(&keys_path, &json!(keys), detail);
                }
            }
        }
    }
    if let Some(list @ ("set" | "map")) = list_type {
        if items["nullable"] == true {
            let detail = format!("cannot be nullable when x-kubernetes-list-type is {list}");
            report.forbidden(format!("{path}.items.nullable"), &detail);
        }
        let required = strings(&items["required"]);
        for key in keys.iter().filter(|_| list == "map") {
            let field = &items["properties"][key];
            let path = property(&format!("{path}.items"), key);
            if field.is_object() && !required.contains(key) && field["default"].is_null() {
                let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or \
                              be a required property";
                report.required(format!("{path}.default"), detail);
            }
            if field["nullable"] == true {
                let detail =
                    "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                report.forbidden(format!("{path}.nullable"), detail);
            }
        }
    }
}
