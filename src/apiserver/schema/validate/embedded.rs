//! Objects inside of objects have a type.

use serde_json::Value;

use super::super::node::{Additional, Node};
use super::cause;
use crate::apiserver::Cause;

/// Embedded resources without kind or version, anywhere below a value. `path` is empty at the root.
pub(in crate::apiserver::schema) fn check(
    node: &Node,
    value: &Value,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    match value {
        Value::Object(fields) => {
            if node.embedded && !path.is_empty() {
                for name in ["apiVersion", "kind"] {
                    let (reason, value, detail) = match fields.get(name) {
                        None => ("FieldValueRequired", None, ""),
                        Some(Value::String(text)) if !text.is_empty() => continue,
                        Some(text @ Value::String(_)) => {
                            ("FieldValueInvalid", Some(text), "must not be empty")
                        }
                        Some(other) => ("FieldValueInvalid", Some(other), "must be a string"),
                    };
                    causes.push(cause(reason, format!("{path}.{name}"), value, detail));
                }
            }
            for (name, value) in fields {
                if let Some(inner) = node.properties.get(name) {
                    let path = match path {
                        "" => name.clone(),
                        path => format!("{path}.{name}"),
                    };
                    check(inner, value, &path, causes);
                } else if let Some(Additional::Schema(inner)) = &node.additional {
                    check(inner, value, &format!("{path}[{name}]"), causes);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = node.items.as_deref() {
                for (i, item) in items.iter().enumerate() {
                    check(inner, item, &format!("{path}[{i}]"), causes);
                }
            }
        }
        _ => {}
    }
}
