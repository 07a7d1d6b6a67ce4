//! Lists: `isSorted`, `sum`, `min`, `max`, `indexOf`, `lastIndexOf`.

use std::cmp::Ordering;

use cel::common::types::{CelBool, CelInt, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::{error, iterable, take};

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_member_overload("isSorted", "list_is_sorted", LIST_TYPE, vec![], is_sorted)?;
    env.add_member_overload("sum", "list_sum", LIST_TYPE, vec![], sum)?;
    env.add_member_overload("min", "list_min", LIST_TYPE, vec![], min)?;
    env.add_member_overload("max", "list_max", LIST_TYPE, vec![], max)?;
    let item = || vec![DYN_TYPE];
    env.add_member_overload("indexOf", "list_a_index_of", LIST_TYPE, item(), index_of)?;
    env.add_member_overload(
        "lastIndexOf",
        "list_a_last_index_of",
        LIST_TYPE,
        item(),
        last_index_of,
    )
}

fn compare(a: &dyn Val, b: &dyn Val) -> Result<Ordering, ExecutionError> {
    let comparer = a.as_comparer().ok_or_else(|| {
        let types = [a, b].map(|val| val.get_type().name().to_owned());
        ExecutionError::no_such_overload("_<_", types.to_vec())
    })?;
    comparer.compare(b)
}

fn is_sorted<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [list] = take(args)?;
    let mut items = iterable(list.as_ref())?.iter();
    let mut before = items.next();
    while let (Some(a), Some(b)) = (before, items.next()) {
        if compare(a, b)? == Ordering::Greater {
            return Ok(CowVal::owned(CelBool::from(false)));
        }
        before = Some(b);
    }
    Ok(CowVal::owned(CelBool::from(true)))
}

fn sum<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [list] = take(args)?;
    let mut items = iterable(list.as_ref())?.iter();
    let Some(first) = items.next() else {
        return Ok(CowVal::owned(CelInt::from(0)));
    };
    let mut total = first.clone_as_boxed();
    while let Some(item) = items.next() {
        let adder = total
            .as_adder()
            .ok_or_else(|| error("sum", "not a number"))?;
        total = adder.add(item)?.into_owned();
    }
    Ok(CowVal::Owned(total))
}

fn min<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    extreme(args, "min", Ordering::Less)
}

fn max<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    extreme(args, "max", Ordering::Greater)
}

fn extreme<'b, 'v>(args: Vec<CowVal<'b, 'v>>, name: &str, wanted: Ordering) -> Answer<'b, 'v> {
    let [list] = take(args)?;
    let mut items = iterable(list.as_ref())?.iter();
    let mut best = items
        .next()
        .ok_or_else(|| error(name, format!("{name} called on empty list")))?;
    while let Some(item) = items.next() {
        if compare(item, best)? == wanted {
            best = item;
        }
    }
    Ok(CowVal::Owned(best.clone_as_boxed()))
}

fn positions(list: &dyn Val, item: &dyn Val) -> Result<Vec<i64>, ExecutionError> {
    let mut items = iterable(list)?.iter();
    let mut found = Vec::new();
    let mut i = 0;
    while let Some(own) = items.next() {
        if own.equals(item) {
            found.push(i);
        }
        i += 1;
    }
    Ok(found)
}

fn index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [list, item] = take(args)?;
    let found = positions(list.as_ref(), item.as_ref())?;
    Ok(CowVal::owned(CelInt::from(*found.first().unwrap_or(&-1))))
}

fn last_index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [list, item] = take(args)?;
    let found = positions(list.as_ref(), item.as_ref())?;
    Ok(CowVal::owned(CelInt::from(*found.last().unwrap_or(&-1))))
}
