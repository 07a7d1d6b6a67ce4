//! The writer's side: one list-watch loop, or one for each of several namespaces.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::index::Index;
use super::{Store, Upsert};
use crate::runtime::{Kind, ObjectKey};

impl<K: Kind> Store<K> {
    /// The part of the store that holds a namespace, or all of it (`None`), for the loop that fills it.
    /// The store is synced when all its parts are; they are made before the first is filled, and none
    /// overlaps another.
    pub(in crate::runtime) fn part(&self, namespace: Option<&str>) -> Part<K> {
        self.inner.unsynced_parts.fetch_add(1, Ordering::AcqRel);
        Part {
            store: self.clone(),
            namespace: namespace.map(Into::into),
            began: 0,
            synced: false,
        }
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
}

/// See [`Store::part`].
pub(in crate::runtime) struct Part<K> {
    store: Store<K>,
    namespace: Option<Box<str>>,
    /// The list that was begun last.
    began: u32,
    synced: bool,
}

impl<K: Kind> Part<K> {
    /// Begins a list: what it does not apply or touch until [`sweep`](Self::sweep) is gone.
    pub(in crate::runtime) fn begin_list(&mut self) {
        self.began = self.store.write().begin_epoch();
    }

    /// Ends a complete list: removes what it did not hold, one object at a time, ordered by key.
    pub(in crate::runtime) fn sweep(&self) -> Vec<Arc<K>> {
        let stale = self
            .store
            .read()
            .stale(self.namespace.as_deref(), self.began);
        let gone = stale.into_iter().filter_map(|object| {
            let meta = object.meta();
            self.store
                .take(&meta.namespace, &meta.name, Some(&meta.uid))
        });
        gone.collect()
    }

    /// The part holds everything up to this resource version.
    pub(in crate::runtime) fn reached(&self, resource_version: &str) {
        let namespace = self.namespace.as_deref();
        self.store.meet(|e| e.reached(namespace, resource_version));
    }

    /// The part's first list is complete.
    pub(in crate::runtime) fn mark_synced(&mut self) {
        let inner = &self.store.inner;
        let last = !std::mem::replace(&mut self.synced, true)
            && inner.unsynced_parts.fetch_sub(1, Ordering::AcqRel) == 1;
        if last {
            inner.is_synced.store(true, Ordering::Release);
            inner.synced.send_replace(true);
        }
    }

    /// Objects held, synced or not.
    pub(in crate::runtime) fn len(&self) -> usize {
        self.store.read().len(self.namespace.as_deref())
    }
}

impl<K> Deref for Part<K> {
    type Target = Store<K>;

    fn deref(&self) -> &Store<K> {
        &self.store
    }
}
