//! Kubernetes' protobuf, as typed Go clients (`kubectl create configmap` among them) send their
//! requests. Only what comes in is read; answers are JSON, which these clients take as well.
//!
//! `kinds.messages` holds the fields of the built-in kinds; its head explains it.

mod scalar;
mod table;
mod wire;

use serde_json::{Map, Value};

use super::ApiError;
use table::{Of, Table};
use wire::{Raw, Reader};

/// Media type of such a body.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What it begins with.
const MAGIC: &[u8] = b"k8s\0";
/// Deepest nesting that is followed.
const DEPTH: usize = 64;

/// Reads a body as the JSON that it stands for.
///
/// # Errors
/// 400 for what is broken, and for kinds that are not in the table.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ApiError> {
    read(body).map_err(|problem| {
        ApiError::bad_request(format!(
            "couldn't get version/kind; protobuf error: {problem}"
        ))
    })
}

fn read(body: &[u8]) -> Result<Value, String> {
    let envelope = body.strip_prefix(MAGIC).ok_or(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
    )?;
    let (mut kind, mut api_version, mut raw): (String, String, &[u8]) = Default::default();
    for field in Reader::new(envelope) {
        match field? {
            (1, Raw::Bytes(meta)) => {
                for field in Reader::new(meta) {
                    match field? {
                        (1, Raw::Bytes(text)) => api_version = wire::text(text)?,
                        (2, Raw::Bytes(text)) => kind = wire::text(text)?,
                        _ => {}
                    }
                }
            }
            (2, Raw::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let name = Table::shared()
        .kind(&api_version, &kind)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api_version:?}"))?;
    let mut object = message(name, raw, DEPTH)?;
    object.insert("kind".to_owned(), kind.into());
    object.insert("apiVersion".to_owned(), api_version.into());
    Ok(Value::Object(object))
}

fn message(name: &str, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, String> {
    if depth == 0 {
        return Err("nested too deeply".to_owned());
    }
    let mut object = Map::new();
    let Some(fields) = Table::shared().fields(name) else {
        return Ok(object);
    };
    for entry in Reader::new(bytes) {
        let (number, raw) = entry?;
        let Some(field) = fields.get(&number) else {
            continue;
        };
        match &field.of {
            Of::One(of) => {
                let value = value(of, &raw, depth)?;
                if field.inline {
                    if let Value::Object(inner) = value {
                        object.extend(inner);
                    }
                } else if field.pointer || !is_zero(&value) {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Of::List(of) => {
                let value = value(of, &raw, depth)?;
                let list = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(value);
                }
            }
            Of::Map(of) => {
                let (key, value) = pair(of, &raw, depth)?;
                let map = object
                    .entry(field.name)
                    .or_insert_with(|| Value::Object(Map::new()));
                map[key] = value;
            }
        }
    }
    Ok(object)
}

/// An entry of a map.
fn pair(of: &str, raw: &Raw<'_>, depth: usize) -> Result<(String, Value), String> {
    let (mut key, mut item) = (String::new(), scalar::zero(of));
    for field in Reader::new(raw.bytes()?) {
        match field? {
            (1, Raw::Bytes(text)) => key = wire::text(text)?,
            (2, raw) => item = value(of, &raw, depth)?,
            _ => {}
        }
    }
    Ok((key, item))
}

fn value(of: &str, raw: &Raw<'_>, depth: usize) -> Result<Value, String> {
    if let Some(value) = scalar::read(of, raw)? {
        return Ok(value);
    }
    let bytes = raw.bytes()?;
    match of {
        // Lists and alternatives that Go keeps in a message of their own.
        "authentication.v1.ExtraValue" | "authorization.v1.ExtraValue" => {
            Ok(message(of, bytes, depth - 1)?
                .remove("items")
                .unwrap_or_else(|| Value::Array(Vec::new())))
        }
        "apiextensions.v1.JSONSchemaPropsOrBool" => {
            alternative(bytes, depth, |number| match number {
                2 => Some("apiextensions.v1.JSONSchemaProps"),
                _ => Some("bool"),
            })
        }
        "apiextensions.v1.JSONSchemaPropsOrArray" => alternative(bytes, depth, |number| {
            (number == 1).then_some("apiextensions.v1.JSONSchemaProps")
        }),
        "apiextensions.v1.JSONSchemaPropsOrStringArray" => alternative(bytes, depth, |number| {
            (number == 1).then_some("apiextensions.v1.JSONSchemaProps")
        }),
        _ => Ok(Value::Object(message(of, bytes, depth - 1)?)),
    }
}

/// The last of the alternatives that is there.
fn alternative(
    bytes: &[u8],
    depth: usize,
    of: impl Fn(u64) -> Option<&'static str>,
) -> Result<Value, String> {
    let mut found = Value::Bool(false);
    for field in Reader::new(bytes) {
        let (number, raw) = field?;
        if let Some(of) = of(number) {
            found = value(of, &raw, depth - 1)?;
        }
    }
    Ok(found)
}

/// What Go writes into protobuf though nobody set it, and leaves out of JSON.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Bool(true) => false,
    }
}

#[cfg(test)]
mod tests;
