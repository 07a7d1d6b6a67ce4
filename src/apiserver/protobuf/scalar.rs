//! Scalars, and the messages that have a form of their own in JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::wire::{self, Raw, Reader};

/// Reads a value of a type that is no ordinary message; `None` for one that is.
pub(super) fn read(of: &str, raw: &Raw<'_>) -> Result<Option<Value>, String> {
    Ok(Some(match of {
        "string" => wire::text(raw.bytes()?)?.into(),
        "bool" => (raw.number()? != 0).into(),
        "int32" | "int64" | "uint32" => raw.number()?.into(),
        "double" => match raw {
            Raw::Fixed(bits) => f64::from_bits(*bits).into(),
            _ => return Err("a field has the wrong wire type".to_owned()),
        },
        "bytes" => STANDARD.encode(raw.bytes()?).into(),
        "resource.Quantity" => first_text(raw)?.into(),
        "meta.v1.Time" => time(raw, 0)?,
        "meta.v1.MicroTime" => time(raw, 6)?,
        "meta.v1.Duration" => duration(raw)?,
        "intstr.IntOrString" => int_or_string(raw)?,
        "meta.v1.FieldsV1" | "runtime.RawExtension" | "apiextensions.v1.JSON" => embedded(raw)?,
        _ => return Ok(None),
    }))
}

/// What stands for a value that was left out.
pub(super) fn zero(of: &str) -> Value {
    match of {
        "string" | "bytes" => "".into(),
        "bool" => false.into(),
        "int32" | "int64" | "uint32" => 0.into(),
        _ => json!({}),
    }
}

fn first_text(raw: &Raw<'_>) -> Result<String, String> {
    for field in Reader::new(raw.bytes()?) {
        if let (1, Raw::Bytes(text)) = field? {
            return wire::text(text);
        }
    }
    Ok(String::new())
}

/// Field 1 and field 2 as numbers.
fn numbers(raw: &Raw<'_>) -> Result<(Option<i64>, i64), String> {
    let (mut first, mut second) = (None, 0);
    for field in Reader::new(raw.bytes()?) {
        match field? {
            (1, number) => first = Some(number.number()?),
            (2, number) => second = number.number()?,
            _ => {}
        }
    }
    Ok((first, second))
}

fn time(raw: &Raw<'_>, digits: usize) -> Result<Value, String> {
    // A time that is not set is an empty message.
    let (Some(seconds), nanoseconds) = numbers(raw)? else {
        return Ok(Value::Null);
    };
    let nanoseconds = i32::try_from(nanoseconds).map_err(|error| error.to_string())?;
    let time = Timestamp::new(seconds, nanoseconds).map_err(|error| error.to_string())?;
    Ok(format!("{time:.digits$}").into())
}

fn duration(raw: &Raw<'_>) -> Result<Value, String> {
    let (nanoseconds, _) = numbers(raw)?;
    Ok(format!("{}s", nanoseconds.unwrap_or_default() as f64 / 1e9).into())
}

fn int_or_string(raw: &Raw<'_>) -> Result<Value, String> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    for field in Reader::new(raw.bytes()?) {
        match field? {
            (1, kind) => is_text = kind.number()? == 1,
            (2, value) => number = value.number()?,
            (3, Raw::Bytes(bytes)) => text = wire::text(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { text.into() } else { number.into() })
}

/// JSON inside of protobuf.
fn embedded(raw: &Raw<'_>) -> Result<Value, String> {
    let text = Reader::new(raw.bytes()?)
        .find_map(|field| match field {
            Ok((1, Raw::Bytes(bytes))) => Some(bytes),
            _ => None,
        })
        .unwrap_or(b"null");
    serde_json::from_slice(text).map_err(|error| error.to_string())
}
