//! Values as Go prints them, since the messages of a server come from Go.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// `strconv.Quote`.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `%v` of a `float64`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub(super) fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0" } else { "0" }.to_owned();
    }
    if (1e-4..1e6).contains(&value.abs()) {
        return value.to_string();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific
        .split_once('e')
        .unwrap_or((scientific.as_str(), "0"));
    let (sign, size) = match exponent.strip_prefix('-') {
        Some(size) => ('-', size),
        None => ('+', exponent),
    };
    format!("{digits}e{sign}{size:0>2}")
}

/// `%v` of a number of an unstructured object: `int64`, else `float64`.
pub(super) fn number(value: &Number) -> String {
    match value.as_i64() {
        Some(integer) => integer.to_string(),
        None => float(value.as_f64().unwrap_or(f64::NAN)),
    }
}

/// `json.Marshal`, which escapes what HTML could misread.
pub(super) fn json(value: &Value) -> String {
    let plain = value.to_string();
    if !plain.contains(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        return plain;
    }
    plain
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A bad value in the message of a `field.Error`.
pub(super) fn bad_value(value: &Value) -> String {
    match value {
        Value::Bool(yes) => yes.to_string(),
        Value::Number(value) => number(value),
        Value::String(text) => quote(text),
        other => json(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!(float(0.5), "0.5");
        assert_eq!(float(9.0), "9");
        assert_eq!(float(1e21), "1e+21");
        assert_eq!(float(1.5e-7), "1.5e-07");
        assert_eq!(float(123_456.5), "123456.5");
        assert_eq!(float(1_234_567.0), "1.234567e+06");
        assert_eq!(number(&Number::from(12)), "12");
    }

    #[test]
    fn strings_are_quoted_as_go_quotes_them() {
        assert_eq!(quote("a\"b\\\n\u{1}é"), "\"a\\\"b\\\\\\n\\x01é\"");
    }

    #[test]
    fn bad_values_are_shown() {
        assert_eq!(bad_value(&json!("x")), "\"x\"");
        assert_eq!(bad_value(&json!({"a": "<"})), "{\"a\":\"\\u003c\"}");
        assert_eq!(bad_value(&json!(null)), "null");
    }
}
