//! The core for tests, which have no lock to hash before.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::entries::{Entry, Hashing};
use super::{Finish, Priority};
use crate::client::Jitter;
use crate::runtime::ObjectKey;

pub(super) struct Alone {
    core: Core,
    hashing: Hashing,
}

impl Alone {
    pub(super) fn new(jitter: Jitter) -> Self {
        Self {
            core: Core::new(jitter),
            hashing: Hashing::default(),
        }
    }

    pub(super) fn add(&mut self, now: Instant, key: ObjectKey, priority: Priority) -> bool {
        let hashes = self.hashing.of(&key);
        self.core.add(now, key, hashes, priority)
    }

    pub(super) fn add_after(&mut self, now: Instant, key: ObjectKey, delay: Duration) -> bool {
        let hashes = self.hashing.of(&key);
        self.core.add_after(now, key, hashes, delay)
    }

    pub(super) fn done(
        &mut self,
        now: Instant,
        key: &ObjectKey,
        finish: Finish,
    ) -> Option<Duration> {
        self.core.done(|| now, key, self.hashing.of(key), finish)
    }

    pub(super) fn discard(&mut self, key: &ObjectKey) -> bool {
        self.core.discard(key, self.hashing.of(key))
    }

    /// Whether nothing is remembered of any key.
    pub(super) fn is_empty(&self) -> bool {
        let (entries, ready) = self.core.parts();
        entries.len() == 0 && ready.namespaces() == 0
    }

    fn entry(&self, key: &ObjectKey) -> Option<&Entry> {
        let (entries, _) = self.core.parts();
        Some(&entries[entries.find(key, self.hashing.of(key))?])
    }

    /// End of a failed key's backoff.
    pub(super) fn until(&self, key: &ObjectKey) -> Option<Instant> {
        let retry = self.entry(key)?.retry.as_ref();
        retry.map(|retry| retry.until())
    }

    /// Failed runs of a key that count: those after an elapsed backoff.
    pub(super) fn failures(&self, key: &ObjectKey) -> u32 {
        let retry = self.entry(key).and_then(|entry| entry.retry.as_ref());
        retry.map_or(0, |retry| retry.failures())
    }
}

impl Deref for Alone {
    type Target = Core;

    fn deref(&self) -> &Core {
        &self.core
    }
}

impl DerefMut for Alone {
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.core
    }
}
