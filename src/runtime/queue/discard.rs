//! What the queue holds, and what it need not hold any more.

use super::{Core, Hashes, Place};
use crate::runtime::ObjectKey;

impl Core {
    /// Forgets a key that is ready or waits, with its backoff, as if it had never been asked for.
    /// Returns whether it did; one that runs, or whose window is open, stays.
    pub(in crate::runtime::queue) fn discard(&mut self, key: &ObjectKey, hashes: Hashes) -> bool {
        let Some(id) = self.entries.find(key, hashes) else {
            return false;
        };
        match self.entries[id].place {
            Place::Ready { .. } => self.ready.remove(&mut self.entries, id),
            Place::Waiting { at, ticket } => {
                self.waiting.remove(&(at, ticket));
            }
            Place::Idle | Place::Resting { .. } | Place::Running { .. } => return false,
        }
        self.drop_entry(id);
        true
    }

    /// The keys that are ready or wait, in no order.
    pub(in crate::runtime::queue) fn asked(&self) -> impl Iterator<Item = &ObjectKey> {
        let asked = |place| matches!(place, Place::Ready { .. } | Place::Waiting { .. });
        let entries = self.entries.all();
        entries
            .filter(move |entry| asked(entry.place))
            .map(|entry| &entry.key)
    }
}
