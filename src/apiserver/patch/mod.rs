//! Patches and field ownership.

use std::sync::Arc;

use serde_json::Value;

use super::ApiError;

/// How the fields of a kind merge: which lists are maps by which keys, which are sets, what is atomic.
#[derive(Debug, Default)]
pub(crate) struct MergeSchema {}

impl MergeSchema {
    /// Of a built-in kind; unknown kinds have atomic lists.
    pub(crate) fn builtin(_group: &str, _kind: &str) -> Arc<Self> {
        unimplemented!()
    }

    /// From a structural schema (`openAPIV3Schema`).
    pub(crate) fn of_crd(_schema: &Value) -> Arc<Self> {
        unimplemented!()
    }
}

/// RFC 7386.
pub(crate) fn merge(_target: &mut Value, _patch: &Value) {
    unimplemented!()
}

/// RFC 6902.
pub(crate) fn json(_target: &mut Value, _operations: &Value) -> Result<(), ApiError> {
    unimplemented!()
}

/// Kubernetes' strategic merge, with its `$patch`, `$deleteFromPrimitiveList`, `$setElementOrder`, `$retainKeys`.
pub(crate) fn strategic(
    _target: &mut Value,
    _patch: &Value,
    _schema: &MergeSchema,
) -> Result<(), ApiError> {
    unimplemented!()
}

/// Who writes, for `managedFields`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Writer<'a> {
    pub(crate) manager: &'a str,
    /// Empty for the main resource.
    pub(crate) subresource: &'a str,
    pub(crate) api_version: &'a str,
    /// Now, RFC 3339 in seconds.
    pub(crate) time: &'a str,
}

/// Server-side apply: `live` (`None` to create) with `applied` merged in and `managedFields` kept.
/// Conflicts with other managers are a 409 with causes, unless forced.
pub(crate) fn apply(
    _live: Option<&Value>,
    _applied: &Value,
    _writer: Writer<'_>,
    _force: bool,
    _schema: &MergeSchema,
) -> Result<Value, ApiError> {
    unimplemented!()
}

/// Any other write: `managedFields` of `new` (replacing whatever it came with) after it has changed `old`.
/// An explicitly empty list in `new` resets them.
pub(crate) fn track(
    _old: Option<&Value>,
    _new: &mut Value,
    _writer: Writer<'_>,
    _schema: &MergeSchema,
) {
    unimplemented!()
}
