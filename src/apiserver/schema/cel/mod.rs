//! `x-kubernetes-validations`: rules in CEL.
//!
//! A rule is parsed by the `cel` crate and checked against its schema before it is taken: fields that the
//! schema does not have, functions that are not there and types that do not go together refuse the
//! definition, in the words of a real server where the two agree on what is wrong. Costs are not estimated
//! and not limited.

mod check;
mod functions;
mod quantity;
mod run;
mod signatures;
mod time;
mod types;
mod value;

use cel::parser::Expression;
use serde_json::Value;

use super::node::{Additional, Node};
use check::check;
use types::Ty;

pub(super) use run::evaluate;

/// One rule, compiled.
#[derive(Debug)]
pub(super) struct Rule {
    expression: Expression,
    message_expression: Option<Expression>,
    /// What is told when it does not hold: the message, else the rule itself.
    message: String,
    /// How the rule is named in errors.
    shown: String,
    reason: &'static str,
    /// The field that is blamed, below the one that the rule stands at.
    field_path: String,
    uses_old_self: bool,
    optional_old_self: bool,
}

/// What came of compiling a rule.
#[derive(Debug, Default)]
pub(super) struct Compiled {
    pub(super) rule: Option<Rule>,
    pub(super) rule_error: Option<String>,
    pub(super) message_error: Option<String>,
    pub(super) uses_old_self: bool,
}

/// Compiles the rule of a schema; `object` where the schema is a whole object's.
pub(super) fn compile(schema: &Value, rule: &Value, object: bool) -> Compiled {
    let node = Node::parse(schema);
    compile_at(&node, rule, object)
}

fn compile_at(node: &Node, rule: &Value, object: bool) -> Compiled {
    let text = |name: &str| rule[name].as_str().unwrap_or_default();
    let mut compiled = Compiled::default();
    let own = Ty::of(node, object).unwrap_or(Ty::Dyn);
    let optional = rule["optionalOldSelf"] == true;
    let old = if optional {
        Ty::Optional(Box::new(own.clone()))
    } else {
        own.clone()
    };
    let source = text("rule");
    let expression = match parse(source, &own, &old) {
        Ok(parsed) if matches!(parsed.ty, Ty::Bool | Ty::Dyn) => {
            compiled.uses_old_self = parsed.uses_old_self;
            Some(parsed.expression)
        }
        Ok(_) => {
            compiled.rule_error = Some("cel expression must evaluate to a bool".to_owned());
            None
        }
        Err(error) => {
            compiled.rule_error = Some(format!("compilation failed: {error}"));
            None
        }
    };
    let mut message_expression = None;
    if !text("messageExpression").trim().is_empty() && expression.is_some() {
        match parse(text("messageExpression"), &own, &own) {
            Ok(parsed) if matches!(parsed.ty, Ty::String | Ty::Dyn) => {
                message_expression = Some(parsed.expression);
            }
            Ok(_) => {
                let said = "messageExpression must evaluate to a string";
                compiled.message_error = Some(said.to_owned());
            }
            Err(error) => {
                let said = format!("messageExpression compilation failed: {error}");
                compiled.message_error = Some(said);
            }
        }
    }
    let message = text("message").trim();
    let shown = if message.is_empty() {
        source.trim()
    } else {
        message
    };
    compiled.rule = expression.map(|expression| Rule {
        expression,
        message_expression,
        message: if message.is_empty() {
            format!("failed rule: {shown}")
        } else {
            message.to_owned()
        },
        shown: shown.to_owned(),
        reason: match text("reason") {
            "FieldValueForbidden" => "FieldValueForbidden",
            "FieldValueRequired" => "FieldValueRequired",
            "FieldValueDuplicate" => "FieldValueDuplicate",
            _ => "FieldValueInvalid",
        },
        field_path: normalized(text("fieldPath"), node),
        uses_old_self: compiled.uses_old_self,
        optional_old_self: optional,
    });
    compiled
}

/// A path such as `.a['b-c']` as fields are named, with the keys of maps in brackets.
fn normalized(path: &str, node: &Node) -> String {
    let mut out = String::new();
    let mut at = Some(node);
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix("['") {
            let end = quoted.find("']").unwrap_or(quoted.len());
            name = quoted[..end].replace("\\'", "'").replace("\\\\", "\\");
            rest = quoted.get(end + 2..).unwrap_or_default();
        } else {
            let plain = rest.strip_prefix('.').unwrap_or(rest);
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            name = plain[..end].to_owned();
            rest = &plain[end..];
        }
        let map = at.is_some_and(|node| matches!(node.additional, Some(Additional::Schema(_))));
        if map {
            out.extend(["[", &name, "]"]);
        } else {
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        }
        at = at.and_then(|node| node.field(&name));
    }
    out
}

struct Parsed<'s> {
    expression: Expression,
    ty: Ty<'s>,
    uses_old_self: bool,
}

/// Parses and checks an expression; what is wrong comes as CEL's issues.
fn parse<'s>(source: &str, own: &Ty<'s>, old: &Ty<'s>) -> Result<Parsed<'s>, String> {
    let program = functions::env().compile(source).map_err(|errors| {
        let all: Vec<String> = errors
            .errors
            .iter()
            .map(|error| {
                let (line, column) = error.pos;
                let before: usize = source
                    .split('\n')
                    .take(usize::try_from(line).unwrap_or(1).saturating_sub(1))
                    .map(|line| line.chars().count() + 1)
                    .sum();
                let column = usize::try_from(column).unwrap_or(1).saturating_sub(1);
                check::issue(source, before + column, &error.msg)
            })
            .collect();
        all.join("\n")
    })?;
    let mut expression = program.expression().clone();
    let checked = check(&mut expression, program.source_info(), own, old);
    if checked.errors.is_empty() {
        Ok(Parsed {
            expression,
            ty: checked.ty,
            uses_old_self: checked.uses_old_self,
        })
    } else {
        Err(checked.errors.join("\n"))
    }
}

/// Compiles the rules of a schema, at every level, into its nodes. Those that do not compile were refused
/// when the definition was checked.
pub(super) fn attach(node: &mut Node, schema: &Value, object: bool) {
    let rules = schema["x-kubernetes-validations"].as_array();
    let object = object || node.embedded;
    node.rules = rules
        .into_iter()
        .flatten()
        .filter_map(|rule| compile_at(node, rule, object).rule)
        .collect();
    for (name, inner) in &mut node.properties {
        attach(inner, &schema["properties"][name], false);
    }
    if let Some(Additional::Schema(inner)) = &mut node.additional {
        attach(inner, &schema["additionalProperties"], false);
    }
    if let Some(inner) = &mut node.items {
        attach(inner, &schema["items"], false);
    }
}
