//! JSON that notices what is said twice.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Parses JSON; the last of two members with one name counts. Also gives their paths, as strict
/// decoding says it.
pub(super) fn parse(text: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let twice = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let value = Seed {
        path: String::new(),
        twice: &twice,
    }
    .deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((value, twice.into_inner()))
}

/// What Go's decoder says of a text that is no JSON.
pub(super) fn go_error(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return "unexpected end of JSON input".to_owned();
    }
    // serde_json counts columns in bytes, from one.
    let line = text
        .split(|byte| *byte == b'\n')
        .nth(error.line().saturating_sub(1))
        .unwrap_or_default();
    let at = error.column().saturating_sub(1).min(line.len());
    let is = String::from_utf8_lossy(&line[at..]);
    let is = is.chars().next().unwrap_or(' ');
    let said = error.to_string();
    if said.starts_with("expected ident") {
        let before = line[..at].iter();
        let begin = before.rev().take_while(|byte| byte.is_ascii_lowercase());
        let begin = at - begin.count();
        for literal in ["null", "true", "false"] {
            if literal.as_bytes().first() == line.get(begin)
                && let Some(should) = literal.chars().nth(at - begin)
            {
                return format!(
                    "invalid character {is:?} in literal {literal} (expecting {should:?})"
                );
            }
        }
    }
    let (_, place) = GO
        .into_iter()
        .find(|(words, _)| said.starts_with(words))
        .unwrap_or(("", "looking for beginning of value"));
    format!("invalid character {is:?} {place}")
}

/// What serde_json says, and where Go says that a character is wrong.
const GO: [(&str, &str); 8] = [
    ("trailing characters", "after top-level value"),
    ("expected `:`", "after object key"),
    ("expected `,` or `}`", "after object key:value pair"),
    ("expected `,` or `]`", "after array element"),
    (
        "key must be a string",
        "looking for beginning of object key string",
    ),
    (
        "trailing comma",
        "looking for beginning of object key string",
    ),
    ("control character", "in string literal"),
    ("invalid escape", "in string escape code"),
];

struct Seed<'a> {
    path: String,
    twice: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            match items.next_element_seed(Seed {
                path,
                twice: self.twice,
            })? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let path = if self.path.is_empty() {
                name.clone()
            } else {
                format!("{}.{name}", self.path)
            };
            let value = members.next_value_seed(Seed {
                path: path.clone(),
                twice: self.twice,
            })?;
            if map.insert(name, value).is_some() {
                self.twice
                    .borrow_mut()
                    .push(format!("duplicate field {path:?}"));
            }
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_said_twice_is_noticed() {
        let (value, twice) = parse(br#"{"a": 1, "b": [{"c": 1, "c": 2.5}], "a": null}"#).unwrap();
        assert_eq!(value, json!({"a": null, "b": [{"c": 2.5}]}));
        assert_eq!(
            twice,
            ["duplicate field \"b[0].c\"", "duplicate field \"a\""]
        );
        assert!(parse(b"{} x").is_err());
    }

    #[test]
    fn mistakes_are_named_as_go_does() {
        let said = |text: &str| go_error(text.as_bytes(), &parse(text.as_bytes()).unwrap_err());
        assert_eq!(said(r#"{"a":"#), "unexpected end of JSON input");
        assert_eq!(
            said(r#"{"a": 1} trailing"#),
            "invalid character 't' after top-level value"
        );
        assert_eq!(
            said("nonsense"),
            "invalid character 'o' in literal null (expecting 'u')"
        );
        assert_eq!(
            said("{\n\"a\" 1}"),
            "invalid character '1' after object key"
        );
        assert_eq!(said("[1 2]"), "invalid character '2' after array element");
        assert_eq!(
            said(r#"{"a": x}"#),
            "invalid character 'x' looking for beginning of value"
        );
    }
}
