//! Decoding into Go's types, as a server does it with what it is sent: what the type does not know
//! goes, what is of another type is refused.

use serde_json::Value;

use super::{DEDUCED, Id, MergeSchema, Scalar, Shape, Types, UNTYPED};

impl MergeSchema {
    /// Removes what the kind does not know, and says which fields that were. Kinds that are not known
    /// themselves stay as they are.
    ///
    /// # Errors
    /// What Go's decoder says of a value of the wrong type.
    pub(crate) fn decode(&self, kind: &str, object: &mut Value) -> Result<Vec<String>, String> {
        let mut unknown = Vec::new();
        if self.typed {
            let place = Place {
                kind,
                path: String::new(),
            };
            walk(&self.types, self.root, object, &place, &mut unknown)?;
        }
        Ok(unknown)
    }
}

struct Place<'a> {
    kind: &'a str,
    path: String,
}

impl<'a> Place<'a> {
    fn field(&self, name: &str) -> Place<'a> {
        let path = if self.path.is_empty() {
            name.to_owned()
        } else {
            format!("{}.{name}", self.path)
        };
        Place {
            kind: self.kind,
            path,
        }
    }

    fn index(&self, index: usize) -> Place<'a> {
        Place {
            kind: self.kind,
            path: format!("{}[{index}]", self.path),
        }
    }

    fn refuse(&self, value: &Value, wanted: &str) -> String {
        let what = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        // Go names fields without the indexes of lists.
        let mut path = String::new();
        let mut inside = false;
        for c in self.path.chars() {
            inside = (inside || c == '[') && c != ']';
            if !inside && c != ']' {
                path.push(c);
            }
        }
        format!(
            "json: cannot unmarshal {what} into Go struct field {}.{path} of type {wanted}",
            self.kind
        )
    }
}

fn walk(
    types: &Types,
    id: Id,
    value: &mut Value,
    place: &Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<(), String> {
    if id == UNTYPED || id == DEDUCED || value.is_null() {
        return Ok(());
    }
    match types.get(id).shape(Some(value)) {
        Shape::Map(map) => {
            let Value::Object(object) = value else {
                let wanted = if map.rest.is_some() {
                    "map[string]string"
                } else {
                    "struct"
                };
                return Err(place.refuse(value, wanted));
            };
            if map.rest.is_none() && !map.fields.is_empty() {
                object.retain(|name, _| {
                    let known = map.fields.contains_key(name);
                    if !known {
                        unknown.push(place.field(name).path);
                    }
                    known
                });
            }
            for (name, value) in object.iter_mut() {
                let inner = match map.fields.contains_key(name) {
                    true => place.field(name),
                    // Go names the map, not its key.
                    false => Place {
                        kind: place.kind,
                        path: place.path.clone(),
                    },
                };
                walk(types, map.of(name), value, &inner, unknown)?;
            }
            Ok(())
        }
        Shape::List(list) => {
            let Value::Array(items) = value else {
                return Err(place.refuse(value, "[]struct"));
            };
            for (index, item) in items.iter_mut().enumerate() {
                walk(types, list.item, item, &place.index(index), unknown)?;
            }
            Ok(())
        }
        Shape::Scalar(scalar) => match (scalar, &*value) {
            (_, Value::Object(_) | Value::Array(_)) => Err(place.refuse(value, name(scalar))),
            (Scalar::Any, _)
            | (Scalar::String, Value::String(_))
            | (Scalar::Number, Value::Number(_))
            | (Scalar::Boolean, Value::Bool(_)) => Ok(()),
            _ => Err(place.refuse(value, name(scalar))),
        },
    }
}

fn name(scalar: Scalar) -> &'static str {
    match scalar {
        Scalar::Number => "int32",
        Scalar::Boolean => "bool",
        Scalar::String | Scalar::Any => "string",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_a_kind_does_not_know_goes() {
        let schema = MergeSchema::builtin("", "Pod");
        let mut pod = json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spek": {},
            "spec": {"containers": [{"name": "c", "imagee": "i"}]}});
        let unknown = schema.decode("Pod", &mut pod).unwrap();
        assert_eq!(unknown, ["spek", "spec.containers[0].imagee"]);
        assert_eq!(
            pod,
            json!({"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"containers": [{"name": "c"}]}})
        );
    }

    #[test]
    fn what_is_of_another_type_is_refused() {
        let schema = MergeSchema::builtin("", "ConfigMap");
        let refused = |mut object: Value| schema.decode("ConfigMap", &mut object).unwrap_err();
        assert_eq!(
            refused(json!({"data": {"a": true}})),
            "json: cannot unmarshal bool into Go struct field ConfigMap.data of type string"
        );
        assert_eq!(
            refused(json!({"metadata": {"labels": "x"}})),
            "json: cannot unmarshal string into Go struct field ConfigMap.metadata.labels of type map[string]string"
        );
        let mut null = json!({"data": null, "metadata": {"annotations": {"a": null}}});
        schema.decode("ConfigMap", &mut null).unwrap();
    }
}
