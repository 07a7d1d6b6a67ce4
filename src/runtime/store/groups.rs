//! Objects by a key that several of them may have: their owners, or what an operator declares.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::runtime::hash::Map;
use crate::runtime::{Kind, Text};

/// Under which keys an object is found.
pub(super) type Keys<K> = dyn Fn(&K, &mut Vec<Text>) + Send + Sync;

/// Keys, and the objects that have them.
pub(super) struct Groups<K> {
    table: Map<Box<str>, Members<K>>,
}

/// Ordered by key. Most have few, and many only one.
enum Members<K> {
    One(Arc<K>),
    Many(Vec<Arc<K>>),
}

impl<K> Default for Groups<K> {
    fn default() -> Self {
        Self {
            table: Map::default(),
        }
    }
}

impl<K: Kind> Groups<K> {
    /// The objects of a group, ordered by key.
    pub(super) fn of(&self, key: &str) -> Vec<Arc<K>> {
        match self.table.get(key) {
            None => Vec::new(),
            Some(Members::One(object)) => vec![Arc::clone(object)],
            Some(Members::Many(objects)) => objects.clone(),
        }
    }

    /// Takes `object` into a group, instead of one of the same key.
    pub(super) fn insert(&mut self, key: &str, object: &Arc<K>) {
        let Some(members) = self.table.get_mut(key) else {
            let member = Members::One(Arc::clone(object));
            self.table.insert(key.into(), member);
            return;
        };
        match members {
            Members::One(other) => {
                let both = match order(other.as_ref(), object) {
                    Ordering::Equal => {
                        *other = Arc::clone(object);
                        return;
                    }
                    Ordering::Less => vec![Arc::clone(other), Arc::clone(object)],
                    Ordering::Greater => vec![Arc::clone(object), Arc::clone(other)],
                };
                *members = Members::Many(both);
            }
            Members::Many(objects) => {
                match objects.binary_search_by(|other| order(other.as_ref(), object)) {
                    Ok(at) => objects[at] = Arc::clone(object),
                    Err(at) => objects.insert(at, Arc::clone(object)),
                }
            }
        }
    }

    /// Takes the object of `object`'s key out of a group.
    pub(super) fn remove(&mut self, key: &str, object: &K) {
        let Some(members) = self.table.get_mut(key) else {
            return;
        };
        let empty = match members {
            Members::One(other) => order(other.as_ref(), object).is_eq(),
            Members::Many(objects) => {
                if let Ok(at) = objects.binary_search_by(|other| order(other.as_ref(), object)) {
                    objects.remove(at);
                }
                if objects.len() * 4 < objects.capacity() {
                    objects.shrink_to(objects.len() * 2);
                }
                objects.is_empty()
            }
        };
        if empty {
            self.table.remove(key);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }
}

/// The order of keys.
pub(super) fn order<K: Kind>(a: &K, b: &K) -> Ordering {
    let (a, b) = (a.meta(), b.meta());
    (&*a.namespace, &*a.name).cmp(&(&*b.namespace, &*b.name))
}
