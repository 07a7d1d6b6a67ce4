//! The work queue: keyed, deduplicating, in memory.
//!
//! It promises that a key is never on two workers; that a key added while it runs runs exactly once
//! more; that nothing added is lost and no delay ends early; that a failing key backs off without
//! holding up others; and that adding never blocks.
//!
//! The rules are in `core.rs`, pure; this file gives them a lock, a clock, wake-ups and metrics. What
//! needs no lock (the clock, the hash of a key, a wake-up) is done before or after it.

#[cfg(test)]
mod alone;
mod core;
mod entries;
mod idle;
mod linked;
mod measure;
#[cfg(test)]
mod model;
#[cfg(test)]
mod ops;
mod ready;
mod retry;
#[cfg(test)]
mod window_tests;
mod words;

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use self::core::Core;
pub(super) use self::retry::{BACKOFF_CAP, BACKOFF_INITIAL};
pub(super) use self::words::Left;
pub use self::words::{Finish, Item, Pause, Priority};
use super::object::ObjectKey;
use crate::client::Environment;
use entries::Hashing;
use idle::Idle;
use measure::Measures;

/// A work queue. Clones share it.
#[derive(Clone)]
pub struct Queue {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    hashing: Hashing,
    /// Wakes the timer: something is due earlier than it was told.
    timer: Notify,
    measures: Measures,
}

struct State {
    core: Core,
    idle: Idle,
    /// Until when the timer sleeps, as far as it was told.
    told: Option<Instant>,
    /// Times that a key became ready.
    adds: u64,
}

/// Who must know of a change, once the lock is given back.
#[must_use]
struct Calls {
    worker: Option<Waker>,
    timer: bool,
}

impl State {
    /// Makes ready what is due; whether anything was.
    fn promote(&mut self, now: Instant) -> bool {
        let promoted = self.core.promote(now);
        self.adds += promoted as u64;
        promoted > 0
    }

    /// Whom the state as it is now concerns.
    fn calls(&mut self) -> Calls {
        let ready = if self.core.is_open() {
            self.core.ready()
        } else {
            0
        };
        let due = self.core.next_due();
        let timer = due.is_some_and(|due| self.told.is_none_or(|told| due < told));
        if timer {
            self.told = due;
        }
        Calls {
            worker: self.idle.wake(ready),
            timer,
        }
    }
}

