//! Whether an object keeps to its schema, in the words of kube-openapi's validator.

mod bounds;
mod embedded;
mod format;
mod lists;
mod outcome;

use serde_json::Value;

use super::gotext;
use super::node::{Additional, ListType, Node, Type};
use outcome::{Failure, Outcome};

pub(super) use embedded::check as embedded;
pub(super) use lists::check as lists;
pub(super) use outcome::cause;

/// The value as it was before a write, where one can be told to be the same.
///
/// What a write did not touch is not held against it: as a real server does, errors in a part that equals
/// its old value are dropped (`CRDValidationRatcheting`).
#[derive(Clone, Copy)]
pub(super) struct Old<'a> {
    /// The schema that says how values correspond.
    node: &'a Node,
    value: &'a Value,
    root: bool,
}

impl<'a> Old<'a> {
    pub(super) fn root(node: &'a Node, value: &'a Value) -> Self {
        Self {
            node,
            value,
            root: true,
        }
    }

    pub(super) fn equals(&self, new: &Value) -> bool {
        self.value == new
    }

    /// What a field was; type and version are never told apart, since both are shown converted.
    pub(super) fn field(&self, name: &str) -> Option<Self> {
        if self.root && matches!(name, "kind" | "apiVersion") {
            return None;
        }
        Some(Self {
            node: self.node.field(name)?,
            value: self.value.get(name)?,
            root: false,
        })
    }

    /// What an item was, in lists that are maps.
    pub(super) fn item(&self, new: &Value) -> Option<Self> {
        let node = self.node.items.as_deref()?;
        let value = mapped_item(&self.node.list_type, self.value, new)?;
        Some(Self {
            node,
            value,
            root: false,
        })
    }
}

/// The item of an old list that has the keys of a new item, in lists that are maps.
pub(super) fn mapped_item<'a>(
    list_type: &ListType,
    old: &'a Value,
    new: &Value,
) -> Option<&'a Value> {
    let ListType::Map(keys) = list_type else {
        return None;
    };
    new.as_object()?;
    let same =
        |item: &&Value| item.is_object() && keys.iter().all(|key| item.get(key) == new.get(key));
    old.as_array()?.iter().find(same)
}

/// Checks a value. `path` is its name in messages, empty at the root.
pub(super) fn check(node: &Node, value: &Value, path: &str, old: Option<Old<'_>>) -> Outcome {
    let outcome = check_node(node, value, path, old);
    if !outcome.is_valid() && old.is_some_and(|old| old.equals(value)) {
        return Outcome::matched(outcome.matches());
    }
    outcome
}

/// One after the other the checks that concern the value, each of which counts: alternatives are told
/// apart by how many checks they got through.
fn check_node(node: &Node, value: &Value, path: &str, old: Option<Old<'_>>) -> Outcome {
    let mut all = Outcome::default();
    if value.is_null() {
        all.merge(check_type(node, value, path));
        all.merge(bounds::allowed(node, value, path));
        return all;
    }
    let mut step = |outcome: Outcome| {
        all.merge(outcome);
        all.count();
    };
    if !node.types.is_empty() || node.format.is_some() {
        step(check_type(node, value, path));
    }
    step(alternatives(node, value, path));
    match value {
        Value::String(text) => {
            step(bounds::string(&node.bounds, text, path));
            if let Some(format) = node.format.as_deref().filter(|name| format::is_text(name)) {
                step(format::check(format, text, path));
            }
        }
        Value::Number(number) => step(bounds::number(node, number, path)),
        Value::Array(items) => step(check_items(node, value, items, path, old)),
        _ => {}
    }
    step(bounds::allowed(node, value, path));
    if let Value::Object(_) = value {
        step(check_object(node, value, path, old));
    }
    all.count();
    all
}

fn check_type(node: &Node, value: &Value, path: &str) -> Outcome {
    let wanted = || {
        let names: Vec<&str> = node.types.iter().map(|t| t.name()).collect();
        names.join(",")
    };
    if value.is_null() {
        if !node.types.is_empty() && !node.nullable {
            return Failure::wrong_type(path, &wanted(), "null").into();
        }
        return Outcome::matched(1);
    }
    let (is, format) = type_of(value);
    let has = |wanted: Type| node.types.contains(&wanted);
    let whole =
        is == Type::Number && has(Type::Integer) && value.as_f64().is_some_and(bounds::is_whole);
    let fits = has(is) || whole || (is == Type::Integer && has(Type::Number));
    let text = matches!(is, Type::String | Type::Array);
    match node.format.as_deref() {
        Some(wanted) if !text && !fits && wanted != format => {
            return Failure::wrong_type(path, wanted, format).into();
        }
        // Text with a format is left to the check of that format.
        Some(_) if text && !has(Type::Number) && !has(Type::Integer) => {
            return Outcome::matched(1);
        }
        _ => {}
    }
    if !fits {
        return Failure::wrong_type(path, &wanted(), is.name()).into();
    }
    Outcome::matched(1)
}

