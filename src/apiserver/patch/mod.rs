//! Patches and field ownership.
//!
//! Pure functions on JSON: merge patch (RFC 7386), JSON patch (RFC 6902), Kubernetes' strategic merge
//! patch, and server-side apply with the record of who owns which field. Each does what a real API
//! server does, refusals and their words included. [`MergeSchema`] says how a kind's fields merge.

mod apply;
mod go;
mod json;
mod merge;
mod schema;
mod strategic;

pub(crate) use apply::{apply, confine, track};
pub(crate) use go::{go, go_kind};
pub(crate) use json::json;
pub(crate) use merge::{check_merge, merge};
pub(crate) use schema::{MergeSchema, drop_nulls};
pub(crate) use strategic::strategic;

use super::ApiError;

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

#[cfg(test)]
mod tests;
