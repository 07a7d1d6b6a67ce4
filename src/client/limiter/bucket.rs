//! The token bucket and its queue, as a state machine: every operation is told what time it is.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

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
    /// Others are before it; it is told when it is first.
    Behind,
}

/// Tokens that grow at a rate up to a burst, taken first come, first served.
#[derive(Debug)]
pub(super) struct Bucket {
    per_second: f64,
    burst: f64,
    /// Tokens at `counted`, between 0 and `burst`.
    tokens: f64,
    counted: Instant,
    queue: VecDeque<Ticket>,
    next_ticket: u64,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(per_second: f64, burst: u32, now: Instant) -> Self {
        Self {
            per_second,
            burst: f64::from(burst),
            tokens: f64::from(burst),
            counted: now,
            queue: VecDeque::new(),
            next_ticket: 0,
        }
    }

    /// Joins the end of the queue.
    pub(super) fn join(&mut self) -> Ticket {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.queue.push_back(ticket);
        ticket
    }

    /// Takes a token for `ticket` if it is its turn and there is one.
    pub(super) fn poll(&mut self, now: Instant, ticket: Ticket) -> Turn {
        if self.first() != Some(ticket) {
            return Turn::Behind;
        }
        self.refill(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            self.queue.pop_front();
            return Turn::Granted;
        }
        // Rounded up: at the time told the token is there.
        let wait = Duration::from_secs_f64((1.0 - self.tokens) / self.per_second);
        Turn::At(now + wait + Duration::from_nanos(1))
    }

    /// Leaves the queue; those behind move up. A granted ticket is no longer in it.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        if let Ok(place) = self.queue.binary_search(&ticket) {
            self.queue.remove(place);
        }
    }

    /// Who is first, and so to be told.
    pub(super) fn first(&self) -> Option<Ticket> {
        self.queue.front().copied()
    }

    fn refill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.counted).as_secs_f64();
        self.tokens = (self.tokens + elapsed * self.per_second).min(self.burst);
        self.counted = self.counted.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_burst_then_the_rate() {
        let start = Instant::now();
        let mut bucket = Bucket::new(10.0, 2, start);
        let tickets = [bucket.join(), bucket.join(), bucket.join(), bucket.join()];
        assert_eq!(
            bucket.poll(start, tickets[1]),
            Turn::Behind,
            "first come, first served"
        );
        assert_eq!(bucket.poll(start, tickets[0]), Turn::Granted);
        assert_eq!(bucket.poll(start, tickets[1]), Turn::Granted);
        let Turn::At(due) = bucket.poll(start, tickets[2]) else {
            panic!("the burst is used up");
        };
        assert_eq!((due - start).as_millis(), 100);
        assert_eq!(bucket.poll(due, tickets[2]), Turn::Granted);
    }

    #[test]
    fn a_waiter_that_leaves_gives_its_place_back() {
        let start = Instant::now();
        let mut bucket = Bucket::new(1.0, 1, start);
        let [first, second, third] = [bucket.join(), bucket.join(), bucket.join()];
        assert_eq!(bucket.poll(start, first), Turn::Granted);
        bucket.leave(second);
        assert_eq!(bucket.first(), Some(third));
        let later = start + Duration::from_millis(1001);
        assert_eq!(bucket.poll(later, third), Turn::Granted);
    }

    proptest! {
        #[test]
        fn never_over_the_rate_plus_burst_and_nobody_is_lost(
            steps in proptest::collection::vec((0_u64..400, 0_u8..4), 1..200),
        ) {
            let (rate, burst) = (10.0, 5);
            let start = Instant::now();
            let mut now = start;
            let mut bucket = Bucket::new(rate, burst, start);
            let mut waiting: VecDeque<Ticket> = VecDeque::new();
            let mut granted: Vec<Instant> = Vec::new();
            for (millis, op) in steps {
                now += Duration::from_millis(millis);
                match op {
                    0 | 1 => waiting.push_back(bucket.join()),
                    2 => if let Some(last) = waiting.pop_back() { bucket.leave(last) },
                    _ => {}
                }
                while let Some(first) = waiting.front() {
                    match bucket.poll(now, *first) {
                        Turn::Granted => { granted.push(now); waiting.pop_front(); }
                        Turn::At(due) => { prop_assert!(due > now); break; }
                        Turn::Behind => prop_assert!(false, "the model's first is not first"),
                    }
                }
                prop_assert_eq!(bucket.queue.len(), waiting.len());
            }
            for (i, from) in granted.iter().enumerate() {
                for (j, to) in granted.iter().enumerate().skip(i) {
                    let allowed = (*to - *from).as_secs_f64() * rate + f64::from(burst) + 1e-6;
                    prop_assert!((j - i + 1) as f64 <= allowed);
                }
            }
        }
    }
}
