//! What is done to an object before it is checked: unknown fields go, nulls go, defaults come.

use serde_json::{Map, Value};

use super::node::{Additional, Node};

/// Fields of every object, which are not pruned where an object starts.
const META: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes from an object what its schema does not know and says, sorted, which fields that was.
pub(super) fn prune(node: &Node, object: &mut Value) -> Vec<String> {
    let mut unknown = Vec::new();
    let mut pruner = Pruner {
        path: String::new(),
        unknown: &mut unknown,
    };
    if node.preserve_unknown {
        pruner.preserved(object, node, true);
    } else {
        pruner.prune(object, Some(node), true);
    }
    unknown.sort();
    unknown
}

/// Removes from a value, which is no object of its own, what its schema does not know.
pub(super) fn prune_value(node: &Node, value: &mut Value) {
    let mut unknown = Vec::new();
    let mut pruner = Pruner {
        path: String::new(),
        unknown: &mut unknown,
    };
    pruner.prune(value, Some(node), false);
}

struct Pruner<'a> {
    path: String,
    unknown: &'a mut Vec<String>,
}

impl Pruner<'_> {
    fn prune(&mut self, value: &mut Value, node: Option<&Node>, embedded: bool) {
        if let Some(node) = node.filter(|node| node.preserve_unknown) {
            self.preserved(value, node, embedded);
            return;
        }
        match value {
            Value::Object(fields) => fields.retain(|name, value| {
                if embedded && META.contains(&name.as_str()) {
                    return true;
                }
                let known = match node {
                    None => None,
                    Some(node) => match (node.properties.get(name), &node.additional) {
                        (Some(property), _) => Some(Some(property)),
                        (None, Some(Additional::Schema(inner))) => Some(Some(&**inner)),
                        // Any value may stand here, yet what it holds is not known to the schema.
                        (None, Some(Additional::Any | Additional::Nothing)) => Some(None),
                        (None, None) => None,
                    },
                };
                if let Some(inner) = known {
                    self.within(&field(&self.path, name), |this| {
                        this.prune(value, inner, inner.is_some_and(|node| node.embedded));
                    });
                } else if !META.contains(&name.as_str()) || !self.path.is_empty() {
                    self.unknown.push(field(&self.path, name));
                }
                known.is_some()
            }),
            Value::Array(items) => {
                let inner = node.and_then(|node| node.items.as_deref());
                for (i, item) in items.iter_mut().enumerate() {
                    self.within(&format!("{}[{i}]", self.path), |this| {
                        this.prune(item, inner, inner.is_some_and(|node| node.embedded));
                    });
                }
            }
            _ => {}
        }
    }

    /// Unknown fields stay here, but what the schema does know is pruned further down.
    fn preserved(&mut self, value: &mut Value, node: &Node, embedded: bool) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if embedded && META.contains(&name.as_str()) {
                        continue;
                    }
                    if let Some(inner) = node.field(name) {
                        self.within(&field(&self.path, name), |this| {
                            this.prune(value, Some(inner), inner.embedded);
                        });
                    }
                }
            }
            Value::Array(items) => {
                let Some(inner) = node.items.as_deref() else {
                    return;
                };
                for (i, item) in items.iter_mut().enumerate() {
                    self.within(&format!("{}[{i}]", self.path), |this| {
                        this.preserved(item, inner, inner.embedded);
                    });
                }
            }
            _ => {}
        }
    }

    fn within(&mut self, path: &str, work: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.path, path.to_owned());
        work(self);
        self.path = outer;
    }
}

fn field(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Removes nulls where the schema allows none and has no default to put in their place.
pub(super) fn drop_nulls(node: Option<&Node>, value: &mut Value) {
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let inner = node.and_then(|node| node.field(name));
            let drop = value.is_null()
                && inner.is_some_and(|node| !node.nullable && node.default.is_none());
            if !drop {
                drop_nulls(inner, value);
            }
            !drop
        }),
        Value::Array(items) => {
            let inner = node.and_then(|node| node.items.as_deref());
            for item in items {
                drop_nulls(inner, item);
            }
        }
        _ => {}
    }
}

/// Sets defaults where a field is missing, or null and not nullable, in objects that are there.
pub(super) fn default(node: &Node, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                if let Some(default) = &property.default {
                    set_default(fields, name, property, default);
                }
            }
            for (name, value) in fields.iter_mut() {
                if let Some(property) = node.properties.get(name) {
                    default(property, value);
                } else if let Some(Additional::Schema(inner)) = &node.additional {
                    fill_null(inner, value);
                    default(inner, value);
                }
            }
        }
        Value::Array(items) => {
            if let Some(inner) = node.items.as_deref() {
                for item in items {
                    fill_null(inner, item);
                    default(inner, item);
                }
            }
        }
        _ => {}
    }
}

