//! What a check found, and how it is told.

use serde_json::{Value, json};

use super::super::gotext;
use crate::apiserver::Cause;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::apiserver::schema) struct Failure {
    /// Path of the value; `None` for what real servers tell without one.
    name: Option<String>,
    reason: &'static str,
    /// Shown after the reason; `None` for reasons that show none.
    value: Option<Value>,
    /// After the value.
    detail: String,
    /// The whole of it; what says the same is told once.
    said: String,
}

impl Failure {
    fn new(
        name: &str,
        reason: &'static str,
        value: Option<Value>,
        detail: &str,
        said: String,
    ) -> Self {
        Self {
            name: Some(name.to_owned()),
            reason,
            value,
            detail: detail.to_owned(),
            said,
        }
    }

    /// A bound that does not hold.
    pub(super) fn invalid(path: &str, value: Value, said: String) -> Self {
        Self::new(path, "FieldValueInvalid", Some(value), &said.clone(), said)
    }

    /// `is` is a type's name where the type is wrong, else the text whose format is.
    pub(super) fn wrong_type(path: &str, wanted: &str, is: &str) -> Self {
        let said = format!(
            "{path} in body must be of type {wanted}: {}",
            gotext::quote(is)
        );
        Self::new(
            path,
            "FieldValueTypeInvalid",
            Some(json!(is)),
            &said.clone(),
            said,
        )
    }

    pub(super) fn required(path: &str) -> Self {
        let said = format!("{path} in body is required");
        Self::new(path, "FieldValueRequired", None, "", said)
    }

    pub(super) fn forbidden(path: &str, name: &str) -> Self {
        let said = format!("{path}.{name} in body is a forbidden property");
        Self::invalid(path, json!(name), said)
    }

    pub(super) fn not_supported(path: &str, value: &Value, allowed: &[Value]) -> Self {
        let quoted: Vec<String> = allowed
            .iter()
            .map(|allowed| match allowed {
                Value::String(text) => gotext::quote(text),
                other => gotext::quote(&gotext::json(other)),
            })
            .collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        let said = format!("{path} in body should be one of {allowed:?}");
        let reason = "FieldValueNotSupported";
        Self::new(path, reason, Some(value.clone()), &detail, said)
    }

    pub(super) fn too_long(path: &str, max: u64) -> Self {
        let bytes = if max == 1 { "byte" } else { "bytes" };
        let detail = format!("may not be more than {max} {bytes}");
        let said = format!("{path} in body should be at most {max} chars long");
        Self::new(path, "FieldValueTooLong", None, &detail, said)
    }

    /// Too many items or properties.
    pub(super) fn too_many(path: &str, is: usize, max: u64, what: &str) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        let said = format!("{path} in body should have at most {max} {what}");
        Self::new(path, "FieldValueTooMany", Some(json!(is)), &detail, said)
    }

    /// What a real server says of no field at all.
    pub(super) fn plain(said: String) -> Self {
        Self {
            name: None,
            reason: "FieldValueInvalid",
            value: Some(json!("")),
            detail: said.clone(),
            said,
        }
    }

    /// As a cause; `base` is the field that the paths start at, empty for the object.
    fn cause(&self, base: &str) -> Cause {
        let name = self.name.as_deref().unwrap_or_default();
        let name = name.strip_prefix('.').unwrap_or(name);
        let field = match (base, name) {
            ("", "") => "<nil>".to_owned(),
            (base, "") => base.to_owned(),
            ("", name) => name.to_owned(),
            (base, name) => format!("{base}.{name}"),
        };
        cause(self.reason, field, self.value.as_ref(), &self.detail)
    }
}

/// A cause in the words of `field.Error`: what kind, the value, the detail.
pub(in crate::apiserver::schema) fn cause(
    reason: &'static str,
    field: String,
    value: Option<&Value>,
    detail: &str,
) -> Cause {
    let mut message = match reason {
        "FieldValueRequired" => "Required value",
        "FieldValueNotSupported" => "Unsupported value",
        "FieldValueTooLong" => "Too long",
        "FieldValueTooMany" => "Too many",
        "FieldValueDuplicate" => "Duplicate value",
        "FieldValueForbidden" => "Forbidden",
        _ => "Invalid value",
    }
    .to_owned();
    if let Some(value) = value {
        message.push_str(": ");
        message.push_str(&gotext::bad_value(value));
    }
    if !detail.is_empty() {
        message.push_str(": ");
        message.push_str(detail);
    }
    Cause {
        reason,
        field,
        message,
    }
}

/// The failures, and how many checks were made, by which alternatives are ranked.
#[derive(Clone, Debug, Default)]
pub(in crate::apiserver::schema) struct Outcome {
    failures: Vec<Failure>,
    matches: usize,
}

impl Outcome {
    pub(super) fn matched(matches: usize) -> Self {
        Self {
            failures: Vec::new(),
            matches,
        }
    }

    pub(in crate::apiserver::schema) fn is_valid(&self) -> bool {
        self.failures.is_empty()
    }

    pub(super) fn matches(&self) -> usize {
        self.matches
    }

    pub(super) fn count(&mut self) {
        self.matches += 1;
    }

    pub(super) fn fail(&mut self, failure: Failure) {
        if self.failures.iter().all(|known| known.said != failure.said) {
            self.failures.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.matches += other.matches;
        for failure in other.failures {
            self.fail(failure);
        }
    }

    /// The failures of paths that start at `base`.
    pub(in crate::apiserver::schema) fn causes(&self, base: &str) -> Vec<Cause> {
        self.failures.iter().map(|one| one.cause(base)).collect()
    }
}

impl From<Failure> for Outcome {
    fn from(failure: Failure) -> Self {
        Self {
            failures: vec![failure],
            matches: 0,
        }
    }
}
