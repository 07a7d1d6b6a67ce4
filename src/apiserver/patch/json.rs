//! JSON patches (RFC 6902), with the leniency of a real API server: `replace` of a field that is not
//! there adds it, and a negative index counts from the end.

use serde_json::Value;

use super::{ApiError, go::go_kind};

/// The most operations in one patch (`maxJSONPatchOperations`).
const MOST: usize = 10_000;

/// What a patch did not do. A server says no more about it than that it failed.
struct Failed;

/// Applies `operations` to `target`, all or none. A patch that is none is a 400, one that does not
/// apply a 422, one that is too long a 413.
pub(crate) fn json(target: &mut Value, operations: &Value) -> Result<(), ApiError> {
    let malformed = |what: &str, into: &str| {
        Err(ApiError::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {what} into Go value of type {into}"
        )))
    };
    let Value::Array(operations) = operations else {
        return malformed(go_kind(operations), "[]handlers.jsonPatchOp");
    };
    if let Some(wrong) = operations.iter().find(|operation| !operation.is_object()) {
        return malformed(go_kind(wrong), "handlers.jsonPatchOp");
    }
    for operation in operations {
        for name in ["op", "path", "from"] {
            match &operation[name] {
                Value::Null | Value::String(_) => {}
                wrong => {
                    return Err(ApiError::bad_request(format!(
                        "error decoding patch: json: cannot unmarshal {} into Go struct field \
                         jsonPatchOp.{name} of type string",
                        go_kind(wrong)
                    )));
                }
            }
        }
    }
    if operations.len() > MOST {
        return Err(ApiError::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity is too large: The allowed maximum operations in a JSON patch is {MOST}, got {}",
                operations.len()
            ),
        ));
    }
    let mut patched = target.clone();
    for operation in operations {
        apply(&mut patched, operation).map_err(|Failed| refused())?;
    }
    *target = patched;
    Ok(())
}

/// The answer to a patch that does not apply.
pub(super) fn refused() -> ApiError {
    let mut error = ApiError::new(
        422,
        "Invalid",
        "the server rejected our request due to an error in our request",
    );
    error.details = serde_json::json!({});
    error
}

fn apply(target: &mut Value, operation: &Value) -> Result<(), Failed> {
    let text = |name: &str| operation[name].as_str().ok_or(Failed);
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    let path = text("path")?;
    match text("op")? {
        "add" => add(target, path, value()),
        "remove" => remove(target, path).map(drop),
        "replace" => replace(target, path, value()),
        "move" => {
            let moved = remove(target, text("from")?)?;
            add(target, path, moved)
        }
        "copy" => {
            let copied = get(target, text("from")?)?.cloned().unwrap_or(Value::Null);
            add(target, path, copied)
        }
        "test" => {
            let found = if path.is_empty() {
                Some(&*target)
            } else {
                get(target, path)?
            };
            let expected = operation.get("value").unwrap_or(&Value::Null);
            if same(found.unwrap_or(&Value::Null), expected) {
                Ok(())
            } else {
                Err(Failed)
            }
        }
        _ => Err(Failed),
    }
}

/// Whether two values are the same; numbers by what they are, not how they are written.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// The value that holds what `path` points to, and the last token of it.
fn parent<'a>(target: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), Failed> {
    let (above, last) = path.rsplit_once('/').ok_or(Failed)?;
    let mut at = target;
    for token in above.split('/').skip(1).map(decoded) {
        at = match at {
            Value::Object(object) => object.get_mut(&token),
            Value::Array(items) => {
                let index = index(&token, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        }
        .ok_or(Failed)?;
    }
    Ok((at, decoded(last)))
}

/// What `path` points to; a field that is not there is nothing, an index that is not there fails.
fn get<'a>(target: &'a mut Value, path: &str) -> Result<Option<&'a Value>, Failed> {
    let (holder, last) = parent(target, path)?;
    match holder {
        Value::Object(object) => Ok(object.get(&last)),
        Value::Array(items) => {
            let index = index(&last, items.len())?;
            items.get(index).map(Some).ok_or(Failed)
        }
        _ => Err(Failed),
    }
}

fn add(target: &mut Value, path: &str, value: Value) -> Result<(), Failed> {
    let (holder, last) = parent(target, path)?;
    match holder {
        Value::Object(object) => {
            object.insert(last, value);
        }
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            let index = index(&last, items.len() + 1)?;
            if index > items.len() {
                return Err(Failed);
            }
            items.insert(index, value);
        }
        _ => return Err(Failed),
    }
    Ok(())
}

fn remove(target: &mut Value, path: &str) -> Result<Value, Failed> {
    let (holder, last) = parent(target, path)?;
    match holder {
        Value::Object(object) => object.remove(&last).ok_or(Failed),
        Value::Array(items) => {
            let index = index(&last, items.len())?;
            if index >= items.len() {
                return Err(Failed);
            }
            Ok(items.remove(index))
        }
        _ => Err(Failed),
    }
}

