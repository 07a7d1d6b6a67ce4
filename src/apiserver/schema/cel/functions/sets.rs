//! Lists as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`; and equality of lists whose schema
//! says that they are sets or maps.

use cel::common::types::{CelBool, CelString, DYN_TYPE, LIST_TYPE};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError};

use super::{iterable, take};

type Answer<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// What `==` becomes where the left side is a list of type set.
pub(in crate::apiserver::schema::cel) const EQUAL_SETS: &str = "@equal_sets";
/// The same for lists of type map; the third argument holds the keys, comma separated.
pub(in crate::apiserver::schema::cel) const EQUAL_MAPS: &str = "@equal_maps";
/// What `+` becomes where the left side is a list of type set.
pub(in crate::apiserver::schema::cel) const UNION: &str = "@union";

pub(super) fn add(env: &mut Env) -> Result<(), DeclarationError> {
    let lists = || vec![LIST_TYPE, LIST_TYPE];
    env.add_overload(
        "sets.contains",
        "list_sets_contains_list",
        lists(),
        contains,
    )?;
    env.add_overload(
        "sets.equivalent",
        "list_sets_equivalent_list",
        lists(),
        equivalent,
    )?;
    env.add_overload(
        "sets.intersects",
        "list_sets_intersects_list",
        lists(),
        intersects,
    )?;
    let any = || vec![DYN_TYPE, DYN_TYPE];
    env.add_overload(EQUAL_SETS, "equal_sets", any(), equal_sets)?;
    let keyed = vec![DYN_TYPE, DYN_TYPE, DYN_TYPE];
    env.add_overload(EQUAL_MAPS, "equal_maps", keyed, equal_maps)?;
    env.add_overload(UNION, "union", lists(), union)
}

/// The items of a list; `None` for anything else.
fn items<'b, 'v>(list: &'b (dyn Val + 'v)) -> Option<Vec<&'b (dyn Val + 'v)>> {
    if list.get_type() != &LIST_TYPE {
        return None;
    }
    let mut iter = list.as_iterable()?.iter();
    let mut items = Vec::new();
    while let Some(item) = iter.next() {
        items.push(item);
    }
    Some(items)
}

fn holds(list: &[&dyn Val], item: &dyn Val) -> bool {
    list.iter().any(|own| own.equals(item))
}

fn both<'b, 'v>(
    args: Vec<CowVal<'b, 'v>>,
    judge: impl Fn(&[&dyn Val], &[&dyn Val]) -> bool,
) -> Answer<'b, 'v> {
    let [a, b] = take(args)?;
    let judged = match (items(a.as_ref()), items(b.as_ref())) {
        (Some(a), Some(b)) => judge(&as_vals(&a), &as_vals(&b)),
        _ => false,
    };
    Ok(CowVal::owned(CelBool::from(judged)))
}

fn as_vals<'b>(items: &[&'b (dyn Val + '_)]) -> Vec<&'b dyn Val> {
    items.to_vec()
}

fn contains<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    both(args, |a, b| b.iter().all(|item| holds(a, *item)))
}

fn equivalent<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    both(args, |a, b| {
        a.iter().all(|item| holds(b, *item)) && b.iter().all(|item| holds(a, *item))
    })
}

fn intersects<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    both(args, |a, b| a.iter().any(|item| holds(b, *item)))
}

fn equal_sets<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    both(args, |a, b| {
        a.len() == b.len() && a.iter().all(|item| holds(b, *item))
    })
}

/// Whether two lists hold the same items by their keys, in any order.
fn equal_maps<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [a, b, keys] = take(args)?;
    let keys = keys
        .downcast_ref::<CelString>()
        .map(|keys| keys.inner().to_owned())
        .unwrap_or_default();
    let same_keys = |a: &dyn Val, b: &dyn Val| {
        keys.split(',').all(|key| {
            let key = CelString::from(key);
            let a = a.as_indexer().map(|fields| fields.get(&key));
            let b = b.as_indexer().map(|fields| fields.get(&key));
            match (a, b) {
                (Some(Ok(a)), Some(Ok(b))) => a.equals(b.as_ref()),
                (Some(Err(_)), Some(Err(_))) => true,
                _ => false,
            }
        })
    };
    both(vec![a, b], |a, b| {
        a.len() == b.len()
            && a.iter().all(|item| {
                let other = b.iter().find(|other| same_keys(*item, **other));
                other.is_some_and(|other| item.equals(*other))
            })
    })
}

/// The first set, and what only the second holds.
fn union<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Answer<'b, 'v> {
    let [a, b] = take(args)?;
    let mut all: Vec<Box<dyn Val + 'v>> = Vec::new();
    for list in [a.as_ref(), b.as_ref()] {
        let mut items = iterable(list)?.iter();
        while let Some(item) = items.next() {
            if !all.iter().any(|own| own.equals(item)) {
                all.push(item.clone_as_boxed());
            }
        }
    }
    Ok(CowVal::owned(cel::common::types::CelList::from(all)))
}
