//! Objects inside of objects have a type.

use serde_json::Value;

use super::super::node::Node;
use super::cause;
use crate::apiserver::Cause;

/// Embedded resources without kind or version, anywhere below a value. `path` is empty at the root.
pub(in crate::apiserver::schema) fn check(
    node: &Node,
    value: &Value,
    path: &str,
    causes: &mut Vec<Cause>,
) {
    if let Value::Object(fields) = value
        && node.embedded
        && !path.is_empty()
    {
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
    node.each_below(value, path, |inner, value, path| {
        check(inner, value, path, causes);
    });
}
