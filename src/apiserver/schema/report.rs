//! Causes as they are gathered, in the words of `field.Error`.

use serde_json::{Value, json};

use super::gotext;
use crate::apiserver::Cause;

/// What is wrong so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    causes: Vec<Cause>,
}

impl Report {
    pub(super) fn is_empty(&self) -> bool {
        self.causes.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.causes.len()
    }

    pub(super) fn into_causes(self) -> Vec<Cause> {
        self.causes
    }

    pub(super) fn append(&mut self, other: Self) {
        self.causes.extend(other.causes);
    }

    /// By what they say, as a real server sorts what it finds in maps.
    pub(super) fn sorted(mut self) -> Self {
        self.causes
            .sort_by_cached_key(|cause| format!("{}: {}", cause.field, cause.message));
        self
    }

    pub(super) fn extend(&mut self, causes: impl IntoIterator<Item = Cause>) {
        self.causes.extend(causes);
    }

    fn push(&mut self, reason: &'static str, field: String, kind: &str, value: &str, detail: &str) {
        let parts = [kind, value, detail];
        let said: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        self.causes.push(Cause {
            reason,
            field,
            message: said.join(": "),
        });
    }

    pub(super) fn required(&mut self, field: impl Into<String>, detail: &str) {
        let reason = "FieldValueRequired";
        self.push(reason, field.into(), "Required value", "", detail);
    }

    pub(super) fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        let reason = "FieldValueForbidden";
        self.push(reason, field.into(), "Forbidden", "", detail);
    }

    pub(super) fn invalid(&mut self, field: impl Into<String>, value: &Value, detail: &str) {
        self.invalid_shown(field, &gotext::bad_value(value), detail);
    }

    /// With a value that is already shown as Go would show it.
    pub(super) fn invalid_shown(&mut self, field: impl Into<String>, shown: &str, detail: &str) {
        let reason = "FieldValueInvalid";
        self.push(reason, field.into(), "Invalid value", shown, detail);
    }

    pub(super) fn invalid_text(&mut self, field: impl Into<String>, value: &str, detail: &str) {
        self.invalid(field, &json!(value), detail);
    }

    pub(super) fn duplicate(&mut self, field: impl Into<String>, value: &Value) {
        let shown = gotext::bad_value(value);
        let reason = "FieldValueDuplicate";
        self.push(reason, field.into(), "Duplicate value", &shown, "");
    }

    pub(super) fn too_many(&mut self, field: impl Into<String>, count: usize, most: usize) {
        let detail = format!("must have at most {most} items");
        let shown = count.to_string();
        let reason = "FieldValueTooMany";
        self.push(reason, field.into(), "Too many", &shown, &detail);
    }

    pub(super) fn not_supported(&mut self, field: impl Into<String>, value: &str, known: &[&str]) {
        let known: Vec<String> = known.iter().map(|one| gotext::quote(one)).collect();
        let detail = format!("supported values: {}", known.join(", "));
        let shown = gotext::quote(value);
        let reason = "FieldValueNotSupported";
        self.push(reason, field.into(), "Unsupported value", &shown, &detail);
    }
}
