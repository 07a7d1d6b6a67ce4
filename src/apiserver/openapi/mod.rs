//! OpenAPI documents, version 3: one for each version of a group, and an index with their hashes.
//!
//! Kinds that are defined have their whole schema, as `kubectl explain` prints it. Of built-in kinds a
//! document has the operations (by which clients tell that `fieldValidation` is understood) and the fields
//! with their types, but no words. How lists merge is not said either. For that reason strategic merge is
//! not among the media types of their patches, though it is understood: `kubectl apply` then computes
//! patches from the types that it comes with. The document of version 2 is empty: kubectl asks for it about
//! kinds that it does not know, to hear that nobody does.
//!
//! `components.json` and `parameters.json` hold what all documents share, as kube-apiserver 1.37.2 gives it.

mod builtin;
mod operations;
mod schemas;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::ResourceInfo;
use super::discovery::etag;

/// One version of a resource, with its `openAPIV3Schema` where it is defined.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described<'a> {
    pub(crate) info: &'a ResourceInfo,
    pub(crate) schema: Option<&'a Value>,
}

/// `/openapi/v3`: where each document is, with a hash that changes when it does.
pub(crate) fn index(resources: &[Described<'_>]) -> Value {
    let mut paths = Map::new();
    for (group, version) in versions(resources) {
        let Some(document) = document(resources, group, version) else {
            continue;
        };
        let path = prefix(group, version);
        let tag = etag(document.to_string().as_bytes());
        let hash = tag.trim_matches('"');
        let url = format!("/openapi/v3{path}?hash={hash}");
        paths.insert(
            path.trim_start_matches('/').to_owned(),
            json!({"serverRelativeURL": url}),
        );
    }
    json!({ "paths": paths })
}

/// `/openapi/v3/api/v1` (with an empty group) and `/openapi/v3/apis/GROUP/VERSION`; `None` where nothing is
/// served there.
pub(crate) fn document(resources: &[Described<'_>], group: &str, version: &str) -> Option<Value> {
    let mut here: Vec<&Described<'_>> = resources
        .iter()
        .filter(|one| one.info.group == group && one.info.version == version)
        .collect();
    if here.is_empty() {
        return None;
    }
    here.sort_by_key(|one| &one.info.plural);
    let mut paths = BTreeMap::new();
    let mut components = schemas::shared();
    for one in &here {
        operations::add(one.info, &mut paths);
        schemas::add(one, &mut components);
    }
    let defined = here.iter().any(|one| one.schema.is_some());
    let info = if defined {
        json!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"})
    } else {
        json!({"title": "Kubernetes", "version": "1.37"})
    };
    Some(json!({
        "openapi": "3.0.0",
        "info": info,
        "paths": paths,
        "components": {"schemas": components},
    }))
}

/// `/openapi/v2`, without anything in it.
pub(crate) fn second() -> Value {
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "1.37"},
        "paths": {},
    })
}

/// The versions that are served, each once.
fn versions<'a>(resources: &[Described<'a>]) -> Vec<(&'a str, &'a str)> {
    let mut all: Vec<(&str, &str)> = resources
        .iter()
        .map(|one| (one.info.group.as_str(), one.info.version.as_str()))
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// `/api/v1` or `/apis/GROUP/VERSION`.
fn prefix(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

/// Words with their first letters raised, as names of operations are made: `schema-check.example.com`
/// becomes `SchemaCheckExampleCom`.
fn camel(name: &str) -> String {
    name.split(['.', '-', '_'])
        .map(|word| {
            let mut word = word.to_owned();
            if let Some(first) = word.get_mut(..1) {
                first.make_ascii_uppercase();
            }
            word
        })
        .collect()
}

#[cfg(test)]
mod tests;