fn set_default(fields: &mut Map<String, Value>, name: &str, node: &Node, default: &Value) {
    let missing = match fields.get(name) {
        None => true,
        Some(value) => value.is_null() && !node.nullable,
    };
    if missing {
        fields.insert(name.to_owned(), default.clone());
    }
}

fn fill_null(node: &Node, value: &mut Value) {
    if value.is_null() && !node.nullable {
        *value = node.default.clone().unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pruned(schema: &Value, mut object: Value) -> (Value, Vec<String>) {
        let unknown = prune(&Node::parse(schema), &mut object);
        (object, unknown)
    }

    fn defaulted(schema: &Value, mut object: Value) -> Value {
        let node = Node::parse(schema);
        drop_nulls(Some(&node), &mut object);
        default(&node, &mut object);
        object
    }

    #[test]
    fn unknown_fields_are_pruned_and_named() {
        let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": {"type": "string"},
            "list": {"type": "array", "items": {"type": "object", "properties": {"b": {}}}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                     "properties": {"known": {"type": "object", "properties": {"x": {}}}}},
            "any": {"type": "object", "additionalProperties": true},
        }}}});
        let object = json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "zzz": 1},
            "extra": 1,
            "spec": {"a": "x", "no": 1, "list": [{"b": 1, "c": 2}, {"d": 3}], "labels": {"k": "v"},
                     "free": {"z": 1, "known": {"x": 1, "y": 2}}, "any": {"n": 1, "o": {"p": 1}}}});
        let (object, unknown) = pruned(&schema, object);
        assert_eq!(
            unknown,
            [
                "extra",
                "spec.any.o.p",
                "spec.free.known.y",
                "spec.list[0].c",
                "spec.list[1].d",
                "spec.no"
            ]
        );
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "zzz": 1},
                "spec": {"a": "x", "list": [{"b": 1}, {}], "labels": {"k": "v"},
                         "free": {"z": 1, "known": {"x": 1}}, "any": {"n": 1, "o": {}}}})
        );
    }

    #[test]
    fn embedded_objects_keep_their_meta() {
        let schema = json!({"type": "object", "properties": {"template": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "properties": {"spec": {"type": "object"}}}}});
        let object = json!({"template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"},
            "spec": {"a": 1}, "status": {}}});
        let (object, unknown) = pruned(&schema, object);
        assert_eq!(unknown, ["template.spec.a", "template.status"]);
        assert_eq!(object["template"]["metadata"]["name"], "x");
    }

    #[test]
    fn meta_fields_are_no_exception_further_in() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        let (object, unknown) = pruned(&schema, json!({"spec": {"kind": "x"}}));
        assert_eq!(
            (object, unknown),
            (json!({"spec": {}}), vec!["spec.kind".to_owned()])
        );
    }

    #[test]
    fn defaults_come_where_their_parent_is() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "default": {}, "properties": {
                "n": {"type": "integer", "default": 3},
                "deep": {"type": "object", "properties": {"x": {"default": 1}}}}},
            "status": {"type": "object", "properties": {"phase": {"default": "New"}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"p": {"default": "TCP"}}}},
            "map": {"type": "object", "additionalProperties": {
                "type": "object", "properties": {"q": {"default": true}}}}}});
        let object = defaulted(&schema, json!({"list": [{}], "map": {"k": {}}}));
        assert_eq!(
            object,
            json!({"spec": {"n": 3}, "list": [{"p": "TCP"}], "map": {"k": {"q": true}}})
        );
        let object = defaulted(&schema, json!({"spec": {"n": 5, "deep": {}}, "status": {}}));
        assert_eq!(
            object,
            json!({"spec": {"n": 5, "deep": {"x": 1}}, "status": {"phase": "New"}})
        );
    }

    #[test]
    fn nulls_are_dropped_defaulted_or_kept() {
        let schema = json!({"type": "object", "properties": {
            "plain": {"type": "string"},
            "defaulted": {"type": "string", "default": "d"},
            "nullable": {"type": "string", "nullable": true, "default": "d"},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
        let object = defaulted(
            &schema,
            json!({"plain": null, "defaulted": null, "nullable": null, "free": {"x": null}}),
        );
        assert_eq!(
            object,
            json!({"defaulted": "d", "nullable": null, "free": {"x": null}})
        );
    }
}
