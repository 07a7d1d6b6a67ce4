//! How the fields of a kind merge, as structured-merge-diff sees a type.
//!
//! A type is an *atom*: what a value may be, and how its parts relate. Types refer to each other by
//! number, since some contain themselves.

mod builtin;
mod crd;
mod decode;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use serde_json::{Map as Object, Value, json};

pub(super) use builtin::Table;

/// Number of a type in its [`Types`].
pub(super) type Id = usize;

/// Anything, never looked into.
pub(super) const UNTYPED: Id = 0;
/// Anything, judged by what it is: objects by their fields, lists as a whole.
pub(super) const DEDUCED: Id = 1;

/// Which scalars are allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    Number,
    String,
    Boolean,
    /// Any of them.
    Any,
}

impl Scalar {
    /// Go's zero value.
    fn zero(self) -> Option<Value> {
        match self {
            Self::Number => Some(json!(0)),
            Self::String => Some(json!("")),
            Self::Boolean => Some(json!(false)),
            Self::Any => None,
        }
    }
}

/// What a value may be.
#[derive(Clone, Debug, Default)]
pub(super) struct Atom {
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<List>,
    pub(super) map: Option<Map>,
}

/// A list.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) item: Id,
    pub(super) relation: Relation,
}

/// What makes an item of a list the same item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// The list is one value.
    Atomic,
    /// Its value.
    Set,
    /// The values of these fields.
    Keyed(Vec<String>),
}

/// An object: a struct with fields, a map with free keys, or both.
#[derive(Clone, Debug)]
pub(super) struct Map {
    /// Name of a struct, for messages; empty for others.
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, Field>,
    /// Type of the keys that are no fields; `None` where there may be none.
    pub(super) rest: Option<Id>,
    /// Whether it is one value.
    pub(super) atomic: bool,
}

/// A field.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) of: Id,
    /// What stands for it where it is missing in the key of a list's item.
    pub(super) default: Option<Value>,
    /// What Go writes where nothing was set.
    pub(super) zero: Option<Value>,
    /// Whether Go does not write it where it is zero.
    pub(super) omit: bool,
    /// For strategic merge patches.
    pub(super) strategy: Strategy,
}

/// `patchStrategy` and `patchMergeKey` of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Strategy {
    /// Objects are merged, lists replaced.
    #[default]
    Default,
    /// Objects are replaced as well.
    Replace,
    /// Lists are merged: scalars as a set, objects by the key.
    Merge(Option<String>),
}

/// What a value is taken for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'a> {
    Map(&'a Map),
    Scalar(Scalar),
    List(&'a List),
}

impl Shape<'_> {
    /// Whether both are of the same sort.
    pub(super) fn like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl Atom {
    /// A scalar.
    pub(super) fn scalar(scalar: Scalar) -> Self {
        Self {
            scalar: Some(scalar),
            ..Self::default()
        }
    }

    /// A list.
    pub(super) fn list(item: Id, relation: Relation) -> Self {
        Self {
            list: Some(List { item, relation }),
            ..Self::default()
        }
    }

    /// An object.
    pub(super) fn map(map: Map) -> Self {
        Self {
            map: Some(map),
            ..Self::default()
        }
    }

    /// The scalar, if nothing else is allowed.
    fn only_scalar(&self) -> Option<Scalar> {
        match (self.scalar, &self.list, &self.map) {
            (Some(scalar), None, None) => Some(scalar),
            _ => None,
        }
    }

    /// Whether it is a list or a map with free keys, and nothing else.
    fn is_container(&self) -> bool {
        match (self.scalar, &self.list, &self.map) {
            (None, Some(_), None) => true,
            (None, None, Some(map)) => map.fields.is_empty() && map.rest.is_some(),
            _ => false,
        }
    }

    /// Whether it is an object or a list that is one value.
    pub(super) fn is_atomic(&self) -> bool {
        match (&self.map, self.scalar, &self.list) {
            (Some(map), _, _) => map.atomic,
            (None, None, Some(list)) => list.relation == Relation::Atomic,
            _ => false,
        }
    }

    /// What `value` is taken for: what it is if that is allowed, else the first that is allowed.
    pub(super) fn shape(&self, value: Option<&Value>) -> Shape<'_> {
        match (value, self.scalar, &self.list, &self.map) {
            (Some(Value::Object(_)), _, _, Some(map)) => Shape::Map(map),
            (Some(Value::Array(_)), _, Some(list), _) => Shape::List(list),
            (Some(Value::Bool(_) | Value::Number(_) | Value::String(_)), Some(scalar), _, _) => {
                Shape::Scalar(scalar)
            }
            (_, _, _, Some(map)) => Shape::Map(map),
            (_, Some(scalar), _, _) => Shape::Scalar(scalar),
            (_, _, Some(list), _) => Shape::List(list),
            (_, None, None, None) => Shape::Scalar(Scalar::Any),
        }
    }
}

impl Map {
    /// Whether it says nothing of what is in it.
    pub(super) fn is_free(&self) -> bool {
        self.fields.is_empty() && self.rest == Some(DEDUCED)
    }

    /// Type of the value under `key`.
    pub(super) fn of(&self, key: &str) -> Id {
        self.fields
            .get(key)
            .map_or(self.rest.unwrap_or(DEDUCED), |field| field.of)
    }
}

/// Types that refer to each other.
#[derive(Clone, Debug)]
pub(super) struct Types(Vec<Atom>);

