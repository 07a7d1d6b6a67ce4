//! Whether a rule makes sense for its schema, before it is ever run.
//!
//! Types are told as far as schema and signatures say; what can't be told passes. As it goes it turns
//! equality and addition of lists of type set or map into the functions that know what those mean.

use cel::common::ast::operators;
use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, LiteralValue, SelectExpr, SourceInfo,
};
use cel::parser::Expression;

use super::super::node::ListType;
use super::super::pattern::Pattern;
use super::functions::{EQUAL_MAPS, EQUAL_SETS, UNION};
use super::signatures;
use super::types::Ty;
use super::value::unescape;

/// What a check found.
#[derive(Debug)]
pub(super) struct Checked<'s> {
    pub(super) ty: Ty<'s>,
    /// In the form of CEL's issues, one after the other.
    pub(super) errors: Vec<String>,
    pub(super) uses_old_self: bool,
}

/// Checks an expression over `self` and `oldSelf` and rewrites it.
pub(super) fn check<'s>(
    expression: &mut Expression,
    info: &SourceInfo,
    own: &Ty<'s>,
    old: &Ty<'s>,
) -> Checked<'s> {
    let mut checker = Checker {
        scope: vec![
            ("self".to_owned(), own.clone()),
            ("oldSelf".to_owned(), old.clone()),
        ],
        info,
        errors: Vec::new(),
        uses_old_self: false,
    };
    let ty = checker.expression(expression);
    Checked {
        ty,
        errors: checker.errors,
        uses_old_self: checker.uses_old_self,
    }
}

