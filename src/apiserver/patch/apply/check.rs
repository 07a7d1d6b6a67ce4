//! Whether a value is of a type, in the words of structured-merge-diff.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{
    super::go::{go, go_syntax, go_type},
    super::schema::{Id, List, Map, Relation, Scalar, Shape, Types},
    element::Element,
    items::element,
};

/// What is wrong with `value`, each with its path; nothing where it is of the type.
pub(super) fn check(types: &Types, id: Id, value: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    walk(types, id, value, "", &mut wrong);
    wrong
}

/// All that is wrong as one message.
pub(super) fn message(wrong: &[String]) -> String {
    match wrong {
        [one] => one.clone(),
        all => format!("errors:\n  {}", all.join("\n  ")),
    }
}

fn walk(types: &Types, id: Id, value: &Value, path: &str, wrong: &mut Vec<String>) {
    let mut say = |message: String| {
        let colon = if path.is_empty() { "" } else { ": " };
        wrong.push(format!("{path}{colon}{message}"));
    };
    if value.is_null() {
        return;
    }
    match types.get(id).shape(Some(value)) {
        Shape::Map(map) => match value {
            Value::Object(_) => fields(types, map, value, path, wrong),
            other => say(format!("expected map, got &{{{}}}", go(other))),
        },
        Shape::List(list) => match value {
            Value::Array(items) => self::items(types, list, items, path, wrong),
            other => say(format!("expected list, got &{{{}}}", go(other))),
        },
        Shape::Scalar(scalar) => match (scalar, value) {
            (Scalar::Number, Value::Number(_))
            | (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Any, Value::Number(_) | Value::String(_) | Value::Bool(_)) => {}
            (Scalar::Number, other) => {
                say(format!(
                    "expected numeric (int or float), got {}",
                    go_type(other)
                ));
            }
            (Scalar::String, other) => {
                say(format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    go_syntax(other)
                ));
            }
            (Scalar::Boolean, other) => say(format!("expected boolean, got &{{{}}}", go(other))),
            (Scalar::Any, other) => say(format!("expected any scalar, got &{{{}}}", go(other))),
        },
    }
}

fn fields(types: &Types, map: &Map, value: &Value, path: &str, wrong: &mut Vec<String>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let path = format!("{path}.{key}");
        if let Some(of) = map.fields.get(key).map(|field| field.of).or(map.rest) { walk(types, of, value, &path, wrong) } else {
            wrong.push(format!("{path}: field not declared in schema"));
            // A real server looks no further in this object.
            return;
        }
    }
}

fn items(types: &Types, list: &List, items: &[Value], path: &str, wrong: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (i, item) in items.iter().enumerate() {
        let step = if list.relation == Relation::Atomic {
            Element::Index(i64::try_from(i).unwrap_or(i64::MAX))
        } else {
            match element(types, list, item) {
                Ok(step) => step,
                Err(message) => {
                    wrong.push(format!("{path}: element {i}: {message}"));
                    return;
                }
            }
        };
        if !seen.insert(step.clone()) {
            wrong.push(format!("{path}: duplicate entries for key {step}"));
        }
        walk(types, list.item, item, &format!("{path}{step}"), wrong);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::super::schema::MergeSchema, *};

    fn wrong(object: &Value) -> String {
        let schema = MergeSchema::builtin("", "Pod");
        message(&check(&schema.types, schema.root, object))
    }

    #[test]
    fn what_is_wrong_is_said_with_its_path() {
        let pod = |container: Value| json!({"spec": {"containers": [container]}});
        assert_eq!(
            wrong(&json!({"spec": {"nope": 1}})),
            ".spec.nope: field not declared in schema"
        );
        assert_eq!(
            wrong(&pod(json!({"name": "a", "stdin": "yes"}))),
            r#".spec.containers[name="a"].stdin: expected boolean, got &{yes}"#
        );
        assert_eq!(
            wrong(&pod(json!({"name": "a", "image": 5}))),
            ".spec.containers[name=\"a\"].image: expected string, got &value.valueUnstructured{Value:5}"
        );
        assert_eq!(
            wrong(&json!({"spec": {"containers": [{"name": "a"}, {"name": "a"}]}})),
            r#".spec.containers: duplicate entries for key [name="a"]"#
        );
        assert_eq!(
            wrong(&json!({"metadata": {"finalizers": [["a"]]}, "spec": {"hostname": null}})),
            ".metadata.finalizers: element 0: not supported: associative list with lists as elements"
        );
    }
}