fn replace(target: &mut Value, path: &str, value: Value) -> Result<(), Failed> {
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(Failed);
        }
        *target = value;
        return Ok(());
    }
    let (holder, last) = parent(target, path)?;
    match holder {
        Value::Object(object) => {
            object.insert(last, value);
        }
        Value::Array(items) => {
            let index = index(&last, items.len())?;
            *items.get_mut(index).ok_or(Failed)? = value;
        }
        _ => return Err(Failed),
    }
    Ok(())
}

/// An index into a list of `len`, counted from the end where it is negative.
fn index(token: &str, len: usize) -> Result<usize, Failed> {
    let index: i64 = token.parse().map_err(|_| Failed)?;
    let len = i64::try_from(len).map_err(|_| Failed)?;
    let index = if index < 0 { index + len } else { index };
    usize::try_from(index).map_err(|_| Failed)
}

fn decoded(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(target: Value, operations: &Value) -> Result<Value, u16> {
        let mut target = target;
        let before = target.clone();
        match json(&mut target, operations) {
            Ok(()) => Ok(target),
            Err(error) => {
                assert_eq!(target, before, "a patch that fails changes nothing");
                Err(error.code)
            }
        }
    }

    #[test]
    fn operations_do_what_the_rfc_says() {
        let target = || json!({"a": {"b": [1, 2]}, "x/y": 1, "m~n": 2});
        for (operation, result) in [
            (
                json!({"op": "add", "path": "/a/b/1", "value": 9}),
                json!({"a": {"b": [1, 9, 2]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!({"op": "add", "path": "/a/b/-", "value": 9}),
                json!({"a": {"b": [1, 2, 9]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!({"op": "add", "path": "/a/b/-1", "value": 9}),
                json!({"a": {"b": [1, 2, 9]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!({"op": "remove", "path": "/x~1y"}),
                json!({"a": {"b": [1, 2]}, "m~n": 2}),
            ),
            (
                json!({"op": "remove", "path": "/a/b/-1"}),
                json!({"a": {"b": [1]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!({"op": "replace", "path": "/m~0n", "value": null}),
                json!({"a": {"b": [1, 2]}, "x/y": 1, "m~n": null}),
            ),
            (
                json!({"op": "replace", "path": "/new", "value": 1}),
                json!({"a": {"b": [1, 2]}, "x/y": 1, "m~n": 2, "new": 1}),
            ),
            (
                json!({"op": "move", "from": "/a/b/0", "path": "/c"}),
                json!({"a": {"b": [2]}, "x/y": 1, "m~n": 2, "c": 1}),
            ),
            (
                json!({"op": "copy", "from": "/a", "path": "/c"}),
                json!({"a": {"b": [1, 2]}, "c": {"b": [1, 2]}, "x/y": 1, "m~n": 2}),
            ),
            (
                json!({"op": "test", "path": "/a", "value": {"b": [1, 2.0]}}),
                target(),
            ),
            (
                json!({"op": "test", "path": "/none", "value": null}),
                target(),
            ),
        ] {
            assert_eq!(
                patched(target(), &json!([operation])),
                Ok(result),
                "{operation}"
            );
        }
    }

    #[test]
    fn what_does_not_apply_is_refused_as_a_whole() {
        for operation in [
            json!({"op": "test", "path": "/a", "value": 2}),
            json!({"op": "remove", "path": "/none"}),
            json!({"op": "add", "path": "/none/below", "value": 1}),
            json!({"op": "add", "path": "", "value": {}}),
            json!({"op": "add", "path": "/l/3", "value": 1}),
            json!({"op": "replace", "path": "/l/1", "value": 1}),
            json!({"op": "remove", "path": "/l/x"}),
            json!({"op": "move", "from": "/none", "path": "/b"}),
            json!({"op": "jump", "path": "/a"}),
            json!({"op": "add"}),
        ] {
            let operations = json!([{"op": "add", "path": "/done", "value": 1}, operation]);
            assert_eq!(
                patched(json!({"a": 1, "l": [1]}), &operations),
                Err(422),
                "{operation}"
            );
        }
        assert_eq!(patched(json!({}), &json!({})), Err(400));
        assert_eq!(patched(json!({}), &json!([1])), Err(400));
        let many = vec![json!({"op": "test", "path": ""}); MOST + 1];
        assert_eq!(patched(json!({}), &Value::Array(many)), Err(413));
    }

    proptest! {
        #[test]
        fn what_is_added_and_removed_was_not(keys in prop::collection::btree_map("[a-z/~]{1,3}", 0..9i64, 1..5)) {
            let target = json!({"kept": true, "list": [1, 2, 3]});
            let mut operations = Vec::new();
            for (key, value) in &keys {
                let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
                operations.push(json!({"op": "add", "path": path, "value": value}));
                operations.push(json!({"op": "test", "path": path, "value": value}));
                operations.push(json!({"op": "add", "path": "/list/1", "value": value}));
                operations.push(json!({"op": "remove", "path": "/list/1"}));
                operations.push(json!({"op": "remove", "path": path}));
            }
            prop_assert_eq!(patched(target.clone(), &Value::Array(operations)), Ok(target));
        }
    }
}
