//! Read your writes: what a store is told of this process's own writes, and who waits for them.

use std::sync::{MutexGuard, PoisonError};

use tokio::time::Instant;

use super::Store;
use super::expect::Expectations;
use crate::runtime::{Kind, ObjectKey};

impl<K: Kind> Store<K> {
    /// Read your writes: a write of this process succeeded and the object is now at `resource_version`.
    /// [`caught_up`](Self::caught_up) waits until the watch has delivered that or a later version (or
    /// a deletion), for at most 5 s. A later call for the same key replaces an earlier one.
    pub fn expect(&self, key: &ObjectKey, uid: &str, resource_version: &str) {
        let mut expectations = self.expectations();
        expectations.written(Instant::now(), key, uid, resource_version);
        // The watch may have delivered it before this call.
        if let Some(object) = self.read().get(&key.namespace, &key.name) {
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
            .get(&key.namespace, &key.name)
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
    pub(in crate::runtime) async fn doubted(&self) {
        self.inner.doubted.notified().await;
    }

    pub(super) fn meet(&self, change: impl FnOnce(&mut Expectations) -> bool) {
        let mut expectations = self.expectations();
        if change(&mut expectations) {
            drop(expectations);
            self.inner.met.send_replace(());
        }
    }

    fn expectations(&self) -> MutexGuard<'_, Expectations> {
        self.inner
            .expectations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
