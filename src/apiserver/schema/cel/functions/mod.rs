//! The functions that Kubernetes adds to CEL.
//!
//! From the crate: the standard library, strings, lists. Here: `matches` with Go's patterns, lists as
//! Kubernetes knows them, sets, quantities, regular expressions, URLs, IP addresses and CIDRs. Not there:
//! `format`, `semver`, comprehensions with two variables, authorizers; a rule with any of them is refused
//! when it is compiled.

mod lists;
mod net;
mod quantity;
mod regex;
mod sets;
mod url;

use std::sync::{Arc, LazyLock};

use cel::common::traits::Iterable;
use cel::common::types::{CelDuration, CelInt};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_overload, extensions};

pub(super) use sets::{EQUAL_MAPS, EQUAL_SETS, UNION};

static ENV: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(build().expect("no two functions share a signature")));

/// The environment that every rule is compiled in and run in.
pub(super) fn env() -> Arc<Env> {
    Arc::clone(&ENV)
}

fn build() -> Result<Env, DeclarationError> {
    let mut env = Env::stdlib();
    // The one conversion of the standard library that the crate leaves out.
    add_overload!(env, fn nanoseconds: (CelDuration) -> Result<CelInt>, name = "int",
        id = "duration_to_int64")?;
    extensions::strings(&mut env)?;
    extensions::lists(&mut env)?;
    lists::add(&mut env)?;
    net::add(&mut env)?;
    quantity::add(&mut env)?;
    regex::add(&mut env)?;
    sets::add(&mut env)?;
    url::add(&mut env)?;
    Ok(env)
}

fn nanoseconds(span: &CelDuration) -> Result<CelInt, ExecutionError> {
    let nanos = span.inner().num_nanoseconds();
    let nanos = nanos.ok_or_else(|| error("int", "integer overflow"))?;
    Ok(CelInt::from(nanos))
}

fn error(function: &str, said: impl ToString) -> ExecutionError {
    ExecutionError::function_error(function, said)
}

fn iterable<'b, 'v>(list: &'b (dyn Val + 'v)) -> Result<&'b (dyn Iterable + 'v), ExecutionError> {
    list.as_iterable()
        .ok_or_else(|| ExecutionError::UnexpectedType {
            got: list.get_type().name().to_owned(),
            want: "list".to_owned(),
        })
}

/// The arguments of an overload that was declared with so many.
fn take<'b, 'v, const N: usize>(
    args: Vec<CowVal<'b, 'v>>,
) -> Result<[CowVal<'b, 'v>; N], ExecutionError> {
    args.try_into()
        .map_err(|args: Vec<_>| ExecutionError::invalid_argument_count(N, args.len()))
}