struct Checker<'s, 'i> {
    scope: Vec<(String, Ty<'s>)>,
    info: &'i SourceInfo,
    errors: Vec<String>,
    uses_old_self: bool,
}

impl<'s> Checker<'s, '_> {
    fn expression(&mut self, expression: &mut Expression) -> Ty<'s> {
        let id = expression.id;
        match &mut expression.expr {
            Expr::Unspecified | Expr::Struct(_) => Ty::Dyn,
            Expr::Literal(literal) => match literal {
                LiteralValue::Boolean(_) => Ty::Bool,
                LiteralValue::Bytes(_) => Ty::Bytes,
                LiteralValue::Double(_) => Ty::Double,
                LiteralValue::Int(_) => Ty::Int,
                LiteralValue::Null => Ty::Null,
                LiteralValue::String(_) => Ty::String,
                LiteralValue::UInt(_) => Ty::Uint,
            },
            Expr::Ident(name) => {
                let name = name.clone();
                self.identifier(&name, id)
            }
            Expr::List(list) => {
                let mut item: Option<Ty<'s>> = None;
                for element in &mut list.elements {
                    let ty = self.expression(element);
                    item = Some(item.map_or(ty.clone(), |item| item.joined(ty)));
                }
                Ty::List(Box::new(item.unwrap_or(Ty::Dyn)), None)
            }
            Expr::Map(map) => {
                let (mut key, mut value): (Option<Ty<'s>>, Option<Ty<'s>>) = (None, None);
                for entry in &mut map.entries {
                    if let EntryExpr::MapEntry(entry) = &mut entry.expr {
                        let (k, v) = (
                            self.expression(&mut entry.key),
                            self.expression(&mut entry.value),
                        );
                        key = Some(key.map_or(k.clone(), |key| key.joined(k)));
                        value = Some(value.map_or(v.clone(), |value| value.joined(v)));
                    }
                }
                Ty::Map(
                    Box::new(key.unwrap_or(Ty::Dyn)),
                    Box::new(value.unwrap_or(Ty::Dyn)),
                )
            }
            Expr::Select(select) => self.select(select, id),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(call, id),
        }
    }

    fn identifier(&mut self, name: &str, id: u64) -> Ty<'s> {
        if let Some((_, ty)) = self.scope.iter().rev().find(|(known, _)| known == name) {
            if name == "oldSelf" {
                self.uses_old_self = true;
            }
            return ty.clone();
        }
        if matches!(
            name,
            "bool"
                | "bytes"
                | "double"
                | "int"
                | "list"
                | "map"
                | "null_type"
                | "string"
                | "type"
                | "uint"
        ) {
            return Ty::Type;
        }
        self.error(
            id,
            &format!("undeclared reference to '{name}' (in container '')"),
        );
        Ty::Dyn
    }

    fn select(&mut self, select: &mut SelectExpr, id: u64) -> Ty<'s> {
        let operand = self.expression(&mut select.operand);
        let field = self.field(&operand, &select.field, id);
        if select.test { Ty::Bool } else { field }
    }

    fn field(&mut self, operand: &Ty<'s>, field: &str, id: u64) -> Ty<'s> {
        let found = match operand {
            Ty::Dyn => Some(Ty::Dyn),
            Ty::Map(_, value) => Some((**value).clone()),
            Ty::Meta => matches!(field, "name" | "generateName").then_some(Ty::String),
            Ty::Object(_, true) if matches!(field, "apiVersion" | "kind") => Some(Ty::String),
            Ty::Object(_, true) if field == "metadata" => Some(Ty::Meta),
            Ty::Object(node, _) => node
                .properties
                .get(&unescape(field))
                .and_then(|inner| Ty::of(inner, inner.embedded)),
            Ty::Optional(inner) => {
                let inner = self.field(inner, field, id);
                return Ty::Optional(Box::new(inner));
            }
            other => {
                let said = format!("type '{}' does not support field selection", other.name());
                self.error(id, &said);
                return Ty::Dyn;
            }
        };
        found.unwrap_or_else(|| {
            self.error(id, &format!("undefined field '{field}'"));
            Ty::Dyn
        })
    }

    fn comprehension(&mut self, comprehension: &mut ComprehensionExpr) -> Ty<'s> {
        let range = self.expression(&mut comprehension.iter_range);
        let (first, second) = match range {
            Ty::List(item, _) => (*item.clone(), *item),
            Ty::Map(key, value) => (*key, *value),
            Ty::Dyn => (Ty::Dyn, Ty::Dyn),
            other => {
                let said = format!(
                    "expression of type '{}' cannot be range of a comprehension (must be list, map, or dynamic)",
                    other.name()
                );
                self.error(comprehension.iter_range.id, &said);
                (Ty::Dyn, Ty::Dyn)
            }
        };
        let start = self.expression(&mut comprehension.accu_init);
        let depth = self.scope.len();
        self.scope
            .push((comprehension.accu_var.clone(), start.clone()));
        self.scope.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.scope.push((name.clone(), second));
        }
        self.expression(&mut comprehension.loop_cond);
        let step = self.expression(&mut comprehension.loop_step);
        self.scope.truncate(depth);
        self.scope
            .push((comprehension.accu_var.clone(), start.joined(step)));
        let result = self.expression(&mut comprehension.result);
        self.scope.truncate(depth);
        result
    }

    fn call(&mut self, call: &mut CallExpr, id: u64) -> Ty<'s> {
        if call.func_name == operators::OPT_SELECT {
            return self.optional_select(call, id);
        }
        let mut name = call.func_name.clone();
        let mut target = None;
        if let Some(operand) = &mut call.target {
            match namespaced(operand, &self.scope) {
                Some(space) => name = format!("{space}.{name}"),
                None => target = Some(self.expression(operand)),
            }
        }
        let args: Vec<Ty<'s>> = call
            .args
            .iter_mut()
            .map(|arg| self.expression(arg))
            .collect();
        let Some(signatures) = signatures::of(&name) else {
            self.error(
                id,
                &format!("undeclared reference to '{name}' (in container '')"),
            );
            return Ty::Dyn;
        };
        self.literal_pattern(&name, call);
        for signature in &signatures {
            let mut bound = Vec::new();
            let target_fits = match (&target, &signature.target) {
                (None, None) => true,
                (Some(own), Some(wanted)) => own.fits(wanted, &mut bound),
                _ => false,
            };
            let fits = target_fits
                && args.len() == signature.args.len()
                && args
                    .iter()
                    .zip(&signature.args)
                    .all(|(own, wanted)| own.fits(wanted, &mut bound));
            if fits {
                let undecided = target.iter().chain(&args).any(Ty::is_dyn);
                Self::rewrite(call, args.first());
                if call.func_name == UNION {
                    return args.into_iter().next().unwrap_or(Ty::Dyn);
                }
                // With a value of any type, another overload may be the one that is called.
                if undecided && signatures.len() > 1 && !returns_one(&signatures) {
                    return Ty::Dyn;
                }
                return signature.result.substituted(&bound);
            }
        }
        let names: Vec<String> = args.iter().map(Ty::name).collect();
        let applied = match &target {
            Some(target) => format!("{}.({})", target.name(), names.join(", ")),
            None => format!("({})", names.join(", ")),
        };
        self.error(
            id,
            &format!("found no matching overload for '{name}' applied to '{applied}'"),
        );
        Ty::Dyn
    }

    /// `a.?b`: the field, perhaps.
    fn optional_select(&mut self, call: &mut CallExpr, id: u64) -> Ty<'s> {
        let [operand, field] = call.args.as_mut_slice() else {
            return Ty::Dyn;
        };
        let operand = match self.expression(operand) {
            Ty::Optional(inner) => *inner,
            other => other,
        };
        let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
            return Ty::Dyn;
        };
        let field = field.inner().to_owned();
        Ty::Optional(Box::new(self.field(&operand, &field, id)))
    }

    /// A pattern that is given in the rule is compiled now.
    fn literal_pattern(&mut self, name: &str, call: &CallExpr) {
        if name != "matches" {
            return;
        }
        if let Some(last) = call.args.last()
            && let Expr::Literal(LiteralValue::String(pattern)) = &last.expr
            && Pattern::compile(pattern.inner()).is_err()
        {
            self.error(last.id, "invalid matches argument");
        }
    }

    /// Lists of type set are equal in any order, those of type map by their keys.
    fn rewrite(call: &mut CallExpr, left: Option<&Ty<'s>>) {
        let not = call.func_name == operators::NOT_EQUALS;
        if call.args.len() != 2 {
            return;
        }
        let name = match (call.func_name.as_str(), left) {
            (operators::EQUALS | operators::NOT_EQUALS, Some(Ty::List(_, Some(ListType::Set)))) => {
                EQUAL_SETS
            }
            (
                operators::EQUALS | operators::NOT_EQUALS,
                Some(Ty::List(_, Some(ListType::Map(keys)))),
            ) => {
                call.args.push(Expression {
                    id: 0,
                    expr: Expr::Literal(LiteralValue::String(keys.join(",").into())),
                });
                EQUAL_MAPS
            }
            (operators::ADD, Some(Ty::List(_, Some(ListType::Set)))) => UNION,
            (operators::EQUALS | operators::NOT_EQUALS, Some(Ty::Map(..))) => {
                // What a rule writes is compared with what an object holds, not the other way round.
                if matches!(call.args[0].expr, Expr::Map(_)) {
                    call.args.swap(0, 1);
                }
                return;
            }
            _ => return,
        };
        name.clone_into(&mut call.func_name);
        if not {
            let equal = std::mem::take(call);
            *call = CallExpr {
                func_name: operators::LOGICAL_NOT.to_owned(),
                target: None,
                args: vec![Expression {
                    id: 0,
                    expr: Expr::Call(equal),
                }],
            };
        }
    }

    fn error(&mut self, id: u64, said: &str) {
        let offset = self
            .info
            .offset_for(id)
            .map_or(0, |(start, _)| start as usize);
        self.errors.push(issue(&self.info.source, offset, said));
    }
}

/// An issue as CEL prints it, with the line that it is in.
pub(super) fn issue(source: &str, offset: usize, said: &str) -> String {
    let mut at = offset;
    let mut number = 1;
    let mut text = "";
    for line in source.split('\n') {
        text = line;
        let length = line.chars().count();
        if at <= length {
            break;
        }
        at -= length + 1;
        number += 1;
    }
    format!(
        "ERROR: <input>:{number}:{}: {said}\n | {text}\n | {}^",
        at + 1,
        ".".repeat(at)
    )
}

/// Whether all overloads come to the same type.
fn returns_one(signatures: &[signatures::Signature]) -> bool {
    let first = signatures.first().map(|one| one.result.name());
    let first = first.unwrap_or_default();
    first != "A" && signatures.iter().all(|one| one.result.name() == first)
}

/// The namespace that the target of a call is, where it is no value.
fn namespaced(target: &Expression, scope: &[(String, Ty<'_>)]) -> Option<String> {
    match &target.expr {
        Expr::Ident(name)
            if signatures::is_namespace(name) && scope.iter().all(|(known, _)| known != name) =>
        {
            Some(name.clone())
        }
        _ => None,
    }
}
