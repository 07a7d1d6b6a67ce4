//! The schema of a custom resource, from its structural schema.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::Value;

use super::{
    Atom, DEDUCED, Field, Id, List, Map, MergeSchema, Relation, Scalar, Strategy, Table, Types,
    UNTYPED,
};

/// What every object has on top.
const OBJECT_META: &str = "meta.v1.ObjectMeta";

/// Compiles an `openAPIV3Schema`; anything but an object counts as no schema.
pub(super) fn compile(schema: &Value) -> MergeSchema {
    if !schema.is_object() {
        return MergeSchema::default();
    }
    let (types, meta) = Table::shared().types_with(OBJECT_META);
    let mut compiler = Compiler { types, meta };
    let root = compiler.resource(schema, false);
    MergeSchema {
        types: Arc::new(compiler.types),
        root,
        typed: false,
    }
}

struct Compiler {
    types: Types,
    meta: Id,
}

impl Compiler {
    /// A whole resource: `schema` with `apiVersion`, `kind` and `metadata`.
    fn resource(&mut self, schema: &Value, open: bool) -> Id {
        let mut atom = self.atom(schema, open);
        let text = self.types.add(Atom::scalar(Scalar::String));
        if let Some(map) = &mut atom.map {
            for (name, of) in [
                ("apiVersion", text),
                ("kind", text),
                ("metadata", self.meta),
            ] {
                map.fields.insert(name.to_owned(), field(of, None));
            }
        }
        self.types.add(atom)
    }

    /// `open`: whether an ancestor keeps unknown fields.
    fn node(&mut self, schema: &Value, open: bool) -> Id {
        if flag(schema, "x-kubernetes-embedded-resource") {
            return self.resource(schema, open);
        }
        let atom = self.atom(schema, open);
        self.types.add(atom)
    }

    fn atom(&mut self, schema: &Value, open: bool) -> Atom {
        let open = open || flag(schema, "x-kubernetes-preserve-unknown-fields");
        match schema["type"].as_str() {
            Some("object") => Atom::map(self.map(schema, open)),
            Some("array") => Atom {
                list: Some(self.list(schema, open)),
                ..Atom::default()
            },
            Some("string") if plain(schema) => Atom::scalar(Scalar::String),
            Some("integer" | "number") => Atom::scalar(Scalar::Number),
            Some("boolean") => Atom::scalar(Scalar::Boolean),
            Some(_) => Atom::scalar(Scalar::Any),
            None => Atom {
                scalar: Some(Scalar::Any),
                list: Some(self.list(schema, open)),
                map: Some(self.map(schema, open)),
            },
        }
    }

    fn map(&mut self, schema: &Value, open: bool) -> Map {
        let mut fields = BTreeMap::new();
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let of = self.node(schema, open);
            fields.insert(name.clone(), field(of, schema.get("default").cloned()));
        }
        let rest = match &schema["additionalProperties"] {
            Value::Object(_) => Some(self.node(&schema["additionalProperties"], open)),
            Value::Bool(allowed) => allowed.then_some(DEDUCED),
            _ => (open || fields.is_empty()).then_some(DEDUCED),
        };
        Map {
            name: String::new(),
            fields,
            rest,
            atomic: schema["x-kubernetes-map-type"] == "atomic",
        }
    }

    fn list(&mut self, schema: &Value, open: bool) -> List {
        let item = match &schema["items"] {
            Value::Object(_) => self.node(&schema["items"], open),
            _ => UNTYPED,
        };
        let relation = match schema["x-kubernetes-list-type"].as_str() {
            Some("set") => Relation::Set,
            Some("map") => Relation::Keyed(
                schema["x-kubernetes-list-map-keys"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter_map(|key| key.as_str().map(str::to_owned))
                    .collect(),
            ),
            _ => Relation::Atomic,
        };
        List { item, relation }
    }
}

fn field(of: Id, default: Option<Value>) -> Field {
    Field {
        of,
        default,
        zero: None,
        omit: false,
        strategy: Strategy::Default,
    }
}

fn flag(schema: &Value, name: &str) -> bool {
    schema[name] == Value::Bool(true)
}

/// Whether a string has no format that lets it be written otherwise.
fn plain(schema: &Value) -> bool {
    matches!(schema["format"].as_str(), None | Some("" | "byte"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_and_maps_are_what_the_schema_says() {
        let schema = compile(&json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "users": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "properties": {"name": {"type": "string", "default": "app"}}}},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "port": {"x-kubernetes-int-or-string": true},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "x-kubernetes-preserve-unknown-fields": true},
                "template": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
            }},
        }}));
        let map = |id: Id| schema.types.get(id).map.as_ref().expect("an object");
        let spec = map(map(schema.root).of("spec"));
        let users = schema
            .types
            .get(spec.of("users"))
            .list
            .as_ref()
            .expect("a list");
        assert_eq!(users.relation, Relation::Keyed(vec!["name".to_owned()]));
        assert_eq!(map(users.item).fields["name"].default, Some(json!("app")));
        let tags = schema
            .types
            .get(spec.of("tags"))
            .list
            .as_ref()
            .expect("a list");
        assert_eq!(tags.relation, Relation::Set);
        assert!(map(spec.of("whole")).atomic);
        assert_eq!(map(spec.of("whole")).rest, Some(DEDUCED));
        assert!(map(spec.of("template")).fields.contains_key("metadata"));
        assert_eq!(spec.rest, None);
        assert!(map(schema.root).fields.contains_key("metadata"));
        assert!(schema.types.get(spec.of("port")).scalar.is_some());
    }
}
