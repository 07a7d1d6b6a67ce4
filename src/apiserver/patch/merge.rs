//! Merge patches (RFC 7386).

use serde_json::{Map, Value};

use super::{ApiError, go::go_kind};

/// Merges `patch` into `target`: objects by field, null removes, anything else replaces.
///
/// As in a real API server, nulls are also taken out of objects inside a list that is new, where the
/// RFC would keep them.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(target) = target else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
            continue;
        }
        match target.get_mut(key) {
            Some(Value::Object(_)) if !value.is_object() => {
                target.insert(key.clone(), value.clone());
            }
            Some(old @ Value::Object(_)) => merge(old, value),
            _ => {
                target.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Refuses what a server does not take for a merge patch: anything but an object.
pub(crate) fn check_merge(patch: &Value) -> Result<(), ApiError> {
    match patch {
        Value::Object(_) => Ok(()),
        Value::Null => Err(ApiError::bad_request("Invalid JSON Patch")),
        other => Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go_kind(other)
        ))),
    }
}

/// A value that is new, without fields that are null.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(object) => object
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key.clone(), without_nulls(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The examples of RFC 7386, appendix A, whose target is an object.
    #[test]
    fn the_examples_of_the_rfc_hold() {
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (
                json!({"a": "b", "b": "c"}),
                json!({"a": null}),
                json!({"b": "c"}),
            ),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!([1, 2]),
                json!({"a": "b", "c": null}),
                json!({"a": "b"}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged, result, "{target} with {patch}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..3i64).prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                prop::collection::btree_map("[a-c]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_merged_twice_is_merged_once(target in values(), patch in values()) {
            let mut once = target;
            merge(&mut once, &patch);
            let mut twice = once.clone();
            merge(&mut twice, &patch);
            prop_assert_eq!(once, twice);
        }

        #[test]
        fn the_empty_patch_changes_no_object(target in values()) {
            prop_assume!(target.is_object());
            let mut merged = target.clone();
            merge(&mut merged, &json!({}));
            prop_assert_eq!(merged, target);
        }
    }
}
