//! The writer's side: one list-watch loop.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::index::Index;
use super::{Store, Upsert};
use crate::runtime::{Kind, ObjectKey};

impl<K: Kind> Store<K> {
    /// Begins a list: what it does not apply or touch until [`sweep`](Self::sweep) is gone.
    pub(in crate::runtime) fn begin_list(&self) {
        self.write().begin_epoch();
    }

    /// Holds `object`, as a list or a watch gave it.
    pub(in crate::runtime) fn apply(&self, object: K) -> Upsert<K> {
        let new = Arc::new(object);
        let upsert = self.change(|index| index.upsert(&new));
        if let Upsert::Applied { old: None, .. } = upsert {
            self.inner.objects.increment(1.0);
        }
        self.meet(|e| {
            let meta = new.meta();
            // Mostly nothing is waited for, and a key costs two allocations.
            !e.is_empty()
                && e.saw(
                    &meta.key(),
                    &meta.uid,
                    &meta.resource_version,
                    meta.is_terminating(),
                )
        });
        upsert
    }

    /// Keeps what the store holds under `key` in the current list, although its listed version can't
    /// be read.
    pub(in crate::runtime) fn touch(&self, key: &ObjectKey) {
        self.write().touch(&key.namespace, &key.name);
    }

    /// Removes the object of that key, and of that UID where one is given.
    pub(in crate::runtime) fn remove(&self, key: &ObjectKey, uid: Option<&str>) -> Option<Arc<K>> {
        self.take(&key.namespace, &key.name, uid)
    }

    /// Ends a complete list: removes what it did not hold, one object at a time, ordered by key.
    pub(in crate::runtime) fn sweep(&self) -> Vec<Arc<K>> {
        let stale = self.read().stale();
        let gone = stale.into_iter().filter_map(|object| {
            let meta = object.meta();
            self.take(&meta.namespace, &meta.name, Some(&meta.uid))
        });
        gone.collect()
    }

    fn take(&self, namespace: &str, name: &str, uid: Option<&str>) -> Option<Arc<K>> {
        let last = self.change(|index| index.remove(namespace, name, uid))?;
        self.inner.objects.decrement(1.0);
        self.meet(|e| !e.is_empty() && e.saw_deleted(&last.meta().key(), &last.meta().uid));
        Some(last)
    }

    /// A change of the index, and of the gauge with it.
    fn change<R>(&self, change: impl FnOnce(&mut Index<K>) -> R) -> R {
        let mut index = self.write();
        let before = index.bytes();
        let result = change(&mut index);
        let after = index.bytes();
        drop(index);
        if before != after {
            self.inner.bytes.increment(after as f64 - before as f64);
        }
        result
    }

    /// The store holds everything up to this resource version.
    pub(in crate::runtime) fn reached(&self, resource_version: &str) {
        self.meet(|e| e.reached(resource_version));
    }

    pub(in crate::runtime) fn mark_synced(&self) {
        self.inner.is_synced.store(true, Ordering::Release);
        self.inner.synced.send_replace(true);
    }

    /// Objects held, synced or not.
    pub(in crate::runtime) fn len(&self) -> usize {
        self.read().len()
    }
}