impl Queue {
    /// An empty queue. `name` labels its metrics; chance for its backoff is `environment`'s.
    #[must_use]
    pub fn new(name: &'static str, environment: &Environment) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: Mutex::new(State {
                    core: Core::new(environment.jitter()),
                    idle: Idle::default(),
                    told: None,
                    adds: 0,
                }),
                hashing: Hashing::default(),
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
    /// a further failure if it fails too. A key that ran just now may have a window open, see
    /// [`ControllerOptions::window`](super::ControllerOptions::window).
    pub fn add(&self, key: ObjectKey, priority: Priority) {
        let hashes = self.shared.hashing.of(&key);
        self.change(|core, now| core.add(now, key, hashes, priority));
    }

    /// Asks for a run of `key` in `delay`. Of several times asked for the earliest wins, and an
    /// [`add`](Self::add) before it makes the key ready now, without a second run later.
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        let hashes = self.shared.hashing.of(&key);
        self.change(|core, now| core.add_after(now, key, hashes, delay));
    }

    /// Forgets a key that is ready or waits for its time, as if nobody had asked for it; one that runs
    /// stays. For a queue that hands out nothing for long, and a key that nothing is to be done for.
    pub fn discard(&self, key: &ObjectKey) {
        let hashes = self.shared.hashing.of(key);
        self.lock().core.discard(key, hashes);
    }

    /// The keys that are ready or wait for their time, in no order. Costs a look at every key.
    #[must_use]
    pub fn asked(&self) -> Vec<ObjectKey> {
        self.lock().core.asked().cloned().collect()
    }

    /// Keys that are ready for a worker; those that wait for their time or run are not counted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().core.ready()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How long after the start of a key's run its next one for a change may start.
    pub(super) fn set_window(&self, window: Duration) {
        self.lock().core.set_window(window);
    }

    /// First and longest backoff of keys that fail.
    pub(super) fn set_backoff(&self, initial: Duration, longest: Duration) {
        self.lock().core.set_backoff((initial, longest));
    }

    /// Hands out no key until [`resume`](Self::resume) for the same reason. Keys go on coalescing, and
    /// runs in progress go on.
    pub fn pause(&self, why: Pause) {
        self.lock().core.pause(Instant::now(), why, true);
    }

    /// Ends a [`pause`](Self::pause); one for another reason goes on.
    pub fn resume(&self, why: Pause) {
        self.lock().core.pause(Instant::now(), why, false);
        self.rouse();
    }

    /// The next key for a worker; `None` once the queue drains. Cancel-safe: a key is taken only
    /// when it is returned. Whoever takes it gives it back with [`done`](Self::done).
    ///
    /// A [`Controller`](super::Controller) does both; this is for workers of another shape.
    pub async fn next(&self) -> Option<Item> {
        let mut looking = Looking {
            queue: self,
            ticket: None,
        };
        poll_fn(|context| looking.poll(context)).await
    }

    /// Gives a key back that [`next`](Self::next) handed out, after it was `worked` on. Returns after
    /// how long it is ready again, if at all. Without a [`Controller`](super::Controller) nobody
    /// wakes [`next`](Self::next) for keys that wait for their time.
    pub fn done(&self, key: &ObjectKey, finish: Finish, worked: Duration) -> Option<Duration> {
        let hashes = self.shared.hashing.of(key);
        let (again, calls) = {
            let mut state = self.lock();
            let again = state.core.done(Instant::now, key, hashes, finish);
            state.adds += u64::from(again == Some(Duration::ZERO));
            (again, state.calls())
        };
        self.call(calls);
        self.shared.measures.done(finish, worked);
        again
    }

    /// How long every run of `key` has failed, if the last one did.
    pub(super) fn failing_for(&self, key: &ObjectKey) -> Option<Duration> {
        let hashes = self.shared.hashing.of(key);
        let since = self.lock().core.failing_since(key, hashes)?;
        Some(Instant::now().saturating_duration_since(since))
    }

    /// Hands out no key any more: every [`next`](Self::next) returns `None`.
    pub(super) fn drain(&self) {
        let everybody = {
            let mut state = self.lock();
            state.core.drain();
            state.idle.wake_all()
        };
        everybody.into_iter().for_each(Waker::wake);
    }

    /// How it stands, for people.
    pub(super) fn debug(&self) -> Value {
        self.lock().core.debug(Instant::now())
    }

    /// What is not done.
    pub(super) fn left(&self) -> Left {
        self.lock().core.left()
    }

    /// Wakes workers for keys whose time came. The queue's one timer: whoever serves the queue runs
    /// it. Never ends; cancel-safe.
    pub(super) async fn drive_timer(&self) {
        loop {
            let changed = self.shared.timer.notified();
            let due = {
                let mut state = self.lock();
                state.told = state.core.next_due();
                state.told
            };
            match due {
                None => changed.await,
                Some(due) => tokio::select! {
                    biased;
                    () = sleep_until(due) => {
                        let promoted = self.lock().promote(Instant::now());
                        if promoted {
                            self.rouse();
                        }
                    }
                    () = changed => {}
                },
            }
        }
    }

    /// Sets the metrics that are not counted as they happen; run before metrics are rendered. A
    /// [`Controller`](super::Controller) with health does so.
    pub(super) fn measure(&self) {
        let now = Instant::now();
        let state = self.lock();
        let (ready, running) = (state.core.ready(), state.core.running_since());
        let (entries, keys) = state.core.parts();
        let waits = keys.longest(entries).filter(|_| state.core.is_open());
        let oldest = waits.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        self.shared.measures.waiting(ready, oldest);
        self.shared.measures.now(now, state.adds, running);
    }

    /// Runs an operation, which says whether it made a key ready, and tells who must know.
    fn change(&self, operation: impl FnOnce(&mut Core, Instant) -> bool) {
        let now = Instant::now();
        let calls = {
            let mut state = self.lock();
            let ready = operation(&mut state.core, now);
            state.adds += u64::from(ready);
            state.calls()
        };
        self.call(calls);
    }

    fn call(&self, calls: Calls) {
        if let Some(worker) = calls.worker {
            worker.wake();
        }
        if calls.timer {
            self.shared.timer.notify_one();
        }
    }

    /// Wakes as many workers as keys are ready.
    fn rouse(&self) {
        loop {
            let calls = self.lock().calls();
            if calls.worker.is_none() && !calls.timer {
                return;
            }
            self.call(calls);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// A worker that looks for a key.
struct Looking<'a> {
    queue: &'a Queue,
    /// While it waits.
    ticket: Option<u64>,
}

impl Looking<'_> {
    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<Item>> {
        let now = Instant::now();
        let (item, calls, _left) = {
            let mut state = self.queue.lock();
            let left = self
                .ticket
                .take()
                .and_then(|ticket| state.idle.leave(ticket));
            if state.core.is_draining() {
                drop(state);
                return Poll::Ready(None);
            }
            state.promote(now);
            let item = state.core.take(now);
            if item.is_none() {
                self.ticket = Some(state.idle.park(context.waker()));
            }
            // What is left is for others.
            (item, state.calls(), left)
        };
        self.queue.call(calls);
        let Some(item) = item else {
            return Poll::Pending;
        };
        self.queue.shared.measures.taken(&item);
        Poll::Ready(Some(item))
    }
}

impl Drop for Looking<'_> {
    /// Given up: the key that it was woken for is for another.
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            let (calls, _left) = {
                let mut state = self.queue.lock();
                let left = state.idle.leave(ticket);
                (state.calls(), left)
            };
            self.queue.call(calls);
        }
    }
}

#[cfg(test)]
mod tests;
