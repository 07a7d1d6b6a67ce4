//! How many new Events one object may have: a token bucket each, as client-go's spam filter
//! (`EventSourceObjectSpamFilter` in tools/record). Pure.
//!
//! client-go has one bucket an object. Here each type and reason of an object has its own, so that what
//! is told often, each time in other words, silences nothing but itself: a failover's Warning is not
//! the one too many after a hundred of something else. Reasons are words of the code, so an object
//! still has a bounded number of them.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{EventLimits, EventType, ObjectRef, Published};

/// Buckets remembered (client-go's `maxLruCacheEntries`), some hundred bytes each.
const BUCKET_LIMIT: usize = 4096;

/// Buckets of all that Events are about.
#[derive(Debug)]
pub(super) struct Limit {
    /// Those that are not full, and some that have become so since.
    buckets: HashMap<Subject, Bucket>,
    /// In which a token comes back.
    refill: Duration,
    /// In which all but one do.
    tolerance: Duration,
    /// Counts buckets, so that of two that are alike the same one is forgotten in every run.
    begun: u64,
}

/// What a bucket is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Subject {
    about: ObjectRef,
    kind: EventType,
    reason: String,
}

/// Tokens, told by the time at which none is missing: each that is taken moves it on by one refill.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    full_at: Instant,
    number: u64,
}

impl Limit {
    /// All buckets are full.
    pub(super) fn new(limits: &EventLimits) -> Self {
        Self {
            buckets: HashMap::new(),
            refill: limits.refill,
            tolerance: limits.refill.saturating_mul(limits.burst.saturating_sub(1)),
            begun: 0,
        }
    }

    /// Takes a token for an Event that is to be written; false when there is none.
    pub(super) fn take(&mut self, now: Instant, event: &Published) -> bool {
        let subject = Subject {
            about: event.about.clone(),
            kind: event.kind,
            reason: event.reason.clone(),
        };
        if let Some(bucket) = self.buckets.get_mut(&subject) {
            let full_at = bucket.full_at.max(now);
            if full_at - now > self.tolerance {
                return false;
            }
            bucket.full_at = full_at + self.refill;
            return true;
        }
        self.make_room(now);
        let bucket = Bucket {
            full_at: now + self.refill,
            number: self.begun,
        };
        self.begun += 1;
        self.buckets.insert(subject, bucket);
        true
    }

    /// A full bucket is as good as none. If there is none, the one that lacks least is forgotten: not
    /// the one that was used least of late as in client-go, for the emptiest must last.
    fn make_room(&mut self, now: Instant) {
        if self.buckets.len() < BUCKET_LIMIT {
            return;
        }
        self.buckets.retain(|_, bucket| bucket.full_at > now);
        if self.buckets.len() < BUCKET_LIMIT {
            return;
        }
        let fullest = self
            .buckets
            .iter()
            .min_by_key(|(_, bucket)| (bucket.full_at, bucket.number));
        if let Some(subject) = fullest.map(|(subject, _)| subject.clone()) {
            self.buckets.remove(&subject);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::POD;

    const LIMITS: EventLimits = EventLimits::DEFAULT;

    fn event(name: &str, kind: EventType, reason: &str) -> Published {
        Published {
            about: ObjectRef {
                resource: POD,
                namespace: "ns".to_owned(),
                name: name.to_owned(),
                uid: "u".to_owned(),
            },
            kind,
            reason: reason.to_owned(),
            action: "Act".to_owned(),
            note: "in ever other words".to_owned(),
        }
    }

    fn normal(name: &str) -> Published {
        event(name, EventType::Normal, "Chatty")
    }

    /// How many of `event` pass at `now`.
    fn passed(limit: &mut Limit, now: Instant, event: &Published) -> u32 {
        let all = (0..100).filter(|_| limit.take(now, event));
        u32::try_from(all.count()).unwrap()
    }

    #[test]
    fn a_burst_passes_then_one_in_each_refill_and_after_quiet_a_burst_again() {
        let (mut limit, start) = (Limit::new(&LIMITS), Instant::now());
        let chatty = normal("a");
        assert_eq!(passed(&mut limit, start, &chatty), 25);
        let almost = start + LIMITS.refill - Duration::from_millis(1);
        assert_eq!(passed(&mut limit, almost, &chatty), 0);
        assert_eq!(passed(&mut limit, start + LIMITS.refill, &chatty), 1);
        assert_eq!(passed(&mut limit, start + 4 * LIMITS.refill, &chatty), 3);
        let day = Duration::from_hours(24);
        assert_eq!(passed(&mut limit, start + day, &chatty), 25, "no more");
    }

    #[test]
    fn what_is_told_too_often_silences_nothing_but_itself() {
        let (mut limit, now) = (Limit::new(&LIMITS), Instant::now());
        let chatty = normal("a");
        assert_eq!(passed(&mut limit, now, &chatty), 25);
        let mut reborn = normal("a");
        reborn.about.uid = "another".to_owned();
        let mut elsewhere = normal("a");
        elsewhere.about.namespace = "other".to_owned();
        for other in [
            event("a", EventType::Warning, "Chatty"),
            event("a", EventType::Normal, "FailoverCompleted"),
            normal("b"),
            reborn,
            elsewhere,
        ] {
            assert!(limit.take(now, &other), "{other:?}");
        }
        let mut worded = normal("a");
        worded.note = "otherwise".to_owned();
        worded.action = "Otherwise".to_owned();
        assert!(!limit.take(now, &worded), "words are what changes");
    }

    #[test]
    fn burst_and_refill_are_those_that_are_asked_for_and_no_refill_is_no_limit() {
        let second = Duration::from_secs(1);
        let (chatty, start) = (normal("a"), Instant::now());
        for (burst, at_once) in [(3, 3), (1, 1), (0, 1)] {
            let mut limit = Limit::new(&EventLimits {
                burst,
                refill: second,
                ..LIMITS
            });
            assert_eq!(passed(&mut limit, start, &chatty), at_once, "{burst}");
            assert_eq!(passed(&mut limit, start + second, &chatty), 1, "{burst}");
        }
        let mut limit = Limit::new(&EventLimits {
            refill: Duration::ZERO,
            ..LIMITS
        });
        assert_eq!(passed(&mut limit, start, &chatty), 100);
    }

    #[test]
    fn what_is_remembered_is_bounded_and_the_emptiest_bucket_is_not_forgotten() {
        let (mut limit, start) = (Limit::new(&LIMITS), Instant::now());
        let chatty = normal("a");
        assert_eq!(passed(&mut limit, start, &chatty), 25);
        for i in 0..BUCKET_LIMIT + 50 {
            assert!(limit.take(start, &normal(&i.to_string())));
        }
        assert_eq!(limit.buckets.len(), BUCKET_LIMIT);
        assert!(!limit.take(start, &chatty), "it is remembered");
        // All but the chatty one's are full again.
        assert!(limit.take(start + LIMITS.refill, &normal("later")));
        assert_eq!(limit.buckets.len(), 2);
    }
}
