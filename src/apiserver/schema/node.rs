//! A schema as it is checked against: `openAPIV3Schema`, parsed once.

use std::collections::BTreeMap;

use serde_json::Value;

use super::cel::Rule;
use super::pattern::Pattern;

/// The JSON types that a schema can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Array,
    Boolean,
    Integer,
    Number,
    Object,
    String,
}

impl Type {
    pub(super) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "array" => Self::Array,
            "boolean" => Self::Boolean,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "object" => Self::Object,
            "string" => Self::String,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Array => "array",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Object => "object",
            Self::String => "string",
        }
    }
}

/// What `additionalProperties` says.
#[derive(Debug)]
pub(super) enum Additional {
    /// `true`: anything is kept and nothing is checked.
    Any,
    /// `false`.
    Nothing,
    Schema(Box<Node>),
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ListType {
    #[default]
    Atomic,
    Set,
    /// By these keys.
    Map(Vec<String>),
}

/// Bounds on a value, without its structure.
#[derive(Debug, Default)]
pub(super) struct Bounds {
    pub(super) allowed: Vec<Value>,
    pub(super) maximum: Option<f64>,
    pub(super) exclusive_maximum: bool,
    pub(super) minimum: Option<f64>,
    pub(super) exclusive_minimum: bool,
    pub(super) multiple_of: Option<f64>,
    pub(super) max_length: Option<u64>,
    pub(super) min_length: Option<u64>,
    pub(super) pattern: Option<Pattern>,
    pub(super) max_items: Option<u64>,
    pub(super) min_items: Option<u64>,
    pub(super) unique_items: bool,
    pub(super) max_properties: Option<u64>,
    pub(super) min_properties: Option<u64>,
    pub(super) required: Vec<String>,
}

/// One schema, of an object, a field or an alternative.
#[derive(Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a keyword of schemas"
)]
pub(super) struct Node {
    /// Empty where there is none; two of them for int-or-string.
    pub(super) types: Vec<Type>,
    /// Only where a server knows it; others say nothing.
    pub(super) format: Option<String>,
    pub(super) nullable: bool,
    pub(super) int_or_string: bool,
    pub(super) preserve_unknown: bool,
    pub(super) embedded: bool,
    pub(super) list_type: ListType,
    pub(super) default: Option<Value>,
    pub(super) properties: BTreeMap<String, Node>,
    pub(super) additional: Option<Additional>,
    pub(super) items: Option<Box<Node>>,
    pub(super) bounds: Bounds,
    pub(super) all_of: Vec<Node>,
    pub(super) any_of: Vec<Node>,
    pub(super) one_of: Vec<Node>,
    pub(super) not: Option<Box<Node>>,
    pub(super) rules: Vec<Rule>,
}

impl Node {
    /// Parses what the checks of a definition have let through; what is not understood is left out.
    /// CEL rules are compiled apart, by [`super::cel`].
    pub(super) fn parse(schema: &Value) -> Self {
        let flag = |name: &str| schema[name].as_bool() == Some(true);
        let nodes = |name: &str| -> Vec<Self> {
            let list = schema[name].as_array().map(Vec::as_slice);
            list.unwrap_or_default().iter().map(Self::parse).collect()
        };
        let nested = |name: &str| {
            let inner = schema.get(name).filter(|inner| inner.is_object());
            inner.map(|inner| Box::new(Self::parse(inner)))
        };
        let int_or_string = flag("x-kubernetes-int-or-string");
        let types = if int_or_string {
            vec![Type::Integer, Type::String]
        } else {
            let named = schema["type"].as_str().and_then(Type::parse);
            named.into_iter().collect()
        };
        Self {
            format: known_format(&types, schema["format"].as_str().unwrap_or_default()),
            types,
            nullable: flag("nullable"),
            int_or_string,
            preserve_unknown: flag("x-kubernetes-preserve-unknown-fields"),
            embedded: flag("x-kubernetes-embedded-resource"),
            list_type: match schema["x-kubernetes-list-type"].as_str() {
                Some("set") => ListType::Set,
                Some("map") => ListType::Map(strings(&schema["x-kubernetes-list-map-keys"])),
                _ => ListType::Atomic,
            },
            default: schema.get("default").filter(|v| !v.is_null()).cloned(),
            properties: schema["properties"]
                .as_object()
                .map(|all| {
                    all.iter()
                        .map(|(k, v)| (k.clone(), Self::parse(v)))
                        .collect()
                })
                .unwrap_or_default(),
            additional: match schema.get("additionalProperties") {
                Some(Value::Bool(true)) => Some(Additional::Any),
                Some(Value::Bool(false)) => Some(Additional::Nothing),
                Some(inner @ Value::Object(_)) => {
                    Some(Additional::Schema(Box::new(Self::parse(inner))))
                }
                _ => None,
            },
            items: nested("items"),
            bounds: Bounds::parse(schema),
            all_of: nodes("allOf"),
            any_of: nodes("anyOf"),
            one_of: nodes("oneOf"),
            not: nested("not"),
            rules: Vec::new(),
        }
    }

