//! Who may lead, judged only by the local monotonic clock. Pure.
//!
//! Why two processes never may write at a time: a holder may write until *send* time of its last
//! successful renewal + duration − margin. Another takes the lease only once it has seen the record
//! unchanged for the whole duration of the holder, on its own clock, and only with the version that
//! it saw; so no renewal came between, and the last one was sent before that wait began. The margin
//! covers clocks that run at different speeds. No wall clock is read. Nobody waits for a holder whose
//! end is proven: a process that has ended sends nothing.

#[path = "succession.rs"]
mod succession;

use std::time::Duration;

use tokio::time::Instant;

use super::record::{Lease, Record};
use super::{ElectionOptions, Leadership};
use crate::client::Error;
use crate::client::Jitter;

/// Renewals and looks are spread over ± this part of their interval.
pub(super) const JITTER: f64 = 0.2;

/// A request to the API server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Request {
    Get,
    Create(Lease),
    /// With the version that was read, so that it fails if anyone wrote in between.
    Update(Lease),
}

impl Request {
    pub(super) fn verb(&self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::Create(_) => "create",
            Self::Update(_) => "update",
        }
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    options: ElectionOptions,
    margin: Duration,
    jitter: Jitter,
    /// The record that was seen last. It stays when the Lease is deleted: its holder may still write.
    seen: Option<Seen>,
    /// Whether there was an answer at all.
    answered: bool,
    /// Acquire time of our campaign. A record is ours if it names us *and* holds this: another
    /// process with our identity is somebody else.
    claim: Option<String>,
    /// Present while we lead.
    held: Option<Held>,
    /// Until when this process may write.
    fence: Option<Instant>,
    /// Whether the record must be read before we write.
    look: bool,
    /// Since when the Lease is known not to exist.
    missing: Option<Instant>,
    /// Transitions that were asked for.
    wanted: i32,
    /// When the next request is due.
    next: Instant,
}

#[derive(Debug)]
struct Seen {
    lease: Lease,
    /// When the record was last seen to change.
    changed: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Held {
    transitions: i32,
    /// Send time of the last successful renewal.
    sent: Instant,
}

impl Machine {
    pub(super) fn new(options: ElectionOptions, jitter: Jitter, now: Instant) -> Self {
        Self {
            // Half of what is between giving up and expiry; see `ElectionOptions::validate`.
            margin: options
                .lease_duration
                .saturating_sub(options.renew_deadline)
                / 2,
            options,
            jitter,
            seen: None,
            answered: false,
            claim: None,
            held: None,
            fence: None,
            look: true,
            missing: None,
            wanted: 0,
            next: now,
        }
    }

    /// What readers are told.
    pub(super) fn leadership(&self) -> Leadership {
        match (&self.held, &self.seen) {
            (Some(held), _) => Leadership::Leader {
                term: term(held.transitions),
            },
            (None, _) if !self.answered => Leadership::Unknown,
            (None, seen) => Leadership::Standby {
                holder: seen
                    .as_ref()
                    .filter(|_| self.missing.is_none())
                    .map_or_else(String::new, |seen| seen.lease.spec.holder().to_owned()),
            },
        }
    }

    /// Until when this process may write; `None` is not at all.
    pub(super) fn fence(&self) -> Option<Instant> {
        self.fence
    }

    /// When [`expire`](Self::expire) or [`request`](Self::request) has something to do next.
    pub(super) fn next_wake(&self) -> Instant {
        self.demote_at()
            .map_or(self.next, |demote| demote.min(self.next))
    }

    /// When leadership is given up for lack of a successful renewal.
    pub(super) fn demote_at(&self) -> Option<Instant> {
        self.held
            .map(|held| held.sent + self.options.renew_deadline)
    }

