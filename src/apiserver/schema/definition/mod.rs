//! CustomResourceDefinition objects: what is asked of them, and what they become.

mod defaults;
mod lists;
mod names;
mod openapi;
mod selectable;
mod spec;
mod status;
mod structure;

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::Structural;
use super::cel;
use super::node::{Node, strings};
use super::report::Report;
use crate::apiserver::{ApiError, Cause, ColumnInfo, ResourceInfo, ScaleInfo};

/// One served or stored version.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub(crate) info: ResourceInfo,
    pub(crate) served: bool,
    pub(crate) storage: bool,
    pub(crate) schema: Arc<Structural>,
    /// `openAPIV3Schema` as it was given.
    pub(crate) raw_schema: Value,
    /// JSON paths of fields that `fieldSelector` knows, such as `.spec.color`.
    pub(crate) selectable: Vec<String>,
    /// The warning that goes with each answer, where the version is deprecated.
    pub(crate) deprecation: Option<String>,
}

/// A definition, understood.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) versions: Vec<Version>,
    /// `spec.conversion.webhook.clientConfig`, where conversion is by webhook.
    pub(crate) webhook: Option<Value>,
}

impl Definition {
    /// Checks a CustomResourceDefinition object and compiles it. `object` is completed with the defaults
    /// and the status (`acceptedNames`, conditions `NamesAccepted` and `Established`, `storedVersions`)
    /// that a real server gives it; of a status that it has, conditions and stored versions are kept.
    ///
    /// # Errors
    /// 422 with every cause.
    pub(crate) fn compile(object: &mut Value, now: &str) -> Result<Self, ApiError> {
        set_defaults(object);
        let stored = status::stored_versions(object);
        let mut report = Report::default();
        spec::check(object, &mut report);
        status::check(&stored, object, &mut report);
        let mut versions = Vec::new();
        if report.is_empty() {
            let all = object["spec"]["versions"].as_array();
            for version in all.into_iter().flatten() {
                versions.push(Version::new(&object["spec"], version));
            }
        } else {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            return Err(ApiError::invalid(
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                name,
                &report.into_causes(),
            ));
        }
        status::complete(object, &stored, now);
        let conversion = &object["spec"]["conversion"];
        Ok(Self {
            versions,
            webhook: conversion["webhook"].get("clientConfig").cloned(),
        })
    }

    /// What may not change once a definition is established, or ever.
    pub(crate) fn immutable(object: &Value, old: &Value) -> Vec<Cause> {
        let mut report = Report::default();
        let mut same = |path: &str| {
            let at = format!("/{}", path.replace('.', "/"));
            let new = object.pointer(&at).unwrap_or(&Value::Null);
            if old.pointer(&at).unwrap_or(&Value::Null) != new {
                report.invalid(path, new, "field is immutable");
            }
        };
        if status::is_established(old) {
            same("spec.scope");
            same("spec.names.kind");
        }
        same("spec.group");
        same("spec.names.plural");
        report.into_causes()
    }
}

/// `SetDefaults_CustomResourceDefinition`.
fn set_defaults(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let kind = kind.to_owned();
        let mut set = |name: &str, value: String| {
            let text = names.get(name).and_then(Value::as_str).unwrap_or_default();
            if text.is_empty() && !kind.is_empty() {
                names.insert(name.to_owned(), json!(value));
            }
        };
        set("singular", kind.to_lowercase());
        set("listKind", format!("{kind}List"));
    }
    let conversion = spec.entry("conversion").or_insert(Value::Null);
    if conversion.is_null() {
        *conversion = json!({"strategy": "None"});
    }
    if let Some(service) = conversion
        .pointer_mut("/webhook/clientConfig/service")
        .and_then(Value::as_object_mut)
    {
        service.entry("port").or_insert(json!(443));
    }
}

impl Version {
    /// Of a definition that was checked.
    fn new(spec: &Value, version: &Value) -> Self {
        let raw_schema = version["schema"]["openAPIV3Schema"].clone();
        let mut root = Node::parse(&raw_schema);
        cel::attach(&mut root, &raw_schema, true);
        let flag = |name: &str| version[name].as_bool() == Some(true);
        let paths = version["selectableFields"].as_array();
        let info = info(spec, version);
        Self {
            served: flag("served"),
            storage: flag("storage"),
            schema: Arc::new(Structural::new(root, info.scale.clone())),
            raw_schema,
            selectable: paths
                .into_iter()
                .flatten()
                .filter_map(|field| field["jsonPath"].as_str().map(str::to_owned))
                .collect(),
            deprecation: flag("deprecated").then(|| {
                let own = version["deprecationWarning"].as_str();
                own.map_or_else(
                    || {
                        format!(
                            "{}/{} {} is deprecated",
                            info.group, info.version, info.kind
                        )
                    },
                    str::to_owned,
                )
            }),
            info,
        }
    }
}

fn info(spec: &Value, version: &Value) -> ResourceInfo {
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let subresources = &version["subresources"];
    let columns = version["additionalPrinterColumns"].as_array();
    ResourceInfo {
        group: text(&spec["group"]),
        version: text(&version["name"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        short_names: strings(&names["shortNames"]),
        categories: strings(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        status: subresources["status"].is_object(),
        scale: subresources["scale"].as_object().map(scale),
        subresources: Vec::new(),
        columns: columns.into_iter().flatten().map(column).collect(),
    }
}

fn scale(scale: &Map<String, Value>) -> ScaleInfo {
    let text = |name: &str| scale.get(name).and_then(Value::as_str);
    ScaleInfo {
        spec_replicas: text("specReplicasPath").unwrap_or_default().to_owned(),
        status_replicas: text("statusReplicasPath").unwrap_or_default().to_owned(),
        label_selector: text("labelSelectorPath").map(str::to_owned),
    }
}

fn column(column: &Value) -> ColumnInfo {
    let text = |name: &str| column[name].as_str().unwrap_or_default().to_owned();
    ColumnInfo {
        name: text("name"),
        kind: text("type"),
        format: text("format"),
        description: text("description"),
        priority: column["priority"]
            .as_i64()
            .and_then(|priority| i32::try_from(priority).ok())
            .unwrap_or_default(),
        json_path: text("jsonPath"),
    }
}
