//! The order of merged lists: as the patch has it, with what only the server has kept in its place.

use serde_json::{Map as Object, Value};

use super::{
    super::go::{go, go_type},
    Id, PATCH, Refused, Result, SET_ORDER, Strategy, Types, field, item, lists, without_directives,
};

/// Obeys `$setElementOrder/x` in `patch`, together with `x` itself, which is then out of the patch.
pub(super) fn apply(
    types: &Types,
    of: Id,
    original: &mut Object<String, Value>,
    patch: &mut Object<String, Value>,
) -> Result<()> {
    let orders: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(SET_ORDER))
        .cloned()
        .collect();
    for directive in orders {
        let order = match patch.remove(&directive) {
            Some(Value::Array(order)) => order,
            other => return Err(no_list(other.as_ref())),
        };
        let name = directive[SET_ORDER.len()..]
            .strip_prefix('/')
            .ok_or(Refused::ElementOrder)?;
        let (of, strategy) = field(types, of, name)?;
        let key = match &strategy {
            Strategy::Merge(key) => key.as_deref(),
            _ => None,
        };
        let old = list(original.get(name))?;
        let new = list(patch.get(name))?;
        in_order(new.as_deref().unwrap_or_default(), &order, key)?;
        let live = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) => new.into_iter().filter_map(without_directives).collect(),
            (Some(old), Some(new)) if matches!(strategy, Strategy::Merge(_)) => {
                lists::merge(types, item(types, of), key, old, new)?
            }
            (Some(_), Some(new)) => new,
        };
        let (ours, theirs) = split(merged, &order, key)?;
        let arranged = arrange(ours, theirs, &order, &live, key);
        original.insert(name.to_owned(), Value::Array(arranged));
        patch.remove(name);
    }
    Ok(())
}

fn list(value: Option<&Value>) -> Result<Option<Vec<Value>>> {
    match value {
        None => Ok(None),
        Some(Value::Array(items)) => Ok(Some(items.clone())),
        other => Err(no_list(other)),
    }
}

fn no_list(value: Option<&Value>) -> Refused {
    let sort = value.map_or("<nil>", go_type);
    Refused::Other(format!(
        "expected a []interface {{}}, but received a {sort}"
    ))
}

/// Refuses a patch whose items are not in the order that it demands itself.
fn in_order(patch: &[Value], order: &[Value], key: Option<&str>) -> Result<()> {
    if order.is_empty() {
        return Ok(());
    }
    let mut rest = order.iter();
    for value in patch.iter().filter(|value| value.get(PATCH).is_none()) {
        let id = identity(value, key)?;
        let found = rest
            .by_ref()
            .map(|at| identity(at, key))
            .find(|at| match at {
                Ok(at) => *at == id,
                Err(_) => true,
            });
        match found {
            Some(Ok(_)) => {}
            Some(Err(refused)) => return Err(refused),
            None => {
                return Err(Refused::Other(format!(
                    "The order in patch list:\n{}\n doesn't match {} list:\n{}\n",
                    go(&Value::Array(patch.to_vec())),
                    SET_ORDER,
                    go(&Value::Array(order.to_vec())),
                )));
            }
        }
    }
    Ok(())
}

/// What identifies an item: itself, or the value of the merge key.
fn identity<'a>(value: &'a Value, key: Option<&str>) -> Result<&'a Value> {
    let Some(key) = key else {
        return Ok(value);
    };
    let object = value.as_object().ok_or(Refused::ElementOrder)?;
    object.get(key).ok_or_else(|| lists::no_key(object, key))
}

/// Splits items into those that `by` names and those it does not.
pub(super) fn split(
    items: Vec<Value>,
    by: &[Value],
    key: Option<&str>,
) -> Result<(Vec<Value>, Vec<Value>)> {
    let (mut named, mut others) = (Vec::new(), Vec::new());
    for value in items {
        let id = identity(&value, key)?;
        if position(by, id, key).is_some() {
            named.push(value);
        } else {
            others.push(value);
        }
    }
    Ok((named, others))
}

fn position(items: &[Value], id: &Value, key: Option<&str>) -> Option<usize> {
    items.iter().position(|item| match key {
        Some(key) => item.get(key) == Some(id),
        None => item == id,
    })
}

/// The items of the patch in its order, with those of the server put between them as they stood.
pub(super) fn arrange(
    mut ours: Vec<Value>,
    mut theirs: Vec<Value>,
    order: &[Value],
    live: &[Value],
    key: Option<&str>,
) -> Vec<Value> {
    let at = |items: &[Value], value: &Value| {
        position(items, identity(value, key).unwrap_or(value), key)
    };
    ours.sort_by_key(|value| at(order, value));
    theirs.sort_by_key(|value| at(live, value));
    let mut arranged = Vec::new();
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    loop {
        let their_turn = match (ours.peek(), theirs.peek()) {
            (None, None) => return arranged,
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(our), Some(their)) => match (at(live, our), at(live, their)) {
                (Some(our), Some(their)) => their < our,
                _ => false,
            },
        };
        arranged.extend(if their_turn {
            theirs.next()
        } else {
            ours.next()
        });
    }
}
