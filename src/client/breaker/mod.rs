//! The circuit breaker: while the API server is down or overloaded, it is left alone.
//!
//! It counts only signs of overload or outage (no connection, no answer in time, 429, 5xx), never
//! what a server that is well refuses. Open, it refuses calls at once; after a pause it lets one out
//! to try, then 2, 4, 8 …, so that a recovery is no stampede. The election lane is not behind it: an
//! answer there after silence ends a pause.

pub(super) mod judge;
mod machine;

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

pub(super) use machine::Verdict;
use machine::{Admission, Machine};
pub use machine::{BreakerLimits, BreakerState};

use super::telemetry;
use crate::sync::watch;

/// The breaker of one lane.
pub(super) struct Breaker {
    machine: Mutex<Machine>,
    /// Lengthens a pause by chance.
    stretch: Box<dyn Fn(Duration) -> Duration + Send + Sync>,
    /// Told when a place of the ramp may be free.
    freed: Notify,
    published: watch::Sender<Published>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Published {
    state: BreakerState,
    /// While open: until when.
    until: Option<Instant>,
}

impl Published {
    fn at(self, now: Instant) -> BreakerState {
        match self.until {
            Some(until) if until <= now => BreakerState::HalfOpen,
            _ => self.state,
        }
    }
}

/// Leave to send one request, until it is dropped.
pub(super) struct Permit<'a> {
    breaker: &'a Breaker,
    epoch: u64,
    verdict: Verdict,
}

/// Nothing is sent: the breaker is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open;

impl Breaker {
    /// Closed. `stretch` lengthens a pause by chance.
    pub(super) fn new(
        limits: BreakerLimits,
        stretch: impl Fn(Duration) -> Duration + Send + Sync + 'static,
    ) -> Self {
        let state = BreakerState::Closed;
        telemetry::breaker_begun(state);
        Self {
            machine: Mutex::new(Machine::new(Instant::now(), limits)),
            stretch: Box::new(stretch),
            freed: Notify::new(),
            published: watch::Sender::new(Published { state, until: None }),
        }
    }

    /// Leave to send, at once or, while it is half-open, when it is this call's turn.
    ///
    /// # Errors
    /// [`Open`]: not now.
    pub(super) async fn admit(&self) -> Result<Permit<'_>, Open> {
        loop {
            // Made before the look, so that a place that gets free after it is not missed.
            let freed = self.freed.notified();
            match self.with(Machine::admit) {
                Admission::Go(epoch) => {
                    return Ok(Permit {
                        breaker: self,
                        epoch,
                        verdict: Verdict::Unknown,
                    });
                }
                Admission::Refused(_) => return Err(Open),
                Admission::Full => freed.await,
            }
        }
    }

    /// A request that was sent had no answer by its deadline.
    pub(super) fn timed_out(&self) {
        self.with(|machine, now| machine.timed_out(now, &self.stretch));
    }

    /// The election lane had an answer; `again`: the first one after silence.
    pub(super) fn heard(&self, again: bool) {
        self.with(|machine, now| machine.heard(now, again));
        self.freed.notify_waiters();
    }

    /// Its state, to look at and to wait for.
    pub(super) fn watch(&self) -> BreakerWatch {
        BreakerWatch {
            published: self.published.subscribe(),
        }
    }

    fn ended(&self, epoch: u64, verdict: Verdict) {
        self.with(|machine, now| machine.ended(now, epoch, verdict, &self.stretch));
        self.freed.notify_waiters();
    }

    /// Does something to the machine, and tells of the transition if that was one.
    fn with<T>(&self, act: impl FnOnce(&mut Machine, Instant) -> T) -> T {
        let now = Instant::now();
        let mut machine = self.lock();
        let done = act(&mut machine, now);
        let next = Published {
            state: machine.state(now),
            until: machine.open_until(now),
        };
        // Under the machine's lock, so that transitions are told in their order.
        let before = *self.published.borrow();
        if before != next {
            self.published.send_replace(next);
            if before.state != next.state {
                tell(before.state, next, now);
            }
        }
        done
    }

    fn lock(&self) -> MutexGuard<'_, Machine> {
        // The machine is whole after each operation, whoever panicked.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit<'_> {
    /// What the call says about the server. Without this it says nothing.
    pub(super) fn judge(&mut self, verdict: Verdict) {
        self.verdict = verdict;
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.breaker.ended(self.epoch, self.verdict);
    }
}

/// One line and one count a transition.
fn tell(before: BreakerState, next: Published, now: Instant) {
    telemetry::breaker_state(next.state);
    telemetry::breaker_transition(next.state);
    let (from, to) = (before.as_str(), next.state.as_str());
    if let Some(until) = next.until {
        let pause = until.saturating_duration_since(now);
        tracing::warn!(
            from,
            to,
            ?pause,
            "circuit breaker: the API server is left alone"
        );
    } else {
        tracing::info!(from, to, "circuit breaker");
    }
}

/// Reading side of the breaker, cheap to clone.
#[derive(Clone, Debug)]
pub struct BreakerWatch {
    published: watch::Receiver<Published>,
}

impl fmt::Display for BreakerWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.current().as_str();
        match self.pause() {
            Some(pause) => write!(f, "{state}, tries again in {:.1} s", pause.as_secs_f64()),
            None => f.write_str(state),
        }
    }
}

impl BreakerWatch {
    /// Its state now. Once its pause is over it is half-open, whether or not a call has tried yet.
    #[must_use]
    pub fn current(&self) -> BreakerState {
        self.published.borrow().at(Instant::now())
    }

    /// While open: how long it stays so.
    #[must_use]
    pub fn pause(&self) -> Option<Duration> {
        let until = self.published.borrow().until?;
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Waits until it is not open: whoever then sends is a probe. Cancel-safe.
    pub async fn not_open(&mut self) {
        self.changed_from(BreakerState::Open).await;
    }

    /// Waits until it closes, which it can only when it was not. Cancel-safe.
    pub async fn closes(&mut self) {
        let mut state = self.changed_from(BreakerState::Closed).await;
        while state != BreakerState::Closed {
            state = self.changed_from(state).await;
        }
    }

    /// Waits until it is another than `seen`, and tells which. Cancel-safe.
    pub async fn changed_from(&mut self, seen: BreakerState) -> BreakerState {
        loop {
            let published = *self.published.borrow_and_update();
            let state = published.at(Instant::now());
            if state != seen {
                return state;
            }
            let pause_ends = async {
                match published.until {
                    Some(until) if state == BreakerState::Open => {
                        tokio::time::sleep_until(until).await;
                    }
                    _ => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = self.published.changed() => if changed.is_err() {
                    // The client is gone: nothing changes any more but by time.
                    std::future::pending::<()>().await;
                },
                () = pause_ends => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
