//! JSON inside of a text: a real server writes fields in the order of Go's structs.

use serde_json::Value;

/// Sorts the fields of objects that a text repeats, as they are or quoted.
pub(super) fn sorted(text: &str) -> String {
    let mut all = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((object, length)) = object(rest) {
            all.push_str(&object);
            rest = &rest[length..];
        } else {
            all.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    all
}

/// The object that a text begins with, its fields sorted, and its length in the text.
fn object(text: &str) -> Option<(String, usize)> {
    let begins = ["{\"", "[{\"", "\"{\\\""];
    if !begins.iter().any(|begin| text.starts_with(begin)) {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let value = match values.next()?.ok()? {
        Value::String(quoted) => {
            let object: Value = serde_json::from_str(&quoted).ok()?;
            object.to_string().into()
        }
        value => value,
    };
    Some((value.to_string(), values.byte_offset()))
}