    /// Gives leadership up if its renew deadline is over. Writes in flight may end until the fence
    /// closes. The record may still be ours: a later renewal that succeeds leads again, in the same
    /// term.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.demote_at().is_some_and(|at| at <= now) {
            self.held = None;
        }
    }

    /// As the leader, asks for a term of at least this.
    pub(super) fn raise(&mut self, now: Instant, term: u64) {
        let transitions = i32::try_from(term.saturating_sub(1)).unwrap_or(i32::MAX);
        if let Some(held) = self.held
            && transitions > held.transitions.max(self.wanted)
        {
            self.wanted = transitions;
            self.next = now;
        }
    }

    /// The request that is due, if any. `wall` is the time to write into a record.
    pub(super) fn request(&mut self, now: Instant, wall: &str) -> Option<Request> {
        if now < self.next {
            return None;
        }
        if self.look {
            return Some(Request::Get);
        }
        let base = self.seen.as_ref().map(|seen| &seen.lease);
        let previous = base.map(|lease| &lease.spec);
        let transitions = match previous {
            // client-go: a fresh lease starts at 0.
            None => 0,
            Some(record) if self.is_ours(record) && self.missing.is_none() => {
                record.transitions().max(self.wanted)
            }
            Some(record) => record.transitions().saturating_add(1),
        };
        let claim = self.claim.get_or_insert_with(|| wall.to_owned()).clone();
        let fresh = || Lease::new(&self.options.namespace, &self.options.name);
        let mut lease = if self.missing.is_some() {
            fresh()
        } else {
            base.cloned().unwrap_or_else(fresh)
        };
        lease.spec = Record {
            holder_identity: Some(self.options.identity.clone()),
            // Whole seconds; see `ElectionOptions::validate`.
            lease_duration_seconds: i32::try_from(self.options.lease_duration.as_secs()).ok(),
            acquire_time: Some(claim),
            renew_time: Some(wall.to_owned()),
            lease_transitions: Some(transitions),
            ..lease.spec
        };
        if self.missing.is_some() || self.seen.is_none() {
            Some(Request::Create(lease))
        } else {
            Some(Request::Update(lease))
        }
    }

    /// The answer to the request that was sent at `sent`.
    pub(super) fn answer(
        &mut self,
        now: Instant,
        sent: Instant,
        request: &Request,
        answer: Result<Lease, Error>,
    ) {
        self.expire(now);
        match (request, answer) {
            (Request::Get, Ok(lease)) => self.saw(now, lease),
            (_, Ok(lease)) => self.wrote(now, sent, lease),
            (Request::Get | Request::Update(_), Err(error)) if error.is_not_found() => {
                self.saw_nothing(now);
            }
            (_, Err(Error::Conflict { .. } | Error::AlreadyExists { .. })) => {
                // Someone wrote: look who, at once, but not in a tight loop.
                self.look = true;
                self.next = now + self.jitter.around(self.options.renew_interval / 10, JITTER);
            }
            (_, Err(_)) => {
                // It may or may not have been carried out.
                self.look = true;
                self.next = self.later(now);
            }
        }
    }

    /// The record to write so that others need not wait for expiry, if the last one seen is ours.
    pub(super) fn release(&self, wall: &str) -> Option<Request> {
        let seen = self.seen.as_ref().filter(|_| self.missing.is_none())?;
        if !self.is_ours(&seen.lease.spec) {
            return None;
        }
        let mut lease = seen.lease.clone();
        // As client-go's `release`.
        lease.spec.holder_identity = Some(String::new());
        lease.spec.lease_duration_seconds = Some(1);
        lease.spec.acquire_time = Some(wall.to_owned());
        lease.spec.renew_time = Some(wall.to_owned());
        Some(Request::Update(lease))
    }

    /// Ends writing and leading now. Whether the lease may be ours, and so must be released.
    pub(super) fn stop(&mut self) -> bool {
        self.lose();
        self.claim.is_some()
    }

    fn saw(&mut self, now: Instant, lease: Lease) {
        let changed = self.observe(now, lease);
        let Some(seen) = &self.seen else { return };
        if self.is_ours(&seen.lease.spec) {
            self.look = false;
            self.next = now;
            return;
        }
        let holder = seen.lease.spec.holder();
        let free =
            holder.is_empty() || self.options.succeeds_itself && holder == self.options.identity;
        let expiry = self.expiry(seen);
        self.lose();
        if changed {
            // None of our writes on their way can land any more: they carry an older version.
            self.claim = None;
        }
        self.await_expiry(now, free, expiry);
    }

    /// There is no Lease. A process that never saw one makes it at once: the cluster is new. Else it
    /// was deleted, and who held it may still write: perhaps someone we never saw, so all wait as
    /// long as if they had just renewed. Only the holder itself does not: it stops writing here.
    fn saw_nothing(&mut self, now: Instant) {
        self.answered = true;
        let since = *self.missing.get_or_insert(now);
        let held = self.fence.is_some_and(|fence| now < fence);
        self.lose();
        let wait = match &self.seen {
            Some(seen) if !held => self.duration(seen).max(self.options.lease_duration),
            _ => Duration::ZERO,
        };
        self.await_expiry(now, false, since + wait);
    }

    fn await_expiry(&mut self, now: Instant, free: bool, expiry: Instant) {
        if free || expiry <= now {
            self.look = false;
            self.next = now;
        } else {
            self.look = true;
            self.next = self.later(now).min(expiry);
        }
    }

    /// We wrote the record, and the server has it.
    fn wrote(&mut self, now: Instant, sent: Instant, lease: Lease) {
        if !self.is_ours(&lease.spec) {
            // Not what was sent, whatever it is.
            self.saw(now, lease);
            return;
        }
        let transitions = lease.spec.transitions();
        self.observe(now, lease);
        self.look = false;
        self.fence = Some(sent + self.options.lease_duration - self.margin);
        self.held = Some(Held { transitions, sent });
        // The answer may have taken longer than the renew deadline.
        self.expire(now);
        self.next = if transitions < self.wanted {
            now
        } else {
            self.wanted = 0;
            // Counted from sending, so that slow answers do not stretch the rhythm.
            self.later(sent).max(now)
        };
    }

    /// Returns whether the record changed.
    fn observe(&mut self, now: Instant, lease: Lease) -> bool {
        self.answered = true;
        self.missing = None;
        match &mut self.seen {
            Some(seen) if seen.lease.spec == lease.spec => {
                seen.lease = lease;
                false
            }
            _ => {
                self.seen = Some(Seen {
                    lease,
                    changed: now,
                });
                true
            }
        }
    }

    fn lose(&mut self) {
        self.held = None;
        self.fence = None;
        self.wanted = 0;
    }

    fn is_ours(&self, record: &Record) -> bool {
        record.holder() == self.options.identity
            && self.claim.is_some()
            && record.acquire_time == self.claim
    }

    fn expiry(&self, seen: &Seen) -> Instant {
        seen.changed + self.duration(seen)
    }

    /// The holder's own duration.
    fn duration(&self, seen: &Seen) -> Duration {
        let seconds = seen.lease.spec.lease_duration_seconds;
        let seconds = seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds
            .filter(|s| *s > 0)
            .map_or(self.options.lease_duration, Duration::from_secs)
    }

    fn later(&mut self, now: Instant) -> Instant {
        now + self.jitter.around(self.options.renew_interval, JITTER)
    }
}

/// Terms count from 1, transitions from 0.
fn term(transitions: i32) -> u64 {
    u64::try_from(transitions).unwrap_or(0) + 1
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
