//! One step of a path: a field, an item of a list by its key or its value, or by its index.

use std::{cmp::Ordering, fmt};

use serde_json::{Map as Object, Value};

/// A step, in the order in which structured-merge-diff sorts them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Element {
    /// A field of an object.
    Field(String),
    /// The item of a list with these fields, sorted by name.
    Key(Vec<(String, Scalar)>),
    /// The item of a set.
    Value(Scalar),
    /// The item at an index; written by nobody, but known.
    Index(i64),
}

/// A step that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no path element")]
pub(super) struct Unreadable(String);

impl Element {
    /// A field.
    pub(super) fn field(name: impl Into<String>) -> Self {
        Self::Field(name.into())
    }

    /// From its form in `fieldsV1`; `None` where the sort is not known, which is to be ignored.
    pub(super) fn parse(text: &str) -> Result<Option<Self>, Unreadable> {
        let unreadable = || Unreadable(text.to_owned());
        let (sort, rest) = text.split_once(':').ok_or_else(unreadable)?;
        Ok(Some(match sort {
            "f" => Self::field(rest),
            "v" => Self::Value(Scalar(
                serde_json::from_str(rest).map_err(|_| unreadable())?,
            )),
            "k" => {
                let key: Object<String, Value> =
                    serde_json::from_str(rest).map_err(|_| unreadable())?;
                Self::key(key.into_iter().collect())
            }
            "i" => Self::Index(rest.parse().map_err(|_| unreadable())?),
            _ => return Ok(None),
        }))
    }

    /// A key, from its fields in any order.
    pub(super) fn key(mut fields: Vec<(String, Value)>) -> Self {
        fields.sort_by(|a, b| a.0.cmp(&b.0));
        Self::Key(
            fields
                .into_iter()
                .map(|(name, value)| (name, Scalar(value)))
                .collect(),
        )
    }

    /// Its form in `fieldsV1`.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let fields: Object<String, Value> = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), value.0.clone()))
                    .collect();
                format!("k:{}", escaped(&Value::Object(fields)))
            }
            Self::Value(value) => format!("v:{}", escaped(&value.0)),
            Self::Index(index) => format!("i:{index}"),
        }
    }
}

/// JSON as Go writes it: safe inside HTML.
fn escaped(value: &Value) -> String {
    let json = value.to_string();
    if !json.contains(['<', '>', '&']) {
        return json;
    }
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

/// As messages write it: `.spec`, `[name="a"]`, `[="a"]`, `[0]`.
impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, ".{name}"),
            Self::Key(fields) => {
                f.write_str("[")?;
                for (i, (name, value)) in fields.iter().enumerate() {
                    let comma = if i == 0 { "" } else { "," };
                    write!(f, "{comma}{name}={}", value.0)?;
                }
                f.write_str("]")
            }
            Self::Value(value) => write!(f, "[={}]", value.0),
            Self::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A path, as messages write it.
pub(super) fn path(steps: &[Element]) -> String {
    steps.iter().map(Element::to_string).collect()
}

/// A scalar with an order: numbers, strings, booleans, then the rest.
#[derive(Clone, Debug)]
pub(super) struct Scalar(pub(super) Value);

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Value| match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        };
        match (&self.0, &other.0) {
            (Value::Number(a), Value::Number(b)) => match (a.as_i64(), b.as_i64()) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => a
                    .as_f64()
                    .unwrap_or(f64::NAN)
                    .total_cmp(&b.as_f64().unwrap_or(f64::NAN)),
            },
            (Value::String(a), Value::String(b)) => a.cmp(b),
            (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
            (a, b) => rank(a)
                .cmp(&rank(b))
                .then_with(|| a.to_string().cmp(&b.to_string())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_and_written() {
        for text in [
            "f:spec",
            "f:a:b",
            r#"k:{"containerPort":80,"protocol":"TCP"}"#,
            r#"v:"example.com/hold""#,
            "v:5",
            "i:3",
        ] {
            let element = Element::parse(text).expect(text).expect(text);
            assert_eq!(element.text(), text);
        }
        assert_eq!(Element::parse("x:new"), Ok(None));
        assert!(Element::parse("spec").is_err());
        assert!(Element::parse("k:{").is_err());
    }

    #[test]
    fn keys_are_sorted_and_escaped() {
        let key = Element::parse(r#"k:{"protocol":"a&b","port":1}"#).expect("a key");
        let key = key.expect("a key");
        assert_eq!(key.text(), r#"k:{"port":1,"protocol":"a\u0026b"}"#);
        assert_eq!(key.to_string(), r#"[port=1,protocol="a&b"]"#);
        assert_eq!(Element::parse(&key.text()), Ok(Some(key)));
    }

    #[test]
    fn fields_come_before_keys_before_values_and_numbers_before_strings() {
        let order = [
            "f:b",
            r#"k:{"name":"a"}"#,
            "v:2",
            "v:10",
            r#"v:"1""#,
            "v:true",
            "i:0",
        ];
        let mut elements: Vec<Element> = order
            .iter()
            .rev()
            .map(|text| Element::parse(text).expect("reads").expect("known"))
            .collect();
        elements.sort();
        let texts: Vec<String> = elements.iter().map(Element::text).collect();
        assert_eq!(texts, order);
    }
}