impl Default for Types {
    fn default() -> Self {
        let anything = |rest, atomic| Atom {
            scalar: Some(Scalar::Any),
            list: Some(List {
                item: UNTYPED,
                relation: Relation::Atomic,
            }),
            map: Some(Map {
                name: String::new(),
                fields: BTreeMap::new(),
                rest: Some(rest),
                atomic,
            }),
        };
        Self(vec![anything(UNTYPED, true), anything(DEDUCED, false)])
    }
}

impl Types {
    /// The type with this number.
    pub(super) fn get(&self, id: Id) -> &Atom {
        &self.0[id]
    }

    /// Adds a type.
    pub(super) fn add(&mut self, atom: Atom) -> Id {
        self.0.push(atom);
        self.0.len() - 1
    }

    /// Puts a type in the place of another one.
    fn set(&mut self, id: Id, atom: Atom) {
        self.0[id] = atom;
    }

    /// Copies a type with all it refers to from `other`; `copied` says what is here already.
    fn copy(&mut self, other: &Self, id: Id, copied: &mut HashMap<Id, Id>) -> Id {
        if id == UNTYPED || id == DEDUCED {
            return id;
        }
        if let Some(copy) = copied.get(&id) {
            return *copy;
        }
        let copy = self.add(Atom::default());
        copied.insert(id, copy);
        let mut atom = other.get(id).clone();
        if let Some(list) = &mut atom.list {
            list.item = self.copy(other, list.item, copied);
        }
        if let Some(map) = &mut atom.map {
            map.rest = map.rest.map(|rest| self.copy(other, rest, copied));
            for field in map.fields.values_mut() {
                field.of = self.copy(other, field.of, copied);
            }
        }
        self.set(copy, atom);
        copy
    }

    /// Brings `value` into the form in which a server's own types hold it: fields without a value are
    /// gone, those that Go always writes are there.
    pub(super) fn settle(&self, id: Id, value: &mut Value) {
        match (self.get(id).shape(Some(value)), value) {
            (Shape::Map(map), Value::Object(object)) => self.settle_object(map, object),
            (Shape::List(list), Value::Array(items)) => {
                for item in items {
                    self.settle(list.item, item);
                }
            }
            _ => {}
        }
    }

    fn settle_object(&self, map: &Map, object: &mut Object<String, Value>) {
        object.retain(|name, value| if let Some(field) = map.fields.get(name) { !self.is_unset(field, value) } else {
            let scalar = map.rest.and_then(|rest| self.get(rest).only_scalar());
            if value.is_null()
                && let Some(zero) = scalar.and_then(Scalar::zero)
            {
                *value = zero;
            }
            !value.is_null()
        });
        for (name, field) in &map.fields {
            if let Some(zero) = &field.zero
                && !object.contains_key(name)
            {
                object.insert(name.clone(), zero.clone());
            }
        }
        for (name, value) in object.iter_mut() {
            self.settle(map.of(name), value);
        }
    }

    /// Whether Go would not write a field that holds `value`.
    fn is_unset(&self, field: &Field, value: &Value) -> bool {
        let atom = self.get(field.of);
        match value {
            Value::Null => true,
            Value::Array(items) => items.is_empty() && field.zero.is_none() && atom.is_container(),
            Value::Object(object) => {
                object.is_empty() && field.zero.is_none() && atom.is_container()
            }
            scalar => {
                field.omit && atom.only_scalar().and_then(Scalar::zero).as_ref() == Some(scalar)
            }
        }
    }
}

/// How the fields of a kind merge: which lists are maps by which keys, which are sets, what is atomic.
#[derive(Clone, Debug)]
pub(crate) struct MergeSchema {
    pub(super) types: Arc<Types>,
    pub(super) root: Id,
    /// Whether the kind is one of Go's types, which have a form of their own.
    pub(super) typed: bool,
}

impl Default for MergeSchema {
    /// Of a kind of which nothing is known: objects merge by field, lists are atomic.
    fn default() -> Self {
        Self {
            types: Arc::default(),
            root: DEDUCED,
            typed: false,
        }
    }
}

impl MergeSchema {
    /// Of a built-in kind; unknown kinds have atomic lists.
    pub(crate) fn builtin(group: &str, kind: &str) -> Arc<Self> {
        Arc::new(Table::shared().schema(group, kind).unwrap_or_default())
    }

    /// From a structural schema (`openAPIV3Schema`).
    pub(crate) fn of_crd(schema: &Value) -> Arc<Self> {
        Arc::new(crd::compile(schema))
    }

    /// Brings `object` into the form in which a server's own types hold it: fields without a value are
    /// gone (null, and what is empty where Go leaves that out), those that Go always writes are there.
    /// Objects of CRDs stay as they are, and so does `managedFields`, where an empty list says something.
    pub(crate) fn complete(&self, object: &mut Value) {
        if !self.typed {
            return;
        }
        let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
        let record = metadata.and_then(|metadata| metadata.remove("managedFields"));
        self.types.settle(self.root, object);
        if let Some(record) = record {
            object["metadata"]["managedFields"] = record;
        }
    }
}

/// Removes fields that are null, deeply. Nulls in lists stay.
pub(crate) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.retain(|_, value| !value.is_null());
            object.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// The object in `value`, if it is one.
pub(super) fn object(value: Option<&Value>) -> Option<&Object<String, Value>> {
    value.and_then(Value::as_object)
}

/// The list in `value`, if it is one.
pub(super) fn items(value: Option<&Value>) -> Option<&Vec<Value>> {
    value.and_then(Value::as_array)
}
