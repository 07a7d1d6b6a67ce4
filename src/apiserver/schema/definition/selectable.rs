//! Fields for field selectors.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::report::Report;

/// How many fields a version can select by (`MaxSelectableFields`).
const MOST: usize = 8;

/// `ValidateCustomResourceSelectableFields`.
pub(super) fn check(version: &Value, path: &str, report: &mut Report) {
    let fields = version["selectableFields"].as_array();
    let fields = fields.map(Vec::as_slice).unwrap_or_default();
    let schema = &version["schema"]["openAPIV3Schema"];
    let mut seen = BTreeSet::new();
    for (i, field) in fields.iter().enumerate() {
        let at = format!("{path}[{i}].jsonPath");
        let json_path = field["jsonPath"].as_str().unwrap_or_default();
        if json_path.is_empty() {
            report.required(at, "");
            continue;
        }
        let found = match find(schema, json_path, false) {
            Ok(found) => found,
            Err(error) => {
                let detail = format!("is an invalid path: {error}");
                report.invalid_text(at, json_path, &detail);
                continue;
            }
        };
        if json_path.starts_with(".metadata") {
            let detail = "must not point to fields in metadata";
            report.invalid_text(&at, json_path, detail);
        }
        if !matches!(
            found["type"].as_str(),
            Some("string" | "boolean" | "integer")
        ) {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and \
                          strings with formats are allowed.";
            report.invalid_text(&at, json_path, detail);
        }
        if !seen.insert(json_path) {
            report.duplicate(at, &json!(json_path));
        }
    }
    if seen.len() > MOST {
        report.too_many(path, seen.len(), MOST);
    }
}

/// The schema that a path such as `.spec.ports` or `.spec['a-b']` leads to (`ValidFieldPath`).
///
/// # Errors
/// Says what is wrong with the path.
pub(in crate::apiserver::schema) fn find<'a>(
    schema: &'a Value,
    path: &str,
    brackets: bool,
) -> Result<&'a Value, String> {
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(inner) = rest.strip_prefix('[') {
            if !brackets {
                return Err("array notation is not allowed".to_owned());
            }
            let quoted = inner.strip_prefix('\'').ok_or_else(|| {
                let token = inner.split(']').next().unwrap_or_default();
                format!("expected single quoted string but got {token}")
            })?;
            let end = quoted
                .find("']")
                .ok_or_else(|| "unexpected end of JSON path".to_owned())?;
            name = quoted[..end].replace("\\'", "'").replace("\\\\", "\\");
            rest = &quoted[end + 2..];
        } else if let Some(inner) = rest.strip_prefix('.') {
            let end = inner.find(['.', '[', ']']).unwrap_or(inner.len());
            if end == 0 {
                return Err("unexpected end of JSON path".to_owned());
            }
            name = inner[..end].to_owned();
            rest = &inner[end..];
        } else {
            let end = rest.find(['.', '[', ']']).unwrap_or(rest.len());
            return Err(format!("expected [ or . but got: {}", &rest[..end]));
        }
        let inner = match schema.get("properties") {
            Some(properties) => properties.get(&name),
            None => schema
                .get("additionalProperties")
                .filter(|inner| inner.is_object()),
        };
        schema = inner.ok_or_else(|| "does not refer to a valid field".to_owned())?;
    }
    Ok(schema)
}
