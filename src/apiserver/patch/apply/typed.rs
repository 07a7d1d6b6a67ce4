//! Merging, picking apart and checking values of a type.

use serde_json::{Map as Object, Value};

use super::{
    super::schema::{Id, List, Map, Relation, Shape, Types, items, object},
    element::Element,
    items::{Index, element},
    set::Set,
};

/// `base` with `over` merged in: no field goes, and `over` wins where both have a value. Items of
/// lists come in the order of `over`, those that only `base` has where they stood.
pub(super) fn merge(types: &Types, id: Id, base: &Value, over: &Value) -> Value {
    merged(types, id, Some(base), Some(over)).unwrap_or(Value::Null)
}

fn merged(types: &Types, id: Id, base: Option<&Value>, over: Option<&Value>) -> Option<Value> {
    match types.get(id).shape(over.or(base)) {
        Shape::Map(map) => {
            let full = |value| object(value).is_some_and(|object| !object.is_empty());
            if !map.atomic && (full(base) || full(over)) {
                return Some(merged_map(types, map, object(base), object(over)));
            }
        }
        Shape::List(list) => {
            let full = |value| items(value).is_some_and(|items| !items.is_empty());
            if list.relation != Relation::Atomic && (full(base) || full(over)) {
                return Some(Value::Array(merged_list(
                    types,
                    list,
                    items(base),
                    items(over),
                )));
            }
        }
        Shape::Scalar(_) => {}
    }
    over.or(base).cloned()
}

fn merged_map(
    types: &Types,
    map: &Map,
    base: Option<&Object<String, Value>>,
    over: Option<&Object<String, Value>>,
) -> Value {
    let mut all = Object::new();
    let keys = base.into_iter().chain(over).flat_map(Object::keys);
    for key in keys {
        if !all.contains_key(key) {
            let get = |from: Option<&'_ Object<String, Value>>| from?.get(key).cloned();
            let (base, over) = (get(base), get(over));
            if let Some(value) = merged(types, map.of(key), base.as_ref(), over.as_ref()) {
                all.insert(key.clone(), value);
            }
        }
    }
    Value::Object(all)
}

fn merged_list(
    types: &Types,
    list: &List,
    base: Option<&Vec<Value>>,
    over: Option<&Vec<Value>>,
) -> Vec<Value> {
    let (left, right) = (Index::new(types, list, base), Index::new(types, list, over));
    let both = |element: &Element| {
        merged(
            types,
            list.item,
            left.single(element),
            right.single(element),
        )
    };
    // The next item that both have, in the order of `over`.
    let mut shared = right
        .order
        .iter()
        .filter(|element| left.by.contains_key(element))
        .peekable();
    let mut base = base.into_iter().flatten().zip(&left.order).peekable();
    let mut over = right.order.iter().peekable();
    let mut done: Vec<&Element> = Vec::new();
    let mut out = Vec::new();
    while base.peek().is_some() || over.peek().is_some() {
        if let (Some((_, l)), Some(r)) = (base.peek(), over.peek()) {
            if l == r {
                out.extend(both(r));
                done.push(r);
                base.next();
                over.next();
                shared.next();
                continue;
            }
            if right.by.contains_key(*l) && shared.peek().is_some_and(|next| next != l) {
                base.next();
                continue;
            }
        }
        if let Some((value, l)) = base.peek() {
            if !right.by.contains_key(*l) {
                out.extend(merged(types, list.item, Some(value), None));
                base.next();
                continue;
            }
            if done.contains(l) {
                base.next();
            }
        }
        if let Some(r) = over.next() {
            out.extend(both(r));
            done.push(r);
            if shared.peek() == Some(&r) {
                shared.next();
            }
        }
    }
    out
}

/// Every path that `value` has a value for.
pub(super) fn fields(types: &Types, id: Id, value: &Value) -> Set {
    let mut set = Set::default();
    collect(types, id, value, &mut Vec::new(), &mut set);
    set
}

fn collect(types: &Types, id: Id, value: &Value, path: &mut Vec<Element>, set: &mut Set) {
    match types.get(id).shape(Some(value)) {
        Shape::Map(map) if !map.atomic => {
            for (key, value) in object(Some(value)).into_iter().flatten() {
                path.push(Element::field(key));
                collect(types, map.of(key), value, path, set);
                let empty = value.is_null() || value.as_object().is_some_and(Object::is_empty);
                if empty || !map.fields.contains_key(key) {
                    set.insert(path);
                }
                path.pop();
            }
        }
        Shape::List(list) if list.relation != Relation::Atomic => {
            let index = Index::new(types, list, items(Some(value)));
            for (element, values) in &index.by {
                path.push(element.clone());
                if let [value] = values.as_slice() {
                    collect(types, list.item, value, path, set);
                }
                set.insert(path);
                path.pop();
            }
        }
        _ => set.insert(path),
    }
}

/// `value` without the fields and items in `gone`. What is left empty goes as well.
pub(super) fn without(types: &Types, id: Id, value: &Value, gone: &Set) -> Option<Value> {
    match (types.get(id).shape(Some(value)), value) {
        (Shape::Map(map), Value::Object(object)) if !map.atomic => {
            let mut left = Object::new();
            for (key, value) in object {
                let element = Element::field(key);
                if gone.members.contains(&element) {
                    continue;
                }
                let value = match gone.children.get(&element) {
                    Some(gone) => without(types, map.of(key), value, gone),
                    None => Some(value.clone()),
                };
                if let Some(value) = value {
                    left.insert(key.clone(), value);
                }
            }
            (!left.is_empty()).then_some(Value::Object(left))
        }
        (Shape::List(list), Value::Array(items)) if list.relation != Relation::Atomic => {
            let mut left = Vec::new();
            for item in items {
                let element = element(types, list, item).ok();
                if element
                    .as_ref()
                    .is_some_and(|element| gone.members.contains(element))
                {
                    continue;
                }
                match element.and_then(|element| gone.children.get(&element)) {
                    Some(gone) => left.extend(without(types, list.item, item, gone)),
                    None => left.push(item.clone()),
                }
            }
            (!left.is_empty()).then_some(Value::Array(left))
        }
        (Shape::Scalar(_), value) => Some(value.clone()),
        _ => None,
    }
}
