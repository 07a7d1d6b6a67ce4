//! Whether an object that exists already is the one that we meant to create.

use serde_json::Value;

/// Whether `object` holds all that was `sent` and is there to stay. What the server adds (defaults,
/// metadata) does not matter; what it would have written in another way says no, which is the safe side.
pub(super) fn is_ours(object: &Value, sent: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_null() && holds(object, sent)
}

fn holds(object: &Value, sent: &Value) -> bool {
    match (object, sent) {
        (Value::Object(object), Value::Object(sent)) => {
            sent.iter().all(|(key, value)| match object.get(key) {
                Some(held) => holds(held, value),
                None => is_empty(value),
            })
        }
        (Value::Array(object), Value::Array(sent)) => {
            object.len() == sent.len() && object.iter().zip(sent).all(|(o, s)| holds(o, s))
        }
        (object, sent) => object == sent,
    }
}

/// Servers leave out what is empty.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_the_server_adds_does_not_matter_and_all_else_does() {
        let sent = json!({"metadata": {"name": "a", "labels": {}, "creationTimestamp": null},
                          "spec": {"holder": "me", "ports": [{"port": 1}]}});
        let exists = json!({"metadata": {"name": "a", "uid": "u"},
                            "spec": {"holder": "me", "ports": [{"port": 1, "protocol": "TCP"}]}});
        assert!(is_ours(&exists, &sent));
        for (path, other) in [
            ("/spec/holder", json!("you")),
            ("/spec/ports", json!([])),
            ("/spec/ports/0/port", json!(2)),
            ("/spec", json!("x")),
        ] {
            let mut changed = exists.clone();
            *changed.pointer_mut(path).unwrap() = other;
            assert!(!is_ours(&changed, &sent), "{path}");
        }
        let mut leaving = exists;
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_ours(&leaving, &sent), "it will not be there");
    }
}
