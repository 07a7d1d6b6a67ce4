//! JSON values as CEL sees them: by their schema, without a copy of what they hold.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cel::ExecutionError;
use cel::common::traits::{self, Container, Indexer, Iterable, Sizer, Zeroer};
use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelDuration, CelInt, CelList, CelNull, CelString, CelTimestamp,
    CelUInt, MAP_TYPE, Type,
};
use cel::common::value::{CowVal, Val};
use serde_json::{Map, Value};

use super::super::node::{Additional, Node, Type as JsonType};
use super::time;

/// A value with the type that its schema gives it: text of a format may be a time or bytes, numbers are
/// floats where the schema says `number`. `object` says that it is a whole object, with its metadata.
pub(super) fn typed<'v>(node: &'v Node, value: &'v Value, object: bool) -> Box<dyn Val + 'v> {
    match value {
        Value::Null => Box::new(CelNull),
        Value::Bool(yes) => Box::new(CelBool::from(*yes)),
        Value::Number(number) => {
            let wanted = node.types.first();
            match (number.as_i64(), number.as_u64()) {
                (Some(integer), _) if wanted != Some(&JsonType::Number) => {
                    Box::new(CelInt::from(integer))
                }
                (None, Some(large)) if wanted != Some(&JsonType::Number) => {
                    Box::new(CelUInt::from(large))
                }
                _ => Box::new(CelDouble::from(number.as_f64().unwrap_or(f64::NAN))),
            }
        }
        Value::String(text) => text_of_format(node, text),
        Value::Array(items) => {
            let inner = node.items.as_deref();
            let of_item = |item| match inner {
                Some(inner) => typed(inner, item, inner.embedded),
                None => Box::new(CelNull) as Box<dyn Val + 'v>,
            };
            Box::new(CelList::from(items.iter().map(of_item).collect::<Vec<_>>()))
        }
        Value::Object(fields) => Box::new(Fields::new(node, fields, object)),
    }
}

fn text_of_format<'v>(node: &Node, text: &'v str) -> Box<dyn Val + 'v> {
    let plain = || Box::new(CelString::from(text)) as Box<dyn Val + 'v>;
    if node.int_or_string {
        return plain();
    }
    match node.format.as_deref() {
        Some("byte") => STANDARD
            .decode(text)
            .map_or_else(|_| plain(), |bytes| Box::new(CelBytes::from(bytes))),
        Some("date" | "date-time" | "datetime") => {
            time::timestamp(text).map_or_else(plain, |time| Box::new(CelTimestamp::from(time)))
        }
        Some("duration") => {
            time::duration(text).map_or_else(plain, |span| Box::new(CelDuration::from(span)))
        }
        _ => plain(),
    }
}

/// An object or a map, whose fields get their types when they are looked at.
pub(super) struct Fields<'v> {
    node: &'v Node,
    own: &'v Map<String, Value>,
    object: bool,
    keys: OnceLock<Vec<CelString<'v>>>,
}

impl<'v> Fields<'v> {
    fn new(node: &'v Node, own: &'v Map<String, Value>, object: bool) -> Self {
        Self {
            node,
            own,
            object,
            keys: OnceLock::new(),
        }
    }

    fn find(&self, key: &dyn Val) -> Option<Box<dyn Val + 'v>> {
        let key = key.downcast_ref::<CelString>()?.inner();
        if self.object && matches!(key, "apiVersion" | "kind" | "metadata") {
            return self.meta(key);
        }
        if let Some(Additional::Schema(inner)) = &self.node.additional {
            return Some(typed(inner, self.own.get(key)?, inner.embedded));
        }
        let name = unescape(key);
        let node = self.node.properties.get(&name)?;
        Some(typed(node, self.own.get(&name)?, node.embedded))
    }

    /// The fields that every object has, whatever its schema says.
    fn meta(&self, key: &str) -> Option<Box<dyn Val + 'v>> {
        match self.own.get(key)? {
            Value::Object(fields) => Some(Box::new(Meta { fields })),
            Value::String(text) => Some(Box::new(CelString::from(text.as_str()))),
            _ => None,
        }
    }

    fn keys(&self) -> &[CelString<'v>] {
        self.keys.get_or_init(|| {
            self.own
                .keys()
                .map(|key| CelString::from(key.as_str()))
                .collect()
        })
    }
}

/// A name of a property as rules write it: what is no identifier is escaped.
pub(super) fn unescape(name: &str) -> String {
    const ESCAPES: [(&str, &str); 4] = [
        ("__dot__", "."),
        ("__dash__", "-"),
        ("__slash__", "/"),
        ("__underscores__", "__"),
    ];
    if !name.contains("__") {
        return name.to_owned();
    }
    // A reserved word stands in double underscores as a whole.
    if let Some(word) = name
        .strip_prefix("__")
        .and_then(|rest| rest.strip_suffix("__"))
        && RESERVED.contains(&word)
    {
        return word.to_owned();
    }
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    'next: while !rest.is_empty() {
        for (escaped, plain) in ESCAPES {
            if let Some(after) = rest.strip_prefix(escaped) {
                out.push_str(plain);
                rest = after;
                continue 'next;
            }
        }
        let taken = rest.chars().next().map_or(1, char::len_utf8);
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out
}

