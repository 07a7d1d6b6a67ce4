//! Decoding of built-in kinds, as Go's JSON decoder does it: what a type does not have is left out and
//! named, what is of another type is refused in its words, times and quantities get their one form.

use serde_json::{Map as Object, Value};

use super::super::super::quantity;
use super::{DEDUCED, Id, List, Map, MergeSchema, Scalar, Shape, Types, UNTYPED};

/// Numbers of these names are `int64`, all others `int32`.
const INT64: [&str; 16] = [
    "activeDeadlineSeconds",
    "defaultRequestedSeconds",
    "deletionGracePeriodSeconds",
    "expirationSeconds",
    "fsGroup",
    "generation",
    "metadataGeneration",
    "observedGeneration",
    "observedStatefulSetGeneration",
    "runAsGroup",
    "runAsUser",
    "sizeBytes",
    "supplementalGroups",
    "startingDeadlineSeconds",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
];
/// Numbers of these names may have a fraction: they are of JSON schemas.
const FLOATS: [&str; 3] = ["maximum", "minimum", "multipleOf"];
/// Times with microseconds.
const MICRO: [&str; 4] = ["acquireTime", "eventTime", "lastObservedTime", "renewTime"];
/// Bytes in base64, by the struct and the field.
const BYTES: [(&str, &str); 3] = [
    ("ConfigMap", "binaryData"),
    ("Secret", "data"),
    ("WebhookClientConfig", "caBundle"),
];

impl MergeSchema {
    /// Decodes an object of a built-in kind and gives the paths of the fields that the kind does not
    /// have, which are gone. Objects of other kinds stay as they are.
    ///
    /// # Errors
    /// What Go says of the first field that can't be decoded.
    pub(crate) fn decode(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let mut decoder = Decoder {
            types: &self.types,
            fields: Vec::new(),
            unknown: Vec::new(),
        };
        if self.typed {
            decoder.value(self.root, Place::default(), "", object)?;
        }
        Ok(decoder.unknown)
    }
}

/// The struct and its field in which a value stands.
#[derive(Clone, Copy, Debug, Default)]
struct Place<'a> {
    structure: &'a str,
    field: &'a str,
}

struct Decoder<'a> {
    types: &'a Types,
    /// Fields from the root on.
    fields: Vec<String>,
    unknown: Vec<String>,
}

impl<'a> Decoder<'a> {
    /// `path` names the value with its indexes and keys.
    fn value(
        &mut self,
        id: Id,
        place: Place<'_>,
        path: &str,
        value: &mut Value,
    ) -> Result<(), String> {
        if value.is_null() || matches!(id, UNTYPED | DEDUCED) {
            return Ok(());
        }
        let atom = self.types.get(id);
        match (atom.shape(Some(value)), &mut *value) {
            (Shape::Map(map), Value::Object(object)) => self.object(map, place, path, object),
            (Shape::List(list), Value::Array(items)) => self.list(list, place, path, items),
            (Shape::Scalar(scalar), _) => self.scalar(scalar, place, value),
            _ => Err(self.wrong(id, place, value)),
        }
    }

    fn list(
        &mut self,
        list: &List,
        place: Place<'_>,
        path: &str,
        items: &mut [Value],
    ) -> Result<(), String> {
        for (at, item) in items.iter_mut().enumerate() {
            self.value(list.item, place, &format!("{path}[{at}]"), item)?;
        }
        Ok(())
    }

    fn object(
        &mut self,
        map: &'a Map,
        place: Place<'_>,
        path: &str,
        object: &mut Object<String, Value>,
    ) -> Result<(), String> {
        let below = |name: &str| match path {
            "" => name.to_owned(),
            path => format!("{path}.{name}"),
        };
        let mut unknown = Vec::new();
        for (name, value) in &mut *object {
            if let Some(field) = map.fields.get(name) {
                let place = Place {
                    structure: &map.name,
                    field: name,
                };
                self.fields.push(name.clone());
                self.value(field.of, place, &below(name), value)?;
                self.fields.pop();
            } else if let Some(rest) = map.rest {
                self.value(rest, place, &below(name), value)?;
            } else {
                self.unknown.push(below(name));
                unknown.push(name.clone());
            }
        }
        for name in unknown {
            object.remove(&name);
        }
        Ok(())
    }

