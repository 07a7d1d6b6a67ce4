//! The work queue: keyed, deduplicating, in memory.
//!
//! It promises that a key is never on two workers; that a key added while it runs runs exactly once
//! more; that nothing added is lost and no delay ends early; that a failing key backs off without
//! holding up others; and that adding never blocks.
//!
//! The rules are in `core.rs`, pure; this file gives them a lock, a clock, wake-ups and metrics.

mod core;
mod measure;
#[cfg(test)]
mod model;
mod ready;
mod retry;
mod words;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::core::Core;
pub(super) use self::words::Left;
pub use self::words::{Finish, Item, Pause, Priority};
use super::object::ObjectKey;
use crate::client::Environment;
use measure::Measures;

/// A work queue. Clones share it.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    core: Mutex<Core>,
    /// Wakes a worker: something is ready, or the queue drains.
    work: Notify,
    /// Wakes the timer: something is due earlier than it thinks.
    timer: Notify,
    measures: Measures,
}

impl Queue {
    /// An empty queue. `name` labels its metrics; chance for its backoff is `environment`'s.
    #[must_use]
    pub fn new(name: &'static str, environment: &Environment) -> Self {
        Self {
            shared: Arc::new(Shared {
                core: Mutex::new(Core::new(environment.jitter())),
                work: Notify::new(),
                timer: Notify::new(),
                measures: Measures::new(name),
            }),
        }
    }

    /// Asks for a run of `key` as soon as may be. Many asks before it runs are one run; asks while
    /// it runs are one more run.
    ///
    /// A key that failed and is backing off runs at once with [`Priority::High`], else once it was
    /// held for the backoff or one second, whichever is shorter. Such an early run does not count as
    /// a further failure if it fails too.
    pub fn add(&self, key: ObjectKey, priority: Priority) {
        self.change(|core, now| core.add(now, key, priority));
    }

    /// Asks for a run of `key` in `delay`. Of several times asked for the earliest wins, and an
    /// [`add`](Self::add) before it makes the key ready now, without a second run later.
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        self.change(|core, now| core.add_after(now, key, delay));
    }

    /// Keys that are ready for a worker; those that wait for their time or run are not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().ready()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands out no key until [`resume`](Self::resume) for the same reason. Keys go on coalescing, and
    /// runs in progress go on.
    pub fn pause(&self, why: Pause) {
        self.lock().pause(why, true);
    }

    /// Ends a [`pause`](Self::pause); one for another reason goes on.
    pub fn resume(&self, why: Pause) {
        self.lock().pause(why, false);
        self.shared.work.notify_one();
    }

    /// The next key for a worker; `None` once the queue drains. Cancel-safe: a key is taken only
    /// when it is returned. Whoever takes it gives it back with [`done`](Self::done).
    ///
    /// A [`Controller`](super::Controller) does both; this is for workers of another shape.
    pub async fn next(&self) -> Option<Item> {
        loop {
            // Made before the look, so that a drain after it is not missed.
            let work = self.shared.work.notified();
            {
                let mut core = self.lock();
                if core.is_draining() {
                    return None;
                }
                let now = Instant::now();
                self.shared.measures.added(core.promote(now));
                if let Some(item) = core.take(now) {
                    self.shared.measures.taken(&item, core.ready());
                    // One wake-up may stand for many keys: pass it on while some are left.
                    if core.ready() > 0 {
                        self.shared.work.notify_one();
                    }
                    return Some(item);
                }
            }
            work.await;
        }
    }

    /// Gives a key back that [`next`](Self::next) handed out, after it was `worked` on. Returns after
    /// how long it is ready again, if at all. Without a [`Controller`](super::Controller) nobody
    /// wakes [`next`](Self::next) for keys that wait for their time.
    pub fn done(&self, key: &ObjectKey, finish: Finish, worked: Duration) -> Option<Duration> {
        let mut again = None;
        self.change(|core, now| {
            again = core.done(now, key, finish);
            again == Some(Duration::ZERO)
        });
        self.shared.measures.done(finish, worked);
        again
    }

    /// Hands out no key any more: every [`next`](Self::next) returns `None`.
    pub(super) fn drain(&self) {
        self.lock().drain();
        self.shared.work.notify_waiters();
    }

    /// What is not done.
    pub(super) fn left(&self) -> Left {
        self.lock().left()
    }

    /// Wakes workers for keys whose time came. The queue's one timer: whoever serves the queue runs
    /// it. Never ends; cancel-safe.
    pub(super) async fn drive_timer(&self) {
        loop {
            let changed = self.shared.timer.notified();
            let due = self.lock().next_due();
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    biased;
                    () = sleep_until(due) => {
                        let ready = {
                            let mut core = self.lock();
                            let promoted = core.promote(Instant::now());
                            self.shared.measures.added(promoted);
                            self.shared.measures.depth(core.ready());
                            promoted > 0
                        };
                        if ready {
                            self.shared.work.notify_one();
                        }
                    }
                    () = changed => {}
                },
            }
        }
    }

    /// Sets the gauges that grow by time alone; run before metrics are rendered.
    pub(super) fn measure(&self) {
        let now = Instant::now();
        let core = self.lock();
        self.shared.measures.running(now, core.running_since());
    }

    /// Runs an operation, which says whether it made a key ready, and wakes who must know.
    fn change(&self, operation: impl FnOnce(&mut Core, Instant) -> bool) {
        let (ready, sooner) = {
            let mut core = self.lock();
            let before = core.next_due();
            let ready = operation(&mut core, Instant::now());
            self.shared.measures.added(usize::from(ready));
            self.shared.measures.depth(core.ready());
            let sooner = match (before, core.next_due()) {
                (_, None) => false,
                (None, Some(_)) => true,
                (Some(before), Some(after)) => after < before,
            };
            (ready, sooner)
        };
        if ready {
            self.shared.work.notify_one();
        }
        if sooner {
            self.shared.timer.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.shared
            .core
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
