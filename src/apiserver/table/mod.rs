//! Tables for people: what `kubectl get` prints.
//!
//! A server makes them, `meta.k8s.io/v1` `Table`: columns with their descriptions, and a row of cells for
//! each object. `columns.json` holds the columns of built-in kinds as kube-apiserver 1.37.2 answers them;
//! kinds that are not in it have their name and when they were made. All of it is pure; `now` comes in.

mod age;
mod cells;
mod columns;
mod jsonpath;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ResourceInfo;

/// How much of an object goes with its row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// The value of the query parameter `includeObject`.
    pub(crate) fn parse(value: &str) -> Self {
        match value {
            "None" => Self::None,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }
}

/// A table of objects, each complete; `list_meta` is the metadata of the list, or the resource version of a
/// single object. Without `headers`, as in all but the first event of a watch, the columns are left out.
pub(crate) fn table(
    info: &ResourceInfo,
    objects: &[&Value],
    list_meta: Value,
    include: IncludeObject,
    headers: bool,
    now: Timestamp,
) -> Value {
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            let mut row = json!({
                "cells": cells(info, object, objects, now),
                "object": included(object, include),
            });
            if let Some(conditions) = cells::conditions(info, object) {
                row["conditions"] = conditions;
            }
            row
        })
        .collect();
    let mut table = json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"});
    table["metadata"] = list_meta;
    table["columnDefinitions"] = if headers {
        columns::of(info)
    } else {
        Value::Null
    };
    table["rows"] = rows.into();
    table
}

fn included(object: &Value, include: IncludeObject) -> Value {
    match include {
        IncludeObject::None => Value::Null,
        IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": "meta.k8s.io/v1",
            "metadata": object["metadata"],
        }),
        IncludeObject::Object => object.clone(),
    }
}

fn cells(info: &ResourceInfo, object: &Value, all: &[&Value], now: Timestamp) -> Vec<Value> {
    if !columns::is_builtin(info) {
        return columns::custom(info, object, now);
    }
    cells::builtin(info, object, all, now).unwrap_or_else(|| {
        let metadata = &object["metadata"];
        vec![
            metadata["name"].clone(),
            metadata["creationTimestamp"].clone(),
        ]
    })
}

#[cfg(test)]
mod tests;
