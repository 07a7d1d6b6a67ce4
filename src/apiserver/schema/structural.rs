//! The compiled schema of one version of a resource.

use serde_json::{Value, json};

use super::node::Node;
use super::validate::cause;
use super::validate::{self, Old};
use super::{cel, gotext, shape};
use crate::apiserver::{Cause, ScaleInfo};

/// A compiled structural schema of one version.
#[derive(Debug)]
pub(crate) struct Structural {
    root: Node,
    scale: Option<ScaleInfo>,
    /// How many rules there are, at all levels.
    rules: usize,
}

impl Structural {
    pub(super) fn new(root: Node, scale: Option<ScaleInfo>) -> Self {
        let rules = root.rule_count();
        Self { root, scale, rules }
    }

    /// How many rules it has.
    #[cfg(test)]
    pub(super) fn rule_count(&self) -> usize {
        self.rules
    }

    /// Removes what the schema does not know; says which paths (for `fieldValidation`), sorted.
    pub(crate) fn prune(&self, object: &mut Value) -> Vec<String> {
        shape::prune(&self.root, object)
    }

    /// Sets defaults, and drops nulls that the schema does not allow and has no default for.
    pub(crate) fn default(&self, object: &mut Value) {
        shape::drop_nulls(Some(&self.root), object);
        shape::default(&self.root, object);
    }

    /// What is wrong, the CEL rules' verdicts included (`old` for transition rules). Errors in what equals
    /// its old value are not told.
    pub(crate) fn validate(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let ratchet = old.map(|old| Old::root(&self.root, old));
        let mut causes = validate::check(&self.root, object, "", ratchet).causes("");
        if let Some(scale) = &self.scale {
            causes.extend(replicas(object, &scale.spec_replicas));
            causes.extend(scaled(object, scale));
        }
        validate::embedded(&self.root, object, "", &mut causes);
        self.finish(object, old, causes)
    }

    /// The same for a write of the `status` subresource, which only looks at the status. `object` is whole.
    pub(crate) fn validate_status(&self, object: &Value, old: Option<&Value>) -> Vec<Cause> {
        let mut causes = Vec::new();
        if let (Some(node), Some(status)) = (self.root.field("status"), object.get("status")) {
            let ratchet = old.and_then(|old| Old::root(&self.root, old).field("status"));
            causes = validate::check(node, status, "", ratchet).causes("status");
        }
        if let Some(scale) = &self.scale {
            causes.extend(scaled(object, scale));
        }
        self.finish(object, old, causes)
    }

    /// What is checked last: uniqueness in lists, then the rules, which need an object of the right shape.
    fn finish(&self, object: &Value, old: Option<&Value>, mut causes: Vec<Cause>) -> Vec<Cause> {
        let mut repeated = Vec::new();
        if let Some(old) = old {
            validate::lists(&self.root, old, "", &mut repeated);
        }
        // What was not unique before may stay so.
        if repeated.is_empty() {
            validate::lists(&self.root, object, "", &mut causes);
        }
        let blocked = causes.iter().any(|cause| {
            matches!(
                cause.reason,
                "FieldValueNotSupported"
                    | "FieldValueRequired"
                    | "FieldValueTooLong"
                    | "FieldValueTooMany"
                    | "FieldValueTypeInvalid"
            )
        });
        if self.rules == 0 {
            return causes;
        }
        if blocked {
            causes.push(cause(
                "FieldValueInvalid",
                "<nil>".to_owned(),
                Some(&Value::Null),
                "some validation rules were not checked because the object was invalid; \
                 correct the existing errors to complete validation",
            ));
        } else {
            cel::evaluate(&self.root, object, old, "", true, true, &mut causes);
        }
        causes
    }
}

/// What is wrong with the fields of the `scale` subresource in the status.
fn scaled(object: &Value, scale: &ScaleInfo) -> Vec<Cause> {
    let mut causes: Vec<Cause> = replicas(object, &scale.status_replicas)
        .into_iter()
        .collect();
    if let Some(path) = &scale.label_selector {
        let said = match find(object, path) {
            Ok(None | Some(Value::String(_))) => None,
            Ok(Some(other)) => Some(accessor_error(path, other, "string")),
            Err(said) => Some(said),
        };
        let invalid =
            |said: String| cause("FieldValueInvalid", path.clone(), Some(&json!("")), &said);
        causes.extend(said.map(invalid));
    }
    causes
}

/// What is wrong with a count of replicas.
fn replicas(object: &Value, path: &str) -> Option<Cause> {
    let (shown, said) = match find(object, path) {
        Ok(None) => return None,
        Ok(Some(value)) => match value.as_i64() {
            Some(count) if count < 0 => (count, "should be a non-negative integer".to_owned()),
            Some(count) if count > i64::from(i32::MAX) => (
                count,
                format!("should be less than or equal to {}", i32::MAX),
            ),
            Some(_) => return None,
            None => (0, accessor_error(path, value, "int64")),
        },
        Err(said) => (0, said),
    };
    Some(cause(
        "FieldValueInvalid",
        path.to_owned(),
        Some(&json!(shown)),
        &said,
    ))
}

/// The value at a simple path, such as `.spec.replicas`; an error where what is on the way is no object.
fn find<'a>(object: &'a Value, path: &str) -> Result<Option<&'a Value>, String> {
    let mut value = object;
    for name in path.trim_start_matches('.').split('.') {
        match value {
            Value::Object(fields) => match fields.get(name) {
                Some(inner) => value = inner,
                None => return Ok(None),
            },
            other => return Err(accessor_error(path, other, "map[string]interface{}")),
        }
    }
    Ok(Some(value))
}

/// In the words of `unstructured.NestedFieldNoCopy`.
fn accessor_error(path: &str, value: &Value, wanted: &str) -> String {
    let (shown, kind) = match value {
        Value::Null => ("<nil>".to_owned(), "<nil>"),
        Value::Bool(yes) => (yes.to_string(), "bool"),
        Value::Number(number) if number.is_i64() => (gotext::number(number), "int64"),
        Value::Number(number) => (gotext::number(number), "float64"),
        Value::String(text) => (text.clone(), "string"),
        Value::Array(_) => (value.to_string(), "[]interface {}"),
        Value::Object(_) => (value.to_string(), "map[string]interface {}"),
    };
    format!("{path} accessor error: {shown} is of the type {kind}, expected {wanted}")
}
