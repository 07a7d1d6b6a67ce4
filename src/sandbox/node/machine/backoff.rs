//! The wait before a container that keeps ending is started again. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// First and longest wait before a container that keeps ending is started again, and how long a run
/// must have lasted for that to be forgotten (pkg/kubelet/kubelet.go: `initialCrashLoopBackOff`,
/// `maxCrashLoopBackOff`, twice that).
const BACKOFF_INITIAL: Duration = Duration::from_secs(10);
const BACKOFF_CAP: Duration = Duration::from_mins(5);
const BACKOFF_RESET: Duration = Duration::from_mins(10);

/// The wait between runs that end.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    pub(super) delay: Duration,
    updated: Option<Instant>,
}

impl Backoff {
    /// Until when a container that ended at `ended` waits.
    pub(super) fn until(&self, ended: Instant) -> Instant {
        match self.updated {
            Some(updated) if ended.duration_since(updated) <= BACKOFF_RESET => ended + self.delay,
            _ => ended,
        }
    }

    /// It is started again.
    pub(super) fn restarted(&mut self, ended: Instant, now: Instant) {
        let forgotten = self
            .updated
            .is_none_or(|updated| ended.duration_since(updated) > BACKOFF_RESET);
        self.delay = if forgotten {
            BACKOFF_INITIAL
        } else {
            (self.delay * 2).min(BACKOFF_CAP)
        };
        self.updated = Some(now);
    }
}
