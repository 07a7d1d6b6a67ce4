//! `matches`, `find` and `findAll`, with patterns in Go's syntax.

use cel::common::types::{CelBool, CelInt, CelList, CelString};
use cel::common::value::Val;
use cel::{DeclarationError, Env, ExecutionError, add_member_overload, add_overload};

use super::super::super::pattern::Pattern;
use super::error;

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn matches: (CelString, CelString) -> Result<CelBool>, id = "matches")?;
    add_member_overload!(env, fn matches: (CelString, CelString) -> Result<CelBool>)?;
    add_member_overload!(env, fn find: (CelString, CelString) -> Result<CelString>)?;
    add_member_overload!(env, fn find_all: (CelString, CelString) -> Result<CelList>)?;
    add_member_overload!(env, fn find_all_n: (CelString, CelString, CelInt) -> Result<CelList>,
        name = "findAll")
}

fn pattern(function: &str, pattern: &CelString<'_>) -> Result<Pattern, ExecutionError> {
    Pattern::compile(pattern.inner()).map_err(|said| error(function, said))
}

fn matches(text: &CelString<'_>, regex: &CelString<'_>) -> Result<CelBool, ExecutionError> {
    let found = pattern("matches", regex)?.matches(text.inner());
    Ok(CelBool::from(found))
}

/// The first match, or nothing.
fn find<'v>(text: &CelString<'v>, regex: &CelString<'_>) -> Result<CelString<'v>, ExecutionError> {
    let pattern = pattern("find", regex)?;
    let found = pattern.regex().find(text.inner());
    Ok(CelString::from(
        found.map_or(String::new(), |found| found.as_str().to_owned()),
    ))
}

fn find_all<'v>(
    text: &CelString<'v>,
    regex: &CelString<'_>,
) -> Result<CelList<'v>, ExecutionError> {
    all(text, regex, usize::MAX)
}

/// At most so many; all with a negative number.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "overloads take references"
)]
fn find_all_n<'v>(
    text: &CelString<'v>,
    regex: &CelString<'_>,
    most: &CelInt,
) -> Result<CelList<'v>, ExecutionError> {
    all(
        text,
        regex,
        usize::try_from(*most.inner()).unwrap_or(usize::MAX),
    )
}

fn all<'v>(
    text: &CelString<'_>,
    regex: &CelString<'_>,
    most: usize,
) -> Result<CelList<'v>, ExecutionError> {
    let pattern = pattern("findAll", regex)?;
    let found = pattern.regex().find_iter(text.inner()).take(most);
    let all: Vec<Box<dyn Val + 'v>> = found
        .map(|found| Box::new(CelString::from(found.as_str().to_owned())) as Box<dyn Val + 'v>)
        .collect();
    Ok(CelList::from(all))
}