    /// How many rules there are, here and below.
    pub(super) fn rule_count(&self) -> usize {
        let additional = match &self.additional {
            Some(Additional::Schema(inner)) => inner.rule_count(),
            _ => 0,
        };
        self.rules.len()
            + additional
            + self.items.as_ref().map_or(0, |inner| inner.rule_count())
            + self
                .properties
                .values()
                .map(Self::rule_count)
                .sum::<usize>()
    }

    /// The schema of a field of an object.
    pub(super) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or(match &self.additional {
            Some(Additional::Schema(inner)) => Some(&**inner),
            _ => None,
        })
    }

    /// The schema of a field of an object at `path` (empty at the root), and where the field is.
    pub(super) fn field_at(&self, path: &str, name: &str) -> Option<(&Self, String)> {
        match (self.properties.get(name), &self.additional) {
            (Some(inner), _) if path.is_empty() => Some((inner, name.to_owned())),
            (Some(inner), _) => Some((inner, format!("{path}.{name}"))),
            (None, Some(Additional::Schema(inner))) => Some((inner, format!("{path}[{name}]"))),
            (None, _) => None,
        }
    }

    /// Gives to `each` the fields or items of a value at `path` that have a schema: it, themselves,
    /// and where they are.
    pub(super) fn each_below(
        &self,
        value: &Value,
        path: &str,
        mut each: impl FnMut(&Self, &Value, &str),
    ) {
        for (name, value) in value.as_object().into_iter().flatten() {
            if let Some((inner, path)) = self.field_at(path, name) {
                each(inner, value, &path);
            }
        }
        let items = value.as_array().into_iter().flatten();
        if let Some(inner) = self.items.as_deref() {
            for (i, item) in items.enumerate() {
                each(inner, item, &format!("{path}[{i}]"));
            }
        }
    }
}

impl Bounds {
    fn parse(schema: &Value) -> Self {
        let flag = |name: &str| schema[name].as_bool() == Some(true);
        Self {
            allowed: schema["enum"].as_array().cloned().unwrap_or_default(),
            maximum: schema["maximum"].as_f64(),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: schema["minimum"].as_f64(),
            exclusive_minimum: flag("exclusiveMinimum"),
            multiple_of: schema["multipleOf"].as_f64(),
            max_length: schema["maxLength"].as_u64(),
            min_length: schema["minLength"].as_u64(),
            pattern: schema["pattern"]
                .as_str()
                .filter(|pattern| !pattern.is_empty())
                .and_then(|pattern| Pattern::compile(pattern).ok()),
            max_items: schema["maxItems"].as_u64(),
            min_items: schema["minItems"].as_u64(),
            unique_items: flag("uniqueItems"),
            max_properties: schema["maxProperties"].as_u64(),
            min_properties: schema["minProperties"].as_u64(),
            required: strings(&schema["required"]),
        }
    }
}

/// The strings of a JSON list.
pub(super) fn strings(list: &Value) -> Vec<String> {
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let strings = list.iter().filter_map(Value::as_str);
    strings.map(str::to_owned).collect()
}

/// A format that a server of 1.37 checks, without dashes; it ignores all others
/// (`supportedVersionedFormats` of apiextensions-apiserver).
fn known_format(types: &[Type], format: &str) -> Option<String> {
    const STRINGS: [&str; 26] = [
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
        "k8sshortname",
        "k8slongname",
    ];
    let known = match types {
        [] | [Type::String] => STRINGS.contains(&format.replace('-', "").as_str()),
        [Type::Integer] => matches!(format, "int32" | "int64"),
        [Type::Number] => matches!(format, "float" | "double"),
        _ => false,
    };
    known.then(|| format.to_owned())
}
