//! What the queue says of itself.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Core, Hashes, Pause};
use crate::runtime::ObjectKey;
use crate::runtime::queue::words::Left;

/// So many failing keys are named.
const NAMED: usize = 20;

impl Core {
    /// Since when every run of a key has failed.
    pub(in crate::runtime::queue) fn failing_since(
        &self,
        key: &ObjectKey,
        hashes: Hashes,
    ) -> Option<Instant> {
        let id = self.entries.find(key, hashes)?;
        self.entries[id].retry.as_ref()?.since()
    }

    /// What is not done.
    pub(in crate::runtime::queue) fn left(&self) -> Left {
        Left {
            running: self.busy,
            queued: self.ready.len(),
        }
    }

    /// How things stand, for people: what is paused and why, how many keys are where, when the next
    /// waiting one is due, and keys whose last run failed, the longest ones first. Costs a look at
    /// every key.
    pub(in crate::runtime::queue) fn debug(&self, now: Instant) -> Value {
        let since = |at: Instant| now.saturating_duration_since(at).as_secs_f64();
        let failing = self
            .entries
            .all()
            .filter_map(|entry| Some((entry.retry.as_ref()?.since()?, &entry.key)));
        let mut failing: Vec<_> = failing.collect();
        failing.sort_unstable();
        let named = failing.iter().take(NAMED);
        let named: Vec<_> = named
            .map(|(at, key)| json!({"key": key.to_string(), "seconds": since(*at)}))
            .collect();
        let next = self.next_due();
        let next = next.map(|at| at.saturating_duration_since(now).as_secs_f64());
        json!({
            "draining": self.draining,
            "pausedAsStandby": self.paused[Pause::Standby as usize],
            "pausedByBreaker": self.paused[Pause::Breaker as usize],
            "ready": self.ready.len(),
            "waiting": self.waiting.len(),
            "nextDueInSeconds": next,
            "failing": failing.len(),
            "failingLongest": named,
        })
    }
}
