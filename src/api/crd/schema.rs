//! Small words for writing a structural schema.

use serde_json::{Map, Value, json};

/// An object with these properties.
pub(super) fn object(description: &str, properties: &[(&str, Value)]) -> Value {
    let properties: Map<String, Value> = properties
        .iter()
        .map(|(name, schema)| ((*name).to_owned(), schema.clone()))
        .collect();
    json!({ "type": "object", "description": description, "properties": properties })
}

/// The same schema with this description.
pub(super) fn described(description: &str, mut schema: Value) -> Value {
    schema["description"] = json!(description);
    schema
}

/// A text of any length.
pub(super) fn words(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// A text of at most `max` characters.
pub(super) fn text(description: &str, max: u32) -> Value {
    let mut schema = words(description);
    schema["maxLength"] = json!(max);
    schema
}

/// A text of at most `max` characters that matches `pattern`.
pub(super) fn pattern(description: &str, max: u32, pattern: &str) -> Value {
    let mut schema = text(description, max);
    schema["pattern"] = json!(pattern);
    schema
}

/// A text with one of these values.
pub(super) fn one_of(description: &str, values: &[&str]) -> Value {
    json!({ "type": "string", "description": description, "enum": values })
}

/// Yes or no.
pub(super) fn boolean(description: &str) -> Value {
    json!({ "type": "boolean", "description": description })
}

/// A whole number.
pub(super) fn integer(description: &str, format: &str) -> Value {
    json!({ "type": "integer", "format": format, "description": description })
}

/// The same schema with a default.
pub(super) fn defaulting(mut schema: Value, default: Value) -> Value {
    schema["default"] = default;
    schema
}

/// The same schema, required fields named.
pub(super) fn requiring(mut schema: Value, required: &[&str]) -> Value {
    schema["required"] = json!(required);
    schema
}

/// A list that is replaced as a whole.
pub(super) fn list(description: &str, items: &Value) -> Value {
    json!({
        "type": "array",
        "description": description,
        "items": items,
        "x-kubernetes-list-type": "atomic",
    })
}

/// A list whose items are told apart by the field `key`.
pub(super) fn keyed_list(description: &str, key: &str, items: &Value) -> Value {
    let mut schema = list(description, items);
    schema["x-kubernetes-list-type"] = json!("map");
    schema["x-kubernetes-list-map-keys"] = json!([key]);
    schema
}

/// A CEL rule with the message of its violation.
pub(super) fn rule(condition: &str, message: &str) -> Value {
    json!({ "rule": condition, "message": message })
}
