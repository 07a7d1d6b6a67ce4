//! What each worker is at, for the liveness check.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::runtime::ObjectKey;

/// A run is cut at its deadline; one that is still there so much later does not yield.
const STUCK_AFTER: Duration = Duration::from_secs(10);

pub(super) struct Slots {
    /// The key that each worker runs, and since when.
    slots: Mutex<Vec<Option<(ObjectKey, Instant)>>>,
}

impl Slots {
    pub(super) fn new(workers: usize) -> Self {
        Self {
            slots: Mutex::new(vec![None; workers]),
        }
    }

    pub(super) fn begin(&self, slot: usize, key: &ObjectKey, now: Instant) {
        self.lock()[slot] = Some((key.clone(), now));
    }

    pub(super) fn end(&self, slot: usize) {
        self.lock()[slot] = None;
    }

    /// The keys that run.
    pub(super) fn running(&self) -> Vec<String> {
        self.lock()
            .iter()
            .flatten()
            .map(|(key, _)| key.to_string())
            .collect()
    }

    /// The keys that run, and for how many seconds.
    pub(super) fn debug(&self, now: Instant) -> Value {
        let slots = self.lock();
        let running = slots.iter().flatten().map(|(key, since)| {
            let ran = now.saturating_duration_since(*since);
            json!({"key": key.to_string(), "seconds": ran.as_secs_f64()})
        });
        running.collect()
    }

    /// Fails when a run ignores its deadline, and names it.
    pub(super) fn check(&self, now: Instant, deadline: Duration) -> Result<String, String> {
        let slots = self.lock();
        let mut stuck = String::new();
        for (worker, slot) in slots.iter().enumerate() {
            let Some((key, since)) = slot else { continue };
            let ran = now.saturating_duration_since(*since);
            if ran > deadline + STUCK_AFTER {
                let separator = if stuck.is_empty() { "" } else { "; " };
                // Writing to a String can't fail.
                let _ = write!(
                    stuck,
                    "{separator}worker {worker} is stuck at {key} for {ran:.0?}"
                );
            }
        }
        if stuck.is_empty() {
            let busy = slots.iter().flatten().count();
            Ok(format!("{busy} of {} busy", slots.len()))
        } else {
            Err(stuck)
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<(ObjectKey, Instant)>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cr_798_a_run_that_ignores_its_deadline_is_named() {
        let slots = Slots::new(2);
        let (now, deadline) = (Instant::now(), Duration::from_mins(1));
        slots.begin(1, &ObjectKey::new("ns", "a"), now);
        assert_eq!(
            slots.check(now + deadline, deadline),
            Ok("1 of 2 busy".to_owned())
        );
        assert_eq!(
            slots.check(now + Duration::from_secs(71), deadline),
            Err("worker 1 is stuck at ns/a for 71s".to_owned())
        );
        slots.end(1);
        assert!(slots.check(now + Duration::from_secs(71), deadline).is_ok());
    }
}
