//! A cache of one kind, filled by one list-watch loop and read by everyone.
//!
//! It promises that a reader sees each object in its old or its new state, never a store that misses
//! what exists; that reading before the first list is an error; and that reads and writes hold each
//! other up for microseconds: the lock covers one object's change, never a list.

mod expect;
mod index;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::sync::watch;
use metrics::{Counter, Gauge};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::metric;
use super::object::{Kind, ObjectKey};
use expect::Expectations;
use index::Index;

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
    objects: Gauge,
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
                objects: metrics::gauge!(metric::STORE_OBJECTS, "kind" => kind),
                timeouts: metrics::counter!(metric::STORE_EXPECTATION_TIMEOUTS, "kind" => kind),
            }),
        }
    }

    /// A synced store of these objects, without a watch: for tests of what reads stores.
    #[must_use]
    pub fn of(objects: impl IntoIterator<Item = K>) -> Self {
        let store = Self::new();
        for object in objects {
            store.apply(object);
        }
        store.mark_synced();
        store
    }

    /// The object of that key. No copy is made.
    ///
    /// # Errors
    /// [`NotSynced`] before the first list is complete, as for every read.
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, NotSynced> {
        self.check_synced()?;
        Ok(self.read().get(key).cloned())
    }

    /// All objects, ordered by key.
    pub fn list(&self) -> Result<Vec<Arc<K>>, NotSynced> {
        self.check_synced()?;
        let all = self.read().all();
        Ok(sorted(all))
    }

    /// The objects of a namespace, ordered by key. Costs its objects, not the store's.
    pub fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<K>>, NotSynced> {
        self.check_synced()?;
        let matches = self.read().in_namespace(namespace);
        Ok(sorted(matches))
    }

    /// The objects with an owner reference of that UID, ordered by key. Costs the matches.
    pub fn owned_by(&self, uid: &str) -> Result<Vec<Arc<K>>, NotSynced> {
        self.check_synced()?;
        let matches = self.read().owned_by(uid);
        Ok(sorted(matches))
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

    /// Read your writes: a write of this process succeeded and the object is now at `resource_version`.
    /// [`caught_up`](Self::caught_up) waits until the watch has delivered that or a later version (or
    /// a deletion), for at most 5 s. A later call for the same key replaces an earlier one.
    pub fn expect(&self, key: &ObjectKey, uid: &str, resource_version: &str) {
        let mut expectations = self.expectations();
        expectations.written(Instant::now(), key, uid, resource_version);
        // The watch may have delivered it before this call.
        if let Some(object) = self.read().get(key) {
            let meta = object.meta();
            expectations.saw(
                key,
                &meta.uid,
                &meta.resource_version,
                meta.is_terminating(),
            );
        }
    }

    /// As [`expect`](Self::expect), for a deletion: waits until the object is gone or terminating.
    pub fn expect_deleted(&self, key: &ObjectKey, uid: &str) {
        let mut expectations = self.expectations();
        let present = self
            .read()
            .get(key)
            .is_some_and(|object| object.meta().uid == uid && !object.meta().is_terminating());
        expectations.deleted(Instant::now(), key, uid, present);
    }

    /// Waits until the store shows this process's own last write of `key`, for at most 5 s. Returns
    /// whether it does; while not, what the store holds of `key` is known to be old. Returns at once
    /// for a key without, and for one that was waited for in vain. Cancel-safe.
    pub async fn caught_up(&self, key: &ObjectKey) -> bool {
        let mut met = self.inner.met.subscribe();
        loop {
            let Some(until) = self.expectations().pending(key) else {
                return true;
            };
            if until <= Instant::now() {
                self.give_up(key);
                return false;
            }
            tokio::select! {
                biased;
                // First, so that what others wait for does not hold it up.
                () = tokio::time::sleep_until(until) => {}
                // The sender lives in `self`.
                _ = met.changed() => {}
            }
        }
    }

    fn give_up(&self, key: &ObjectKey) {
        if self.expectations().give_up(key) {
            self.inner.timeouts.increment(1);
            tracing::warn!(
                kind = K::RESOURCE.kind, %key,
                "the watch did not show an own write in time"
            );
            self.inner.doubted.notify_waiters();
        }
    }

    /// Completes when the watch turns out to miss what happens: it did not show an own write.
    pub(super) async fn doubted(&self) {
        self.inner.doubted.notified().await;
    }

    /// Begins a list: what it does not apply or touch until [`sweep`](Self::sweep) is gone.
    pub(super) fn begin_list(&self) {
        self.write().begin_epoch();
    }

    /// Holds `object`, as a list or a watch gave it.
    pub(super) fn apply(&self, object: K) -> Upsert<K> {
        let new = Arc::new(object);
        let (key, upsert) = self.write().upsert(&new);
        let meta = new.meta();
        if let Upsert::Applied { old: None, .. } = upsert {
            self.inner.objects.increment(1.0);
        }
        self.meet(|e| {
            e.saw(
                &key,
                &meta.uid,
                &meta.resource_version,
                meta.is_terminating(),
            )
        });
        upsert
    }

    /// Keeps what the store holds under `key` in the current list, although its listed version can't
    /// be read.
    pub(super) fn touch(&self, key: &ObjectKey) {
        self.write().touch(key);
    }

    /// Removes the object of that key, and of that UID where one is given.
    pub(super) fn remove(&self, key: &ObjectKey, uid: Option<&str>) -> Option<Arc<K>> {
        let last = self.write().remove(key, uid)?;
        self.inner.objects.decrement(1.0);
        self.meet(|e| e.saw_deleted(key, &last.meta().uid));
        Some(last)
    }

    /// Ends a complete list: removes what it did not hold, one object at a time.
    pub(super) fn sweep(&self) -> Vec<Arc<K>> {
        let mut stale = self.read().stale();
        stale.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        stale
            .into_iter()
            .filter_map(|(key, object)| self.remove(&key, Some(&object.meta().uid)))
            .collect()
    }

    /// The store holds everything up to this resource version.
    pub(super) fn reached(&self, resource_version: &str) {
        self.meet(|e| e.reached(resource_version));
    }

    pub(super) fn mark_synced(&self) {
        self.inner.is_synced.store(true, Ordering::Release);
        self.inner.synced.send_replace(true);
    }

    /// Objects held, synced or not.
    pub(super) fn len(&self) -> usize {
        self.read().len()
    }

    fn meet(&self, change: impl FnOnce(&mut Expectations) -> bool) {
        if change(&mut self.expectations()) {
            self.inner.met.send_replace(());
        }
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

    fn expectations(&self) -> MutexGuard<'_, Expectations> {
        self.inner
            .expectations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sorted outside the lock, so that readers get the same order whatever the hash table's.
fn sorted<K: Kind>(mut objects: Vec<Arc<K>>) -> Vec<Arc<K>> {
    objects.sort_unstable_by(|a, b| {
        let (a, b) = (a.meta(), b.meta());
        (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
    });
    objects
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::{Thing, thing};
    use std::time::Duration;

    #[test]
    fn cr_3424_reading_before_the_first_list_is_an_error_not_an_empty_list() {
        let store = Store::<Thing>::new();
        store.apply(thing("ns", "a", "u1", 1));
        let key = ObjectKey::new("ns", "a");
        assert_eq!(store.get(&key).unwrap_err().kind, "things");
        assert!(store.list().is_err());
        assert!(store.in_namespace("ns").is_err());
        assert!(store.owned_by("o").is_err());
        store.mark_synced();
        assert!(store.get(&key).unwrap().is_some());
    }

    #[test]
    fn cr_1274_readers_share_one_object() {
        let store = Store::of([thing("ns", "a", "u1", 1)]);
        let key = ObjectKey::new("ns", "a");
        let (one, two) = (
            store.get(&key).unwrap().unwrap(),
            store.get(&key).unwrap().unwrap(),
        );
        assert!(Arc::ptr_eq(&one, &two));
    }

    #[tokio::test(start_paused = true)]
    async fn cr_1464_a_reconcile_sees_its_own_write_and_other_keys_do_not_wait() {
        let store = Store::<Thing>::of([]);
        let (a, b) = (ObjectKey::new("ns", "a"), ObjectKey::new("ns", "b"));
        store.expect(&a, "u1", "7");
        assert!(store.caught_up(&b).await);

        let begun = Instant::now();
        let late = store.clone();
        let deliver = async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            late.apply(thing("ns", "a", "u1", 7));
        };
        let (seen, ()) = tokio::join!(store.caught_up(&a), deliver);
        assert!(seen);
        assert_eq!(begun.elapsed(), Duration::from_millis(30));
        assert!(store.get(&a).unwrap().is_some());
        store.expect(&a, "u1", "7");
        assert!(store.caught_up(&a).await);
        assert_eq!(
            begun.elapsed(),
            Duration::from_millis(30),
            "seen before it was expected"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_the_watch_never_shows_is_waited_for_five_seconds() {
        let store = Store::<Thing>::of([thing("ns", "a", "u1", 1)]);
        let a = ObjectKey::new("ns", "a");
        let begun = Instant::now();
        store.expect_deleted(&a, "u1");
        let (seen, ()) = tokio::join!(store.caught_up(&a), store.doubted());
        assert!(!seen);
        assert_eq!(begun.elapsed(), Duration::from_secs(5));
        assert!(!store.caught_up(&a).await, "the store is still behind");
        assert_eq!(
            begun.elapsed(),
            Duration::from_secs(5),
            "and is not waited for again"
        );
        store.remove(&a, Some("u1"));
        assert!(store.caught_up(&a).await);
    }
}
