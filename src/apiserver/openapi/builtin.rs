//! The schemas of built-in kinds: fields and types, from the table that patches go by, without words.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

use super::schemas::reference;
use crate::apiserver::ResourceInfo;

/// Types by name, each with its fields, and the types of kinds by group and kind.
#[derive(Default)]
struct Table {
    types: BTreeMap<&'static str, Vec<(&'static str, &'static str)>>,
    kinds: BTreeMap<(&'static str, &'static str), &'static str>,
}

static TABLE: LazyLock<Table> =
    LazyLock::new(|| Table::read(include_str!("../patch/schema/builtin.types")));

impl Table {
    /// Reads the lines whose form the head of the file explains; of a field its name and its type.
    fn read(text: &'static str) -> Self {
        let mut table = Self::default();
        let mut current = "";
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&'static str> = line.split_whitespace().collect();
            match (line.starts_with(' '), words.as_slice()) {
                (true, [field, of, ..]) => {
                    table.types.entry(current).or_default().push((field, of));
                }
                (false, ["type", name, ..]) => {
                    current = name;
                    table.types.entry(name).or_default();
                }
                (false, ["kind", group, _, kind, name]) => {
                    let group = if *group == "core" { "" } else { group };
                    table.kinds.insert((group, kind), name);
                }
                _ => {}
            }
        }
        table
    }
}

/// The fields of a kind, and the schemas that they refer to, which are added to `components`.
pub(super) fn fields(info: &ResourceInfo, components: &mut Map<String, Value>) -> Option<Value> {
    let name = TABLE
        .kinds
        .get(&(info.group.as_str(), info.kind.as_str()))?;
    properties(name, components)
}

fn properties(name: &str, components: &mut Map<String, Value>) -> Option<Value> {
    let fields = TABLE.types.get(name)?;
    let mut properties = Map::new();
    for (field, of) in fields {
        properties.insert((*field).to_owned(), schema(of, components));
    }
    Some(properties.into())
}

/// The schema of a type: a scalar, a list, a map, or another type by its name.
fn schema(of: &str, components: &mut Map<String, Value>) -> Value {
    let inside = |open, close| of.strip_prefix(open).and_then(|of| of.strip_suffix(close));
    if let Some(item) = inside('[', ']') {
        return json!({"type": "array", "items": schema(item, components)});
    }
    if let Some(value) = inside('{', '}') {
        return json!({"type": "object", "additionalProperties": schema(value, components)});
    }
    match of {
        "string" | "number" | "boolean" => json!({"type": of}),
        // A time, a quantity, a count or a percentage.
        "scalar" => json!({"type": "string"}),
        "deduced" | "untyped" => json!({"type": "object"}),
        name => {
            let component = component(name);
            if !components.contains_key(&component) {
                // There before its fields are looked at, since they may lead back to it.
                components.insert(component.clone(), Value::Null);
                let properties = properties(name, components).unwrap_or_else(|| json!({}));
                let schema = json!({"type": "object", "properties": properties});
                components.insert(component.clone(), schema);
            }
            json!({"allOf": [reference(&component)]})
        }
    }
}

/// The name of a type as documents have it: `core.v1.PodSpec` is `io.k8s.api.core.v1.PodSpec`.
fn component(name: &str) -> String {
    let package = match name.split('.').next().unwrap_or_default() {
        "meta" => "apimachinery.pkg.apis",
        "apiextensions" => "apiextensions-apiserver.pkg.apis",
        _ => "api",
    };
    format!("io.k8s.{package}.{name}")
}