    fn scalar(&self, scalar: Scalar, place: Place<'_>, value: &mut Value) -> Result<(), String> {
        let known = match (scalar, &*value) {
            (Scalar::String, Value::String(text)) => {
                if BYTES.contains(&(place.structure, place.field)) {
                    check_base64(text)?;
                }
                true
            }
            (Scalar::Number, Value::Number(number)) => {
                number.is_i64() || FLOATS.contains(&place.field)
            }
            (Scalar::Boolean, Value::Bool(_)) => true,
            (Scalar::Any, Value::String(text)) if is_time(place.field) => {
                *value = time(text, MICRO.contains(&place.field))?.into();
                true
            }
            (Scalar::Any, Value::String(_) | Value::Number(_)) if !is_time(place.field) => {
                let text = value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned);
                *value = quantity::canonical(&text)?.into();
                true
            }
            _ => false,
        };
        if known {
            return Ok(());
        }
        let of = match scalar {
            Scalar::String => "string",
            Scalar::Boolean => "bool",
            Scalar::Number if INT64.contains(&place.field) => "int64",
            Scalar::Number => "int32",
            Scalar::Any if is_time(place.field) => "time.Time",
            Scalar::Any => "resource.Quantity",
        };
        Err(self.mismatch(of, place, value))
    }

    /// What is said of a value that is no struct, map or list where the type is one.
    fn wrong(&self, id: Id, place: Place<'_>, value: &Value) -> String {
        self.mismatch(&self.name(id, place), place, value)
    }

    /// Go's name of a type.
    fn name(&self, id: Id, place: Place<'_>) -> String {
        let atom = self.types.get(id);
        match (&atom.list, &atom.map, atom.scalar) {
            (Some(list), None, _) => format!("[]{}", self.name(list.item, place)),
            (None, Some(map), _) if !map.name.is_empty() => format!("v1.{}", map.name),
            (None, Some(map), _) => match map.rest {
                Some(rest) => format!("map[string]{}", self.name(rest, place)),
                None => "map[string]interface {}".to_owned(),
            },
            (_, _, Some(Scalar::Number)) => "int32".to_owned(),
            (_, _, Some(Scalar::Boolean)) => "bool".to_owned(),
            (_, _, Some(Scalar::Any)) => "resource.Quantity".to_owned(),
            _ if BYTES.contains(&(place.structure, place.field)) => "[]uint8".to_owned(),
            _ => "string".to_owned(),
        }
    }

    fn mismatch(&self, of: &str, place: Place<'_>, value: &Value) -> String {
        let sort = match value {
            Value::Null => "null".to_owned(),
            Value::Bool(_) => "bool".to_owned(),
            Value::Number(number) if of.starts_with("int") => format!("number {number}"),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => "string".to_owned(),
            Value::Array(_) => "array".to_owned(),
            Value::Object(_) => "object".to_owned(),
        };
        let fields = self.fields.join(".");
        match place.structure {
            "" => format!("json: cannot unmarshal {sort} into Go value of type {of}"),
            structure => {
                format!(
                    "json: cannot unmarshal {sort} into Go struct field {structure}.{fields} of type {of}"
                )
            }
        }
    }
}

/// Scalars of these names are times, the other ones quantities.
fn is_time(field: &str) -> bool {
    field == "time"
        || ["Time", "Timestamp", "At"]
            .iter()
            .any(|end| field.ends_with(end))
}

fn check_base64(text: &str) -> Result<(), String> {
    let good =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'\n' | b'\r');
    let bytes = text.as_bytes();
    let digits = text.trim_end_matches('=').len();
    let padding = bytes.len() - digits;
    let bad = match bytes[..digits].iter().position(|byte| !good(*byte)) {
        Some(at) => Some(at),
        None if !bytes.len().is_multiple_of(4) || padding > 2 => Some(bytes.len() / 4 * 4),
        None => None,
    };
    match bad {
        Some(at) => Err(format!("illegal base64 data at input byte {at}")),
        None => Ok(()),
    }
}

