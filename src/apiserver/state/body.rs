//! Bodies: whether they are of the kind that a path is for.

use serde_json::Value;

use super::served::Served;
use super::State;
use crate::apiserver::{ApiError, Cause};

/// Bytes of a body that are repeated where it is not understood.
const SUMMARY: usize = 30;

impl State {
    /// Checks `apiVersion` and `kind` of a body, where they are given, and sets them.
    pub(super) fn check_type(&self, served: &Served, object: &mut Value) -> Result<(), ApiError> {
        if !object.is_object() {
            return Err(ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse error",
                served.info.kind
            )));
        }
        let given = |field: &str| object[field].as_str().unwrap_or_default();
        let (version, kind) = (given("apiVersion"), given("kind"));
        let expected = (served.api_version(), &served.info.kind);
        let version = if version.is_empty() { &expected.0 } else { version };
        if served.custom.is_some() {
            check_custom(served, object, version, kind, &expected.0)?;
        } else if !kind.is_empty() && (version, kind) != (&*expected.0, &**expected.1) {
            return Err(self.wrong_type(served, version, kind));
        } else if version != expected.0 {
            return Err(wrong_version(version, &expected.0));
        }
        served.name_type(object);
        Ok(())
    }

    /// What is said of a body of another kind than `served`.
    fn wrong_type(&self, served: &Served, api_version: &str, kind: &str) -> ApiError {
        let known = self
            .served
            .values()
            .find(|other| other.custom.is_none() && other.info.kind == kind && other.api_version() == api_version);
        if known.is_some_and(|other| other.storage == served.storage) {
            return wrong_version(api_version, &served.api_version());
        }
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let expected = &served.info.kind;
        let why = if known.is_some() {
            // Go names the packages of the types.
            let package = served.info.group.split('.').next().filter(|group| !group.is_empty()).unwrap_or("core");
            format!("converting ({version}.{kind}) to ({package}.{expected}): unknown conversion")
        } else {
            format!(
                "no kind {kind:?} is registered for version {api_version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )
        };
        ApiError::bad_request(format!("{kind} in version {version:?} cannot be handled as a {expected}: {why}"))
    }
}

fn check_custom(
    served: &Served,
    object: &Value,
    version: &str,
    kind: &str,
    expected: &str,
) -> Result<(), ApiError> {
    if kind.is_empty() {
        let body = object.to_string();
        let summary = match body.char_indices().nth(SUMMARY) {
            Some((end, _)) => format!("{} ...", &body[..end]),
            None => body.clone(),
        };
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}' ({summary})",
            served.info.kind
        )));
    }
    if version != expected {
        return Err(wrong_version(version, expected));
    }
    if kind != served.info.kind {
        let why = format!("must be {}", served.info.kind);
        let cause = Cause::invalid("kind", &kind.into(), &why);
        let name = super::object::text(object, "name");
        return Err(ApiError::invalid(&served.info.group, kind, name, &[cause]));
    }
    Ok(())
}

fn wrong_version(given: &str, expected: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

/// Makes texts of the nulls in maps of texts, as Go reads them.
pub(super) fn null_texts(object: &mut Value) {
    for path in ["/metadata/labels", "/metadata/annotations", "/data", "/stringData"] {
        for value in object.pointer_mut(path).and_then(Value::as_object_mut).into_iter().flat_map(|map| map.values_mut()) {
            if value.is_null() {
                *value = "".into();
            }
        }
    }
}
