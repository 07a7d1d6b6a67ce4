//! The columns of a kind, and the cells of kinds that are defined.

use std::sync::LazyLock;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age, jsonpath};
use crate::apiserver::ResourceInfo;

/// Columns by kind: name, type, format, description (or `@name` and `@age`), priority.
static COLUMNS: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("columns.json")).expect("the file is well formed")
});

/// Whether a kind comes with the server.
pub(super) fn is_builtin(info: &ResourceInfo) -> bool {
    !info.group.contains('.') || info.group.ends_with(".k8s.io")
}

/// `columnDefinitions`.
pub(super) fn of(info: &ResourceInfo) -> Value {
    let name = column("Name", "string", "name", &described("@name"), 0);
    if !is_builtin(info) {
        let mut all = vec![name];
        if info.columns.is_empty() {
            all.push(column("Age", "date", "", &described("@age"), 0));
        }
        for own in &info.columns {
            let description = if own.description.is_empty() {
                format!(
                    "Custom resource definition column (in JSONPath format): {}",
                    own.json_path
                )
            } else {
                own.description.clone()
            };
            let (kind, format) = (own.kind.as_str(), own.format.as_str());
            all.push(column(&own.name, kind, format, &description, own.priority));
        }
        return all.into();
    }
    let Some(known) = COLUMNS[info.kind.as_str()].as_array() else {
        let created = column("Created At", "date", "", &described("@age"), 0);
        return vec![name, created].into();
    };
    let of = |known: &Value| {
        let text = |i: usize| known[i].as_str().unwrap_or_default();
        let priority = known[4]
            .as_i64()
            .and_then(|priority| i32::try_from(priority).ok());
        let (description, priority) = (described(text(3)), priority.unwrap_or_default());
        column(text(0), text(1), text(2), &description, priority)
    };
    known.iter().map(of).collect()
}

fn described(description: &str) -> String {
    match description {
        "@name" | "@age" => COLUMNS[description].as_str().unwrap_or_default().to_owned(),
        own => own.to_owned(),
    }
}

fn column(name: &str, kind: &str, format: &str, description: &str, priority: i32) -> Value {
    json!({
        "name": name,
        "type": kind,
        "format": format,
        "description": description,
        "priority": priority,
    })
}

/// The cells of an object of a defined kind.
pub(super) fn custom(info: &ResourceInfo, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut cells = vec![object["metadata"]["name"].clone()];
    if info.columns.is_empty() {
        cells.push(date(&object["metadata"]["creationTimestamp"], now));
    }
    for column in &info.columns {
        let found = jsonpath::first(&column.json_path, object);
        cells.push(match (column.kind.as_str(), found) {
            (_, None) | ("integer" | "number" | "boolean" | "date", Some(Value::Null)) => {
                Value::Null
            }
            ("string", Some(value)) => text(value),
            ("integer", Some(Value::Number(number))) => match number.as_i64() {
                Some(integer) => json!(integer),
                #[expect(clippy::cast_possible_truncation, reason = "as Go converts it")]
                None => json!(number.as_f64().unwrap_or_default() as i64),
            },
            ("number", Some(number @ Value::Number(_))) => number.clone(),
            ("boolean", Some(yes @ Value::Bool(_))) => yes.clone(),
            ("date", Some(time @ Value::String(_))) => date(time, now),
            _ => Value::Null,
        });
    }
    cells
}

/// A value as a template prints it.
fn text(value: &Value) -> Value {
    json!(match value {
        Value::String(text) => text.clone(),
        Value::Null => "<nil>".to_owned(),
        other => other.to_string(),
    })
}

fn date(time: &Value, now: Timestamp) -> Value {
    json!(match (time, age::read(time)) {
        (Value::String(text), None) if !text.is_empty() => "<invalid>".to_owned(),
        _ => age::since(time, now),
    })
}