/// Words that CEL does not take as names of fields (`celReservedSymbols` of k8s.io/apiserver).
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

fn key_text(key: &dyn Val) -> String {
    match key.downcast_ref::<CelString>() {
        Some(text) => text.inner().to_owned(),
        None => key.get_type().name().to_owned(),
    }
}

/// Whether a map-like value has exactly these keys, with equal values.
fn same<'v>(
    own: impl Iterator<Item = &'v String>,
    size: usize,
    get: impl Fn(&CelString<'_>) -> Option<Box<dyn Val + 'v>>,
    other: &dyn Val,
) -> bool {
    let (Some(sizer), Some(indexer)) = (other.as_sizer(), other.as_indexer()) else {
        return false;
    };
    if other.get_type() != &MAP_TYPE || usize::try_from(*sizer.size().inner()) != Ok(size) {
        return false;
    }
    let mut own = own;
    own.all(|key| {
        let key = CelString::from(key.as_str());
        match (get(&key), indexer.get(&key)) {
            (Some(value), Ok(other)) => value.equals(other.as_ref()),
            // What the schema does not know is not compared.
            (None, Err(_)) => true,
            _ => false,
        }
    })
}

impl std::fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.own).finish()
    }
}

impl Val for Fields<'_> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_container(&self) -> Option<&dyn Container> {
        Some(self)
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_iterable<'b, 'w>(&'b self) -> Option<&'b (dyn Iterable + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn as_sizer(&self) -> Option<&dyn Sizer> {
        Some(self)
    }

    fn as_zeroer(&self) -> Option<&dyn Zeroer> {
        Some(self)
    }

    fn equals(&self, other: &dyn Val) -> bool {
        let get = |key: &CelString<'_>| self.find(key);
        same(self.own.keys(), self.own.len(), get, other)
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(Self::new(self.node, self.own, self.object))
    }
}

impl Container for Fields<'_> {
    fn contains(&self, key: &dyn Val) -> Result<bool, ExecutionError> {
        Ok(self.find(key).is_some())
    }
}

impl Indexer for Fields<'_> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.find(key)
            .map(|value| CowVal::Owned(value as Box<dyn Val + 'w>))
            .ok_or_else(|| ExecutionError::no_such_key(&key_text(key)))
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.find(key)
            .map(|value| value as Box<dyn Val + 'w>)
            .ok_or_else(|| ExecutionError::no_such_key(&key_text(key)))
    }
}

struct Keys<'b, 'v>(std::slice::Iter<'b, CelString<'v>>);

impl<'b, 'w, 'v: 'w> traits::Iterator<'b, 'w> for Keys<'b, 'v> {
    fn next(&mut self) -> Option<&'b (dyn Val + 'w)> {
        self.0.next().map(|key| key as &'b (dyn Val + 'w))
    }
}

impl Iterable for Fields<'_> {
    fn iter<'b, 'w>(&'b self) -> Box<dyn traits::Iterator<'b, 'w> + 'b>
    where
        Self: 'w,
    {
        Box::new(Keys(self.keys().iter()))
    }
}

impl Sizer for Fields<'_> {
    fn size(&self) -> CelInt {
        CelInt::from(i64::try_from(self.own.len()).unwrap_or(i64::MAX))
    }
}

impl Zeroer for Fields<'_> {
    fn is_zero_value(&self) -> bool {
        self.own.is_empty()
    }
}

/// The metadata of an object, of which rules see the names only.
#[derive(Debug)]
struct Meta<'v> {
    fields: &'v Map<String, Value>,
}

impl<'v> Meta<'v> {
    fn find(&self, key: &dyn Val) -> Option<&'v str> {
        let key = key.downcast_ref::<CelString>()?.inner();
        let known = matches!(key, "name" | "generateName");
        known.then(|| self.fields.get(key)?.as_str()).flatten()
    }
}

impl Val for Meta<'_> {
    fn get_type(&self) -> &Type {
        &MAP_TYPE
    }

    fn cel_type() -> &'static Type {
        &MAP_TYPE
    }

    fn as_indexer<'b, 'w>(&'b self) -> Option<&'b (dyn Indexer + 'w)>
    where
        Self: 'w,
    {
        Some(self)
    }

    fn clone_as_boxed<'w>(&self) -> Box<dyn Val + 'w>
    where
        Self: 'w,
    {
        Box::new(Meta {
            fields: self.fields,
        })
    }
}

impl Indexer for Meta<'_> {
    fn get<'b, 'w>(&'b self, key: &dyn Val) -> Result<CowVal<'b, 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.find(key)
            .map(|text| CowVal::Owned(Box::new(CelString::from(text)) as Box<dyn Val + 'w>))
            .ok_or_else(|| ExecutionError::no_such_key(&key_text(key)))
    }

    fn steal<'w>(self: Box<Self>, key: &dyn Val) -> Result<Box<dyn Val + 'w>, ExecutionError>
    where
        Self: 'w,
    {
        self.find(key)
            .map(|text| Box::new(CelString::from(text)) as Box<dyn Val + 'w>)
            .ok_or_else(|| ExecutionError::no_such_key(&key_text(key)))
    }
}
