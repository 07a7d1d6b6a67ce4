//! A cache of one kind, filled by one list-watch loop (or one a namespace) and read by everyone.
//!
//! It promises that a reader sees each object in its old or its new state, never a store that misses
//! what exists; that reading before the first list is an error; and that reads and writes hold each
//! other up for microseconds: the lock covers one object's change, and a list is taken as a whole.
//!
//! `index.rs` has the tables, pure; `ordered.rs` what readers take, `groups.rs` what is found by
//! owner or as declared; `fill.rs` is the writer's side, `own.rs` with `expect.rs` reads your writes.

mod declared;
mod expect;
mod fill;
mod groups;
mod index;
#[cfg(test)]
mod model_tests;
mod ordered;
mod own;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::sync::watch;
use metrics::{Counter, Gauge};
use tokio::sync::Notify;

use super::metric;
use super::object::{Kind, ObjectKey};
pub use declared::IndexedBy;
use expect::Expectations;
pub(in crate::runtime) use fill::Part;
use index::Index;
pub use ordered::{IntoIter as ObjectsIntoIter, Objects};

/// A store was read before its first list is complete: what it lacks may well exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} store is read before its first list is complete")]
pub struct NotSynced {
    /// Plural of the store's kind.
    pub kind: &'static str,
}

/// A cache of objects of one kind. Clones share it.
pub struct Store<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    index: RwLock<Index<K>>,
    /// Never locked while `index` is locked for writing.
    expectations: Mutex<Expectations>,
    /// Changes whenever an expectation was met.
    met: watch::Sender<()>,
    /// An expectation was not met in time.
    doubted: Notify,
    synced: watch::Sender<bool>,
    /// As `synced`, for every read to look at without a lock.
    is_synced: AtomicBool,
    unsynced_parts: AtomicUsize,
    objects: Gauge,
    bytes: Gauge,
    timeouts: Counter,
}

/// What a write to the store changed.
#[derive(Debug)]
pub(super) enum Upsert<K> {
    /// The store held this very version.
    Unchanged,
    /// Added (`old` is `None`) or changed.
    Applied { old: Option<Arc<K>>, new: Arc<K> },
    /// Another object (by UID) had the name before.
    Replaced { last: Arc<K>, new: Arc<K> },
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Kind> Default for Store<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Kind> Store<K> {
    /// An empty store that is not synced.
    #[must_use]
    pub fn new() -> Self {
        let kind = K::RESOURCE.plural;
        Self {
            inner: Arc::new(Inner {
                index: RwLock::new(Index::default()),
                expectations: Mutex::default(),
                met: watch::Sender::new(()),
                doubted: Notify::new(),
                synced: watch::Sender::new(false),
                is_synced: AtomicBool::new(false),
                unsynced_parts: AtomicUsize::new(0),
                objects: metrics::gauge!(metric::STORE_OBJECTS, "kind" => kind),
                bytes: metrics::gauge!(metric::STORE_BYTES, "kind" => kind),
                timeouts: metrics::counter!(metric::STORE_EXPECTATION_TIMEOUTS, "kind" => kind),
            }),
        }
    }

    /// A synced store of these objects, without a watch: for tests of what reads stores.
    #[must_use]
    pub fn of(objects: impl IntoIterator<Item = K>) -> Self {
        let store = Self::new();
        store.replace(objects);
        store
    }

    /// Holds these objects and no others, as after a list of a list-watch: for tests and benches of
    /// what reads stores. Nobody is told what has changed.
    pub fn replace(&self, objects: impl IntoIterator<Item = K>) {
        let mut all = self.part(None);
        all.begin_list();
        for object in objects {
            all.apply(object);
        }
        all.sweep();
        all.mark_synced();
    }

    /// The object of that key. No copy is made.
    ///
    /// # Errors
    /// [`NotSynced`] before the first list is complete, as for every read.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, NotSynced> {
        self.check_synced()?;
        Ok(self.read().get(&key.namespace, &key.name).cloned())
    }

    /// All objects, ordered by key. Costs the namespaces, not the objects.
    pub fn list(&self) -> Result<Objects<K>, NotSynced> {
        self.check_synced()?;
        Ok(self.read().all())
    }

    /// The objects of a namespace, ordered by key. Costs the same whatever their number.
    pub fn in_namespace(&self, namespace: &str) -> Result<Objects<K>, NotSynced> {
        self.check_synced()?;
        Ok(self.read().in_namespace(namespace))
    }

    /// The objects with an owner reference of that UID, ordered by key. Costs the matches.
    pub fn owned_by(&self, uid: &str) -> Result<Vec<Arc<K>>, NotSynced> {
        self.check_synced()?;
        Ok(self.read().owned_by(uid))
    }

    /// Whether the first list is complete. It stays true: later lists replace object by object.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.inner.is_synced.load(Ordering::Acquire)
    }

    /// Waits for the first list. Cancel-safe.
    pub async fn synced(&self) {
        let mut synced = self.inner.synced.subscribe();
        // `self` holds the sender, so the channel can't close while we wait.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    fn check_synced(&self) -> Result<(), NotSynced> {
        if self.is_synced() {
            Ok(())
        } else {
            Err(NotSynced {
                kind: K::RESOURCE.plural,
            })
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Index<K>> {
        self.inner
            .index
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Index<K>> {
        self.inner
            .index
            .write()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
