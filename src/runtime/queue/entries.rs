//! What is known of each key that is ready, waiting or running, and how a key is found.

use std::hash::{BuildHasher, Hasher};
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use tokio::time::Instant;

use super::Priority;
use super::linked::{Id, KEPT, Links, Slab};
use super::retry::Retry;
use crate::runtime::ObjectKey;

/// A key's hashes, which are made before the lock is taken.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hashes {
    pub(super) key: u64,
    pub(super) namespace: u64,
}

/// Makes [`Hashes`]; the clones of one make the same. See [`Map`](crate::runtime::hash::Map) for the
/// choice of the function.
#[derive(Clone, Debug, Default)]
pub(super) struct Hashing(foldhash::fast::RandomState);

impl Hashing {
    pub(super) fn of(&self, key: &ObjectKey) -> Hashes {
        let mut hasher = self.0.build_hasher();
        hasher.write(key.namespace.as_bytes());
        let namespace = hasher.finish();
        hasher.write(key.name.as_bytes());
        Hashes {
            key: hasher.finish(),
            namespace,
        }
    }
}

/// Whether two keys are equal. Most that meet here are clones of one another.
fn same(one: &ObjectKey, other: &ObjectKey) -> bool {
    let same = |one: &Arc<str>, other: &Arc<str>| Arc::ptr_eq(one, other) || one == other;
    same(&one.name, &other.name) && same(&one.namespace, &other.namespace)
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: ObjectKey,
    hash: u64,
    pub(super) place: Place,
    /// The highest priority asked for since the key was handed out last.
    pub(super) priority: Priority,
    /// Conflicts in a row.
    pub(super) conflicts: u8,
    /// Its namespace's number among the ready ones.
    pub(super) lane: Id,
    /// Present after a failed run, until one succeeds.
    pub(super) retry: Option<Box<Retry>>,
    /// When it was handed out last.
    pub(super) started: Option<Instant>,
    /// Its place among the ready keys of its namespace and priority.
    pub(super) turn: Links,
    /// Its place among all ready keys of its priority, or among those that run.
    pub(super) age: Links,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// New.
    Idle,
    /// Not asked for, and known only for its window.
    Resting {
        until: Instant,
        ticket: u64,
    },
    Ready {
        since: Instant,
    },
    Waiting {
        at: Instant,
        ticket: u64,
    },
    Running {
        again: Option<Again>,
    },
}

/// What was asked for while the key runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    pub(super) at: Instant,
    pub(super) priority: Priority,
}

impl Again {
    pub(super) fn merge(earlier: Option<Self>, at: Instant, priority: Priority) -> Self {
        earlier.map_or(Self { at, priority }, |earlier| Self {
            at: earlier.at.min(at),
            priority: earlier.priority.max(priority),
        })
    }
}

/// The entries. Nothing else is remembered of a key.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) slab: Slab<Entry>,
    index: HashTable<Id>,
}

impl Entries {
    /// All of them, in no order.
    pub(super) fn all(&self) -> impl Iterator<Item = &Entry> {
        self.index.iter().map(|id| &self.slab[*id])
    }
}

impl Entries {
    pub(super) fn find(&self, key: &ObjectKey, hashes: Hashes) -> Option<Id> {
        let slab = &self.slab;
        let found = self.index.find(hashes.key, |id| same(&slab[*id].key, key));
        found.copied()
    }

    /// The entry of a key, which is made if there is none: then `lane` says where it belongs.
    pub(super) fn of(
        &mut self,
        key: ObjectKey,
        hashes: Hashes,
        lane: impl FnOnce(&ObjectKey) -> Id,
    ) -> Id {
        let slab = &self.slab;
        let found = |id: &Id| same(&slab[*id].key, &key);
        match self.index.entry(hashes.key, found, |id| slab[*id].hash) {
            Slot::Occupied(slot) => *slot.get(),
            Slot::Vacant(slot) => {
                let entry = Entry {
                    hash: hashes.key,
                    place: Place::Idle,
                    priority: Priority::Low,
                    conflicts: 0,
                    lane: lane(&key),
                    retry: None,
                    started: None,
                    turn: Links::default(),
                    age: Links::default(),
                    key,
                };
                let id = self.slab.insert(entry);
                slot.insert(id);
                id
            }
        }
    }

    pub(super) fn remove(&mut self, id: Id) {
        let hash = self.slab[id].hash;
        if let Ok(slot) = self.index.find_entry(hash, |other| *other == id) {
            slot.remove();
        }
        self.slab.remove(id);
        if self.slab.len() == 0 && self.index.capacity() > KEPT {
            self.index = HashTable::new();
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.slab.len()
    }
}

impl Index<Id> for Entries {
    type Output = Entry;

    fn index(&self, id: Id) -> &Entry {
        &self.slab[id]
    }
}

impl IndexMut<Id> for Entries {
    fn index_mut(&mut self, id: Id) -> &mut Entry {
        &mut self.slab[id]
    }
}
