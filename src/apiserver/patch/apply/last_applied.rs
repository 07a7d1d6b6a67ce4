//! `kubectl apply`'s annotation, for those who move from client-side to server-side apply: what
//! kubectl applied before is kubectl's, whoever is on record.

use serde_json::Value;

use super::{compare::compare, conflict::Conflicts, set::Set, typed};
use crate::apiserver::patch::{MergeSchema, Writer};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The only manager this is for: kubectl's default.
const KUBECTL: &str = "kubectl";
/// Annotations of an object may not be longer than this together (`TotalAnnotationSizeLimitB`).
const LONGEST: usize = 256 * 1024;

/// The conflicts that remain where kubectl may take what it applied on the client's side before.
pub(super) fn without_allowed(
    conflicts: Conflicts,
    live: Option<&Value>,
    writer: Writer<'_>,
    schema: &MergeSchema,
) -> Conflicts {
    if writer.manager != KUBECTL {
        return conflicts;
    }
    match live.and_then(|live| allowed(live, writer, schema)) {
        Some(allowed) => conflicts.outside(&allowed),
        None => conflicts,
    }
}

/// The fields that are still as the annotation says.
fn allowed(live: &Value, writer: Writer<'_>, schema: &MergeSchema) -> Option<Set> {
    let last: Value = serde_json::from_str(annotation(live)?).ok()?;
    if last["apiVersion"] != writer.api_version {
        return None;
    }
    let (types, root) = (&schema.types, schema.root);
    let changed = compare(types, root, &last, &super::bare(live, schema));
    Some(
        typed::fields(types, root, &last)
            .difference(&changed.modified)
            .difference(&changed.added)
            .difference(&changed.removed),
    )
}

/// Keeps the annotation in step with what kubectl applied on the server's side.
pub(super) fn refresh(object: &mut Value, applied: &Value, writer: Writer<'_>) {
    if writer.manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut last = applied.clone();
    if let Some(metadata) = last.get_mut("metadata").and_then(Value::as_object_mut)
        && let Some(annotations) = metadata
            .get_mut("annotations")
            .and_then(Value::as_object_mut)
    {
        annotations.remove(ANNOTATION);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else {
        return;
    };
    annotations.insert(ANNOTATION.to_owned(), Value::String(format!("{last}\n")));
    let long: usize = annotations
        .iter()
        .map(|(key, value)| key.len() + value.as_str().map_or(0, str::len))
        .sum();
    if long > LONGEST {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION]
        .as_str()
        .filter(|text| !text.is_empty())
}