fn type_of(value: &Value) -> (Type, &'static str) {
    match value {
        Value::Number(number) if number.is_i64() => (Type::Integer, "int64"),
        Value::Number(_) => (Type::Number, "float64"),
        Value::Array(_) => (Type::Array, ""),
        Value::Bool(_) => (Type::Boolean, ""),
        Value::String(_) | Value::Null => (Type::String, ""),
        Value::Object(_) => (Type::Object, ""),
    }
}

/// `anyOf`, `oneOf`, `allOf` and `not`. Of alternatives that all fail, the one that got furthest is told.
/// What they say is held against all of the value, changed or not.
fn alternatives(node: &Node, value: &Value, path: &str) -> Outcome {
    let mut all = Outcome::default();
    let quoted = || gotext::quote(path);
    let judge = |inner: &Node| check_node(inner, value, path, None);
    if !node.any_of.is_empty() {
        let outcomes = node.any_of.iter().map(judge);
        let (best, valid) = best(outcomes, 1);
        if valid == 0 {
            all.fail(Failure::plain(format!(
                "{} must validate at least one schema (anyOf)",
                quoted()
            )));
        }
        all.merge(best);
    }
    if !node.one_of.is_empty() {
        let (best, valid) = best(node.one_of.iter().map(judge), usize::MAX);
        let found = match valid {
            0 => "Found none valid".to_owned(),
            many => format!("Found {many} valid alternatives"),
        };
        if valid != 1 {
            all.fail(Failure::plain(format!(
                "{} must validate one and only one schema (oneOf). {found}",
                quoted()
            )));
        }
        if valid <= 1 {
            all.merge(best);
        }
    }
    if !node.all_of.is_empty() {
        let mut valid = 0;
        for outcome in node.all_of.iter().map(judge) {
            valid += usize::from(outcome.is_valid());
            all.merge(outcome);
        }
        if valid != node.all_of.len() {
            let also = if valid == 0 { ". None validated" } else { "" };
            all.fail(Failure::plain(format!(
                "{} must validate all the schemas (allOf){also}",
                quoted()
            )));
        }
    }
    if let Some(not) = &node.not
        && judge(not).is_valid()
    {
        all.fail(Failure::plain(format!(
            "{} must not validate the schema (not)",
            quoted()
        )));
    }
    all.count();
    all
}

/// The first valid outcome, else the one with the most checks passed, and how many were valid. Stops
/// after `enough` valid ones.
fn best(outcomes: impl Iterator<Item = Outcome>, enough: usize) -> (Outcome, usize) {
    let mut best: Option<Outcome> = None;
    let mut valid = 0;
    for outcome in outcomes {
        if outcome.is_valid() {
            valid += 1;
            if valid == 1 {
                best = Some(outcome);
            }
            if valid == enough {
                break;
            }
        } else if valid == 0
            && best
                .as_ref()
                .is_none_or(|best| outcome.matches() > best.matches())
        {
            best = Some(outcome);
        }
    }
    (best.unwrap_or_default(), valid)
}

fn check_items(
    node: &Node,
    list: &Value,
    items: &[Value],
    path: &str,
    old: Option<Old<'_>>,
) -> Outcome {
    let mut all = Outcome::default();
    if let Some(inner) = node.items.as_deref() {
        for (i, item) in items.iter().enumerate() {
            let old = old.and_then(|old| old.item(item));
            all.merge(check(inner, item, &format!("{path}[{i}]"), old));
        }
    }
    all.merge(bounds::items(&node.bounds, list, items, path));
    all.count();
    all
}

fn check_object(node: &Node, value: &Value, path: &str, old: Option<Old<'_>>) -> Outcome {
    let mut all = Outcome::default();
    let Some(fields) = value.as_object() else {
        return all;
    };
    all.merge(bounds::properties(&node.bounds, fields.len(), path));
    for (name, value) in fields {
        if node.properties.contains_key(name) {
            continue;
        }
        match &node.additional {
            Some(Additional::Schema(inner)) => {
                let old = old.and_then(|old| old.field(name));
                all.merge(check(inner, value, &format!("{path}.{name}"), old));
            }
            Some(Additional::Nothing) => all.fail(Failure::forbidden(path, name)),
            Some(Additional::Any) | None => {}
        }
    }
    for (name, inner) in &node.properties {
        if let Some(value) = fields.get(name) {
            let path = if path.is_empty() {
                name.clone()
            } else {
                format!("{path}.{name}")
            };
            let old = old.and_then(|old| old.field(name));
            all.merge(check(inner, value, &path, old));
        }
    }
    for name in &node.bounds.required {
        if !fields.contains_key(name) {
            all.fail(Failure::required(&format!("{path}.{name}")));
        }
    }
    all
}
