//! Rules at work on an object.

use cel::common::types::{CelBool, CelOptional, CelString};
use cel::parser::Expression;
use cel::{Context, ExecutionError, Value as CelValue};
use serde_json::{Value, json};

use super::super::node::Node;
use super::super::validate::{Old, cause, mapped_item};
use super::value::typed;
use super::{Rule, functions};
use crate::apiserver::Cause;

/// How long a message may be that an expression makes (`MaxEvaluatedMessageExpressionSizeBytes`).
const LONGEST_MESSAGE: usize = 5120;

/// Where in an object the rules are.
struct Place<'a> {
    path: String,
    /// A whole object, with its metadata.
    object: bool,
    /// What the value was, for `oldSelf`.
    old: Option<&'a Value>,
    /// What it was for ratcheting, and what the closest one around it was that could be told.
    same: Option<Old<'a>>,
    around: Option<(Old<'a>, &'a Value)>,
}

/// Runs the rules of a schema over a value; `ratchet` says what errors are left alone since nothing changed.
pub(in crate::apiserver::schema) fn evaluate<'a>(
    node: &'a Node,
    value: &'a Value,
    old: Option<&'a Value>,
    path: &str,
    object: bool,
    ratchet: bool,
    causes: &mut Vec<Cause>,
) {
    let place = Place {
        path: path.to_owned(),
        object,
        old,
        same: old.filter(|_| ratchet).map(|old| Old::root(node, old)),
        around: None,
    };
    walk(node, value, &place, causes);
}

fn walk<'a>(node: &'a Node, value: &'a Value, place: &Place<'a>, causes: &mut Vec<Cause>) {
    if value.is_null() {
        return;
    }
    if !node.rules.is_empty() {
        rules(node, value, place, causes);
    }
    // Whatever can't be told to be the same stands in what could be.
    let around = match place.same {
        Some(same) => Some((same, value)),
        None => place.around,
    };
    match value {
        Value::Object(fields) => {
            for (name, inner_value) in fields {
                let Some((inner, path)) = node.field_at(&place.path, name) else {
                    continue;
                };
                let inner_place = Place {
                    path,
                    object: inner.embedded,
                    old: place.old.and_then(|old| old.get(name)),
                    same: place.same.and_then(|same| same.field(name)),
                    around,
                };
                walk(inner, inner_value, &inner_place, causes);
            }
        }
        Value::Array(items) => {
            let Some(inner) = node.items.as_deref() else {
                return;
            };
            for (i, item) in items.iter().enumerate() {
                let old = place.old;
                let inner_place = Place {
                    path: format!("{}[{i}]", place.path),
                    object: inner.embedded,
                    old: old.and_then(|old| mapped_item(&node.list_type, old, item)),
                    same: place.same.and_then(|same| same.item(item)),
                    around,
                };
                walk(inner, item, &inner_place, causes);
            }
        }
        _ => {}
    }
}

fn rules<'a>(node: &'a Node, value: &'a Value, place: &Place<'a>, causes: &mut Vec<Cause>) {
    let unchanged = match (place.same, place.around) {
        (Some(same), _) => same.equals(value),
        (None, Some((around, new))) => around.equals(new),
        (None, None) => false,
    };
    let kind = match node.types.as_slice() {
        [one] => one.name(),
        _ => "",
    };
    let field = |below: &str| match (place.path.as_str(), below) {
        ("", "") => "<nil>".to_owned(),
        ("", below) => below.to_owned(),
        (path, "") => path.to_owned(),
        (path, below) if below.starts_with('[') => format!("{path}{below}"),
        (path, below) => format!("{path}.{below}"),
    };
    for rule in &node.rules {
        if rule.uses_old_self && place.old.is_none() && !rule.optional_old_self {
            continue;
        }
        let context = context(node, value, place, rule.optional_old_self);
        let held = match CelValue::resolve_val(&rule.expression, &context) {
            Ok(held) => held
                .downcast_ref::<CelBool>()
                .is_some_and(|held| *held.inner()),
            Err(error) => {
                let said = match explain(&error) {
                    (true, said) => format!(
                        "'{said}': call arguments did not match a supported operator, function or macro \
                         signature for rule: {}",
                        rule.shown
                    ),
                    (false, said) => format!("{said} evaluating rule: {}", rule.shown),
                };
                causes.push(cause(
                    "FieldValueInvalid",
                    field(""),
                    Some(&json!(kind)),
                    &said,
                ));
                continue;
            }
        };
        if held || (unchanged && !rule.uses_old_self) {
            continue;
        }
        let message = message(node, value, place, rule);
        let shown = Some(value).filter(|_| !matches!(kind, "object" | "array"));
        let field = field(&rule.field_path);
        causes.push(match rule.reason {
            "FieldValueForbidden" | "FieldValueRequired" => {
                cause(rule.reason, field, None, &message)
            }
            "FieldValueDuplicate" => cause(rule.reason, field, shown, ""),
            reason => cause(reason, field, shown, &message),
        });
    }
}

/// What a rule sees.
fn context<'a>(
    node: &'a Node,
    value: &'a Value,
    place: &Place<'a>,
    optional: bool,
) -> Context<'a, 'a> {
    let mut context = Context::with_env(functions::env());
    context.add_variable_as_val("self", typed(node, value, place.object));
    let old = place.old.map(|old| typed(node, old, place.object));
    if optional {
        let old = old.map_or_else(CelOptional::none, CelOptional::of);
        context.add_variable_as_val("oldSelf", Box::new(old));
    } else if let Some(old) = old {
        context.add_variable_as_val("oldSelf", old);
    }
    context
}

/// What is told of a rule that does not hold: what its expression makes of the object, where that is fit to
/// be told.
fn message(node: &Node, value: &Value, place: &Place<'_>, rule: &Rule) -> String {
    let made = |expression: &Expression| {
        let context = context(node, value, place, false);
        let made = CelValue::resolve_val(expression, &context).ok()?;
        let made = made.downcast_ref::<CelString>()?.inner().trim().to_owned();
        let fit = !made.is_empty() && made.len() <= LONGEST_MESSAGE && !made.contains('\n');
        fit.then_some(made)
    };
    let expression = rule.message_expression.as_ref();
    expression
        .and_then(made)
        .unwrap_or_else(|| rule.message.clone())
}

/// An error in the words of cel-go, and whether it is that there is no such function.
fn explain(error: &ExecutionError) -> (bool, String) {
    let said = match error {
        ExecutionError::NoSuchOverload(_) | ExecutionError::UnexpectedType { .. } => {
            return (true, "no such overload".to_owned());
        }
        ExecutionError::NoSuchKey(key) => format!("no such key: {key}"),
        ExecutionError::IndexOutOfBounds(CelValue::Int(index)) => {
            format!("index out of bounds: {index}")
        }
        ExecutionError::DivisionByZero(_) => "division by zero".to_owned(),
        ExecutionError::RemainderByZero(_) => "modulus by zero".to_owned(),
        ExecutionError::Overflow(..) => "integer overflow".to_owned(),
        ExecutionError::FunctionError { function, message } => match function.as_str() {
            "int" | "uint" | "double" | "bool" if message.contains("parse error") => {
                format!("type conversion error from 'string' to '{function}'")
            }
            _ => message.clone(),
        },
        other => other.to_string(),
    };
    (false, said)
}
