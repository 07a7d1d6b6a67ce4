//! The backoff of one failing key. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::words::Priority;
use crate::client::Jitter;
use crate::runtime::backoff::Backoff;

/// First and longest backoff of a key: client-go's `DefaultTypedControllerRateLimiter` (5 ms to
/// 1000 s, here 16 min), with full jitter.
pub(in crate::runtime) const BACKOFF_INITIAL: Duration = Duration::from_millis(5);
pub(in crate::runtime) const BACKOFF_CAP: Duration = Duration::from_mins(16);

/// A failed key may run before its backoff is over when something about it changed, but not sooner
/// than this (or the backoff, if that is shorter): a stream of changes must not make it spin.
pub(super) const HOLD_LIMIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Retry {
    backoff: Backoff,
    /// This step's longest delay; what is waited is drawn from zero to it.
    ceiling: Duration,
    failures: u32,
    /// When the first run of those failed that none has succeeded after.
    since: Option<Instant>,
    /// Who started before this did not wait for the backoff.
    until: Option<Instant>,
    hold: Option<Instant>,
}

impl Retry {
    /// A key that has not failed yet; its backoff will go from `initial` to `cap`.
    pub(super) fn new((initial, cap): (Duration, Duration)) -> Self {
        Self {
            backoff: Backoff::new(initial, cap),
            ceiling: initial,
            failures: 0,
            since: None,
            until: None,
            hold: None,
        }
    }

    /// A run that started at `started` failed at `now`. The failure count (and so the delay) rises
    /// only if the run had waited for its backoff: a run that a change triggered early says nothing
    /// about how long the fault lasts (kubernetes#132805).
    pub(super) fn failed(&mut self, started: Instant, now: Instant, jitter: &mut Jitter) {
        self.since.get_or_insert(now);
        let early = self.until.is_some_and(|until| started < until);
        if !early {
            self.failures = self.failures.saturating_add(1);
            self.ceiling = self.backoff.step();
        }
        let until = match self.until {
            Some(until) if early && until > now => until,
            _ => now + jitter.full(self.ceiling),
        };
        self.until = Some(until);
        self.hold = Some(until.min(now + HOLD_LIMIT));
    }

    /// Since when all runs have failed.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// When the backoff is over.
    pub(super) fn until(&self) -> Instant {
        self.until
            .expect("failed() is called before a retry is planned")
    }

    /// Until when the key is held against changes.
    pub(super) fn hold(&self) -> Instant {
        self.hold
            .expect("failed() is called before a retry is planned")
    }

    #[cfg(test)]
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

/// When a key that is asked for at `at` may run: one that failed is held, unless it is urgent.
pub(super) fn held(retry: Option<&Retry>, at: Instant, priority: Priority) -> Instant {
    match retry {
        Some(retry) if priority < Priority::High => at.max(retry.hold()),
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_doubles_with_full_jitter_up_to_the_cap() {
        let mut jitter = Jitter::seeded(1);
        let mut retry = Retry::new((BACKOFF_INITIAL, BACKOFF_CAP));
        let mut now = Instant::now();
        let mut ceiling = BACKOFF_INITIAL;
        for _ in 0..40 {
            retry.failed(now, now, &mut jitter);
            assert!(retry.until() - now <= ceiling);
            assert!(retry.hold() - now <= HOLD_LIMIT && retry.hold() <= retry.until());
            now = retry.until();
            ceiling = (ceiling * 2).min(BACKOFF_CAP);
        }
        assert_eq!(retry.failures(), 40);
        assert_eq!(retry.ceiling, BACKOFF_CAP);
    }

    #[test]
    fn an_early_run_keeps_the_count_and_the_backoff_that_is_left() {
        let mut jitter = Jitter::seeded(1);
        let mut retry = Retry::new((BACKOFF_INITIAL, BACKOFF_CAP));
        let mut now = Instant::now();
        while retry.failures < 15 {
            retry.failed(now, now, &mut jitter);
            now = retry.until();
        }
        let started = now;
        retry.failed(started, started, &mut jitter);
        let until = retry.until();
        let early = started + (until - started) / 2;
        retry.failed(early, early, &mut jitter);
        assert_eq!((retry.failures(), retry.until()), (16, until));
        // It ran past the end of the backoff: a new one at the same step.
        retry.failed(early, until, &mut jitter);
        assert_eq!(retry.failures(), 16);
        assert!(retry.until() >= until && retry.until() - until <= retry.ceiling);
    }
}
