//! Conflicts with other managers.

use serde_json::json;

use super::{
    element::{Element, path},
    managed::{Managed, Manager, Operation},
    set::Set,
};
use crate::apiserver::ApiError;

/// Fields that others own and an apply would change.
#[derive(Clone, Debug)]
pub(super) struct Conflicts(Vec<(String, Vec<Element>)>);

impl Conflicts {
    /// What is owned by whom.
    pub(super) fn new(conflicts: &[(Manager, Set)], record: &Managed) -> Self {
        let all = conflicts.iter().flat_map(|(manager, fields)| {
            let version = record
                .get(manager)
                .map_or("", |entry| entry.api_version.as_str());
            let said = said(manager, version);
            fields
                .paths()
                .into_iter()
                .map(move |path| (said.clone(), path))
        });
        Self(all.collect())
    }

    /// Without those on fields in `allowed`.
    pub(super) fn outside(mut self, allowed: &Set) -> Self {
        self.0.retain(|(_, path)| !allowed.contains(path));
        self
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A 409 in a real server's words.
    pub(super) fn into_error(self) -> ApiError {
        let causes: Vec<_> = self
            .0
            .iter()
            .map(|(manager, at)| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {manager}"),
                    "field": path(at),
                })
            })
            .collect();
        let message = match self.0.as_slice() {
            [(manager, at)] => {
                format!(
                    "Apply failed with 1 conflict: conflict with {manager}: {}",
                    path(at)
                )
            }
            all => {
                let mut managers: Vec<&String> = all.iter().map(|(manager, _)| manager).collect();
                managers.sort();
                managers.dedup();
                let mut lines = Vec::new();
                for manager in managers {
                    lines.push(format!("conflicts with {manager}:"));
                    let theirs = all.iter().filter(|(other, _)| other == manager);
                    lines.extend(theirs.map(|(_, at)| format!("- {}", path(at))));
                }
                format!(
                    "Apply failed with {} conflicts: {}",
                    all.len(),
                    lines.join("\n")
                )
            }
        };
        let mut error = ApiError::new(409, "Conflict", message);
        error.details = json!({ "causes": causes });
        error
    }
}

/// A manager, as messages name it.
fn said(manager: &Manager, api_version: &str) -> String {
    let mut said = format!("{:?}", manager.name);
    if !manager.subresource.is_empty() {
        said = format!("{said} with subresource {:?}", manager.subresource);
    }
    match manager.operation {
        Operation::Update => format!("{said} using {api_version}"),
        Operation::Apply => said,
    }
}
