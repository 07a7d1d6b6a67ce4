//! The token bucket, its queue and its rate, as a state machine: every operation is told what time it
//! is.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Whoever waited this long goes before higher priorities, so that none starves.
const AGED: Duration = Duration::from_secs(2);
/// A rate that was halved is not halved again within this time: the answers that come meanwhile are
/// to requests of the old rate.
const SETTLE: Duration = Duration::from_secs(1);
/// Part of the limit by which a second of successes raises the rate: from half back in ten seconds.
const RAISE: f64 = 0.05;
/// The rate never falls below this part of the limit.
const FLOOR: f64 = 1.0 / 64.0;

/// Whose request goes first where both wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::client) enum Priority {
    /// Events: news that can wait.
    Low,
    /// Everything else.
    Normal,
    /// Status: what decisions are recorded in.
    High,
}

/// A place in the queue, given by [`Bucket::join`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// What a waiter is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It has taken a token and left the queue.
    Granted,
    /// It is first; its token will be there at this time.
    At(Instant),
    /// This one is before it; it is told when it is first.
    Behind(Ticket),
}

/// Tokens that grow at a rate up to a burst, taken by priority, then first come, first served. The
/// rate is the limit as long as the server takes it, halves when it does not, and grows back (AIMD).
#[derive(Debug)]
pub(super) struct Bucket {
    limit: f64,
    /// Tokens a second now, between `limit * FLOOR` and `limit`.
    rate: f64,
    burst: f64,
    /// Tokens at `counted`, between 0 and `burst`.
    tokens: f64,
    counted: Instant,
    halved: Option<Instant>,
    /// By priority, each in the order of tickets.
    queues: [VecDeque<(Ticket, Instant)>; 3],
    next_ticket: u64,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(per_second: f64, burst: u32, now: Instant) -> Self {
        Self {
            limit: per_second,
            rate: per_second,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            counted: now,
            halved: None,
            queues: Default::default(),
            next_ticket: 0,
        }
    }

    /// Joins the end of its priority's queue.
    pub(super) fn join(&mut self, now: Instant, priority: Priority) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.queues[priority as usize].push_back((ticket, now));
        ticket
    }

    /// Takes a token for `ticket` if it is its turn and there is one.
    pub(super) fn poll(&mut self, now: Instant, ticket: Ticket) -> Turn {
        match self.first(now) {
            Some(first) if first != ticket => return Turn::Behind(first),
            _ => {}
        }
        self.refill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            self.leave(ticket);
            return Turn::Granted;
        }
        // Rounded up: at the time told the token is there.
        let wait = Duration::from_secs_f64((1.0 - self.tokens) / self.rate);
        Turn::At(now + wait + Duration::from_nanos(1))
    }

    /// Leaves the queue; those behind move up. A granted ticket is no longer in it.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        for queue in &mut self.queues {
            if let Ok(place) = queue.binary_search_by_key(&ticket, |(ticket, _)| *ticket) {
                queue.remove(place);
            }
        }
    }

    /// Who is first at `now`, and so to be told.
    pub(super) fn first(&self, now: Instant) -> Option<Ticket> {
        let fronts = || self.queues.iter().filter_map(VecDeque::front);
        let aged = fronts()
            .filter(|(_, since)| now.saturating_duration_since(*since) >= AGED)
            .min();
        let highest = || self.queues.iter().rev().find_map(VecDeque::front);
        aged.or_else(highest).map(|(ticket, _)| *ticket)
    }

    /// The server has too much to do: half the rate, and no burst of what was saved up.
    pub(super) fn overloaded(&mut self, now: Instant) {
        self.refill(now);
        self.tokens = self.tokens.min(1.0);
        let settling = |halved| now.saturating_duration_since(halved) < SETTLE;
        if !self.halved.is_some_and(settling) {
            self.rate = (self.rate / 2.0).max(self.limit * FLOOR);
            self.halved = Some(now);
        }
    }

    /// The server took a request.
    pub(super) fn succeeded(&mut self, now: Instant) {
        if self.rate < self.limit {
            self.refill(now);
            // `rate` successes a second, so this much each.
            self.rate = (self.rate + self.limit * RAISE / self.rate.max(1.0)).min(self.limit);
        }
    }

    /// Tokens a second now.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.rate).min(self.burst);
        self.counted = self.counted.max(now);
    }
}

#[cfg(test)]
#[path = "bucket_tests.rs"]
mod tests;