/// The one form of a time: in seconds, or with microseconds, which must be given then.
fn time(text: &str, micro: bool) -> Result<String, String> {
    let layout = if micro {
        "2006-01-02T15:04:05.000000Z07:00"
    } else {
        "2006-01-02T15:04:05Z07:00"
    };
    let parsed = text
        .parse::<jiff::Timestamp>()
        .ok()
        .filter(|_| text.as_bytes().get(10) == Some(&b'T'));
    let digits = text
        .get(19..)
        .and_then(|rest| rest.strip_prefix('.'))
        .map_or(0, |rest| {
            rest.bytes().take_while(u8::is_ascii_digit).count()
        });
    match parsed {
        Some(time) if micro && digits == 6 => {
            Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
        }
        Some(time) if !micro => Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
        Some(_) => {
            let rest = text.get(19..).unwrap_or_default();
            Err(format!(
                "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as \".000000\""
            ))
        }
        None => {
            let (rest, element) = unparsed(text);
            Err(format!(
                "parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}"
            ))
        }
    }
}

/// Where a text stops being a time, and what should stand there.
fn unparsed(text: &str) -> (&str, &'static str) {
    let elements = [
        "2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", "Z07:00",
    ];
    let mut rest = text;
    for element in elements {
        let fits = match element {
            "-" | "T" | ":" => rest.starts_with(element),
            digits => rest
                .get(..digits.len())
                .is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit())),
        };
        if !fits {
            return (rest, element);
        }
        rest = &rest[element.len()..];
    }
    (rest, "Z07:00")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn decode(group: &str, kind: &str, object: &mut Value) -> Result<Vec<String>, String> {
        MergeSchema::builtin(group, kind).decode(object)
    }

    #[test]
    fn what_a_kind_does_not_have_is_left_out_and_named() {
        let mut pod = json!({
            "metadata": {"name": "a", "labels": {"any": "thing"}},
            "spec": {"wrong": 1, "containers": [{"name": "c", "imagePull": "Always", "resources": {"limit": {}}}]},
        });
        assert_eq!(
            decode("", "Pod", &mut pod).unwrap(),
            [
                "spec.containers[0].imagePull",
                "spec.containers[0].resources.limit",
                "spec.wrong"
            ]
        );
        assert_eq!(
            pod,
            json!({
                "metadata": {"name": "a", "labels": {"any": "thing"}},
                "spec": {"containers": [{"name": "c", "resources": {}}]},
            })
        );
    }

    #[test]
    fn what_is_of_another_type_is_refused_in_gos_words() {
        let of = |group: &str, kind: &str, mut object: Value| {
            decode(group, kind, &mut object).unwrap_err()
        };
        assert_eq!(
            of("", "ConfigMap", json!({"data": {"k": 1}})),
            "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
        );
        assert_eq!(
            of("", "ConfigMap", json!({"data": ["a"]})),
            "json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string"
        );
        assert_eq!(
            of("", "ConfigMap", json!({"metadata": []})),
            "json: cannot unmarshal array into Go struct field ConfigMap.metadata of type v1.ObjectMeta"
        );
        assert_eq!(
            of(
                "",
                "Service",
                json!({"spec": {"ports": [{"port": "many"}]}})
            ),
            "json: cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32"
        );
        assert_eq!(
            of("", "Secret", json!({"data": {"a": "%"}})),
            "illegal base64 data at input byte 0"
        );
        assert_eq!(
            of(
                "coordination.k8s.io",
                "Lease",
                json!({"spec": {"renewTime": "2020-01-01T00:00:00.5Z"}})
            ),
            "parsing time \"2020-01-01T00:00:00.5Z\" as \"2006-01-02T15:04:05.000000Z07:00\": \
             cannot parse \".5Z\" as \".000000\""
        );
        assert_eq!(
            of(
                "coordination.k8s.io",
                "Lease",
                json!({"spec": {"renewTime": "now"}})
            ),
            "parsing time \"now\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"now\" as \"2006\""
        );
    }

    #[test]
    fn times_and_quantities_have_one_form() {
        let mut claim = json!({
            "metadata": {"creationTimestamp": "2020-01-01T02:00:00.7+02:00"},
            "spec": {"resources": {"requests": {"storage": "1.5Gi", "other": 1}}},
        });
        decode("", "PersistentVolumeClaim", &mut claim).unwrap();
        assert_eq!(
            claim["metadata"]["creationTimestamp"],
            "2020-01-01T00:00:00Z"
        );
        assert_eq!(
            claim["spec"]["resources"]["requests"],
            json!({"storage": "1536Mi", "other": "1"})
        );
    }
}
