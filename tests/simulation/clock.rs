//! Wall clocks: each party's goes with the simulated time, and may be wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// When every simulation begins, by a clock that is right.
const BEGIN: i64 = 1_800_000_000;

/// One party's clock. Clones are the same.
#[derive(Clone)]
pub(crate) struct Clock {
    started: Instant,
    /// Milliseconds by which it is wrong.
    error: Arc<AtomicI64>,
}

impl Clock {
    /// One that is right, begun together with all others.
    pub(crate) fn new(started: Instant) -> Self {
        Self {
            started,
            error: Arc::default(),
        }
    }

    /// Sets it wrong by so many milliseconds.
    pub(crate) fn set_error(&self, millis: i64) {
        self.error.store(millis, Ordering::Relaxed);
    }

    /// What it shows.
    pub(crate) fn now(&self) -> Timestamp {
        let error = SignedDuration::from_millis(self.error.load(Ordering::Relaxed));
        let right = Timestamp::from_second(BEGIN).expect("a time of our own");
        right + self.started.elapsed() + error
    }

    /// As the parts under test take it.
    pub(crate) fn reader(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clone();
        Arc::new(move || clock.now())
    }
}

/// `duration` in seconds, for people.
pub(crate) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
