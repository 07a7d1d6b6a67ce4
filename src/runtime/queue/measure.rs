//! A queue's metrics, with client-go's names and meanings.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram};
use tokio::time::Instant;

use super::words::{Finish, Item};
use crate::runtime::metric;

pub(super) struct Measures {
    depth: Gauge,
    adds: Counter,
    queued: Histogram,
    worked: Histogram,
    retries: Counter,
    unfinished: Gauge,
    longest: Gauge,
    oldest: Gauge,
}

impl Measures {
    pub(super) fn new(name: &'static str) -> Self {
        Self {
            depth: metrics::gauge!(metric::WORKQUEUE_DEPTH, "name" => name),
            adds: metrics::counter!(metric::WORKQUEUE_ADDS, "name" => name),
            queued: metrics::histogram!(metric::WORKQUEUE_QUEUE_DURATION, "name" => name),
            worked: metrics::histogram!(metric::WORKQUEUE_WORK_DURATION, "name" => name),
            retries: metrics::counter!(metric::WORKQUEUE_RETRIES, "name" => name),
            unfinished: metrics::gauge!(metric::WORKQUEUE_UNFINISHED, "name" => name),
            longest: metrics::gauge!(metric::WORKQUEUE_LONGEST, "name" => name),
            oldest: metrics::gauge!(metric::WORKQUEUE_OLDEST, "name" => name),
        }
    }

    pub(super) fn taken(&self, item: &Item) {
        self.queued.record(item.waited.as_secs_f64());
    }

    pub(super) fn done(&self, finish: Finish, worked: Duration) {
        self.worked.record(worked.as_secs_f64());
        if matches!(finish, Finish::Failed | Finish::Conflict) {
            self.retries.increment(1);
        }
    }

    /// How many keys are ready, and how long the oldest of them has been.
    pub(super) fn waiting(&self, ready: usize, oldest: Duration) {
        self.depth.set(ready as f64);
        self.oldest.set(oldest.as_secs_f64());
    }

    /// How things stand at `now`: times that a key became ready, and since when each of those that
    /// run does. Like [`waiting`](Self::waiting) told when asked for, so that no add pays for it.
    pub(super) fn now(&self, now: Instant, adds: u64, since: impl Iterator<Item = Instant>) {
        self.adds.absolute(adds);
        let mut sum = Duration::ZERO;
        let mut longest = Duration::ZERO;
        for since in since {
            let ran = now.saturating_duration_since(since);
            sum += ran;
            longest = longest.max(ran);
        }
        self.unfinished.set(sum.as_secs_f64());
        self.longest.set(longest.as_secs_f64());
    }
}
