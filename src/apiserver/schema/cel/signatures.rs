//! The functions that rules can call, by their types.

use super::types::Ty;

/// Names, each with its overloads.
fn functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    include_str!("signatures.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once("  "))
}

/// What is called, on what, with what, and what comes of it.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) target: Option<Ty<'static>>,
    pub(super) args: Vec<Ty<'static>>,
    pub(super) result: Ty<'static>,
}

/// The signatures of a function; `None` where there is no such function.
pub(super) fn of(name: &str) -> Option<Vec<Signature>> {
    let (_, overloads) = functions().find(|(known, _)| *known == name)?;
    Some(overloads.split(" | ").map(read).collect())
}

/// Whether a name is the start of functions' names, as `sets` is.
pub(super) fn is_namespace(name: &str) -> bool {
    functions().any(|(known, _)| {
        known
            .split_once('.')
            .is_some_and(|(space, _)| space == name)
    })
}

/// Reads `string.(string, int) -> bool` or `(A) -> A`.
fn read(overload: &str) -> Signature {
    let (call, result) = overload.split_once(" -> ").unwrap_or((overload, "dyn"));
    let (target, args) = match call.split_once(".(") {
        Some((target, args)) => (Some(ty(target)), args),
        None => (None, call.trim_start_matches('(')),
    };
    let args = args.strip_suffix(')').unwrap_or(args);
    Signature {
        target,
        args: split(args).into_iter().map(ty).collect(),
        result: ty(result),
    }
}

/// The types between the commas that are in no brackets.
fn split(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (i, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(list[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    if !list[start..].trim().is_empty() {
        parts.push(list[start..].trim());
    }
    parts
}

fn ty(text: &str) -> Ty<'static> {
    if let Some((outer, inner)) = text.split_once('(') {
        let inner = split(inner.strip_suffix(')').unwrap_or(inner));
        let part = |i: usize| Box::new(inner.get(i).map_or(Ty::Dyn, |text| ty(text)));
        return match outer {
            "list" => Ty::List(part(0), None),
            "map" => Ty::Map(part(0), part(1)),
            _ => Ty::Optional(part(0)),
        };
    }
    match text {
        "A" => Ty::Param('A'),
        "B" => Ty::Param('B'),
        "bool" => Ty::Bool,
        "bytes" => Ty::Bytes,
        "cidr" => Ty::Opaque("net.CIDR"),
        "double" => Ty::Double,
        "duration" => Ty::Duration,
        "int" => Ty::Int,
        "ip" => Ty::Opaque("net.IP"),
        "quantity" => Ty::Opaque("kubernetes.Quantity"),
        "string" => Ty::String,
        "timestamp" => Ty::Timestamp,
        "type" => Ty::Type,
        "uint" => Ty::Uint,
        "url" => Ty::Opaque("kubernetes.URL"),
        _ => Ty::Dyn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_read() {
        let read = read("map(A, list(B)).(string, int) -> optional(A)");
        assert_eq!(read.target.expect("a target").name(), "map(A, list(B))");
        assert_eq!(read.args.len(), 2);
        assert_eq!(read.result.name(), "optional_type(A)");
        assert_eq!(of("optional.none").expect("known")[0].args.len(), 0);
        assert!(of("nope").is_none());
        assert!(is_namespace("sets"));
    }

    /// A value of a type, as a rule writes it.
    fn sample(ty: &Ty<'_>) -> String {
        match ty {
            Ty::Bool => "true".to_owned(),
            Ty::Uint => "1u".to_owned(),
            Ty::Double => "1.0".to_owned(),
            Ty::String => "'1'".to_owned(),
            Ty::Bytes => "b'1'".to_owned(),
            Ty::Timestamp => "timestamp('2026-01-01T00:00:00Z')".to_owned(),
            Ty::Duration => "duration('1s')".to_owned(),
            Ty::Type => "int".to_owned(),
            Ty::Opaque("kubernetes.Quantity") => "quantity('1')".to_owned(),
            Ty::Opaque("kubernetes.URL") => "url('/x')".to_owned(),
            Ty::Opaque("net.IP") => "ip('::1')".to_owned(),
            Ty::Opaque(_) => "cidr('::/8')".to_owned(),
            Ty::List(item, _) => format!("[{}]", sample(item)),
            Ty::Map(key, value) => format!("{{{}: {}}}", sample(key), sample(value)),
            Ty::Optional(inner) => format!("optional.of({})", sample(inner)),
            _ => "1".to_owned(),
        }
    }

    #[test]
    fn every_signature_is_that_of_a_function() {
        let named = |(name, _): &(&str, &str)| name.starts_with(char::is_alphabetic);
        let env = super::super::functions::env();
        let (mut called, mut missing) = (0, Vec::new());
        for (name, overloads) in functions().filter(named) {
            for overload in overloads.split(" | ") {
                let signature = read(overload);
                let args: Vec<String> = signature.args.iter().map(sample).collect();
                let target = signature
                    .target
                    .as_ref()
                    .map(|ty| format!("{}.", sample(ty)));
                let call = format!("{}{name}({})", target.unwrap_or_default(), args.join(", "));
                let program = env.compile(&call).expect(&call);
                let context = cel::Context::with_env(super::super::functions::env());
                let made = cel::Value::resolve_val(program.expression(), &context);
                let made = made.map(|_| ());
                let there = !matches!(
                    made,
                    Err(cel::ExecutionError::UndeclaredReference(_)
                        | cel::ExecutionError::NoSuchOverload(_))
                );
                if !there {
                    missing.push(call);
                }
                called += 1;
            }
        }
        assert!(missing.is_empty(), "{missing:?}");
        assert!(called > 140, "{called}");
    }
}
