//! What one process asks of the API server at most: a rate, and a number of requests at a time.
//!
//! Waiters are served by priority, then in the order in which they came; one that is cancelled gives
//! its place back. The rate halves when the server has too much to do, and grows back.

mod bucket;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::Instant;

pub(super) use bucket::Priority;
use bucket::{Bucket, Ticket, Turn};

use super::telemetry;

/// The limits of one lane.
#[derive(Debug)]
pub(super) struct Limiter {
    in_flight: Semaphore,
    waiting: Mutex<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    bucket: Bucket,
    /// Those in the bucket's queue, to be told when they are first.
    waiters: BTreeMap<Ticket, Arc<Notify>>,
}

impl Limiter {
    /// `per_second` > 0, `burst` and `max_in_flight` ≥ 1.
    pub(super) fn new(per_second: f64, burst: u32, max_in_flight: usize) -> Self {
        telemetry::limiter_rate(per_second);
        Self {
            in_flight: Semaphore::new(max_in_flight.min(Semaphore::MAX_PERMITS)),
            waiting: Mutex::new(Waiting {
                bucket: Bucket::new(per_second, burst, Instant::now()),
                waiters: BTreeMap::new(),
            }),
        }
    }

    /// Waits until one more request may be under way; it is until the permit is dropped.
    pub(super) async fn slot(&self) -> SemaphorePermit<'_> {
        let permit = self.in_flight.acquire().await;
        permit.expect("the semaphore is never closed")
    }

    /// Waits for a token and takes it.
    pub(super) async fn token(&self, priority: Priority) {
        let place = Place::join(self, priority);
        loop {
            let turn = self.lock().bucket.poll(Instant::now(), place.ticket);
            match turn {
                Turn::Granted => return,
                Turn::At(due) => tokio::time::sleep_until(due).await,
                Turn::Behind(first) => {
                    // That one may have become first by its age alone, and sleeps.
                    self.lock().tell(first);
                    place.first.notified().await;
                }
            }
        }
    }

    /// The server has too much to do (429): half the rate.
    pub(super) fn overloaded(&self) {
        self.adapt(Bucket::overloaded);
    }

    /// The server took a request: the rate may grow back.
    pub(super) fn succeeded(&self) {
        self.adapt(Bucket::succeeded);
    }

    fn adapt(&self, adapt: impl FnOnce(&mut Bucket, Instant)) {
        let mut waiting = self.lock();
        let before = waiting.bucket.rate();
        adapt(&mut waiting.bucket, Instant::now());
        let now = waiting.bucket.rate();
        if now.to_bits() != before.to_bits() {
            telemetry::limiter_rate(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn tell(&self, ticket: Ticket) {
        if let Some(waiter) = self.waiters.get(&ticket) {
            // Kept until it waits, so it can't be missed; one too many only makes it look again.
            waiter.notify_one();
        }
    }
}

/// A place in the queue, left when dropped: after the grant, or when its request is cancelled.
struct Place<'a> {
    limiter: &'a Limiter,
    ticket: Ticket,
    first: Arc<Notify>,
}

impl<'a> Place<'a> {
    fn join(limiter: &'a Limiter, priority: Priority) -> Self {
        let first = Arc::new(Notify::new());
        let mut waiting = limiter.lock();
        let ticket = waiting.bucket.join(Instant::now(), priority);
        waiting.waiters.insert(ticket, Arc::clone(&first));
        Self {
            limiter,
            ticket,
            first,
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.limiter.lock();
        waiting.waiters.remove(&self.ticket);
        waiting.bucket.leave(self.ticket);
        if let Some(next) = waiting.bucket.first(Instant::now()) {
            waiting.tell(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test(start_paused = true)]
    async fn tokens_come_at_the_rate_in_the_order_of_asking() {
        let limiter = Arc::new(Limiter::new(10.0, 1, 1));
        let start = Instant::now();
        let tasks: Vec<_> = (1..=5_u64)
            .map(|i| {
                let limiter = Arc::clone(&limiter);
                tokio::spawn(async move {
                    limiter.token(Priority::Normal).await;
                    (i, start.elapsed().as_millis())
                })
            })
            .collect();
        for (i, task) in (0..).zip(tasks) {
            let (number, elapsed) = task.await.unwrap();
            assert_eq!(number, i + 1);
            assert_eq!(elapsed / 10, u128::from(i) * 10, "{number}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn cancelled_waiters_hold_nobody_up() {
        let limiter = Arc::new(Limiter::new(1.0, 1, 1));
        limiter.token(Priority::Normal).await;
        let start = Instant::now();
        let mut waiting: Vec<_> = (0..10)
            .map(|_| {
                let limiter = Arc::clone(&limiter);
                tokio::spawn(async move { limiter.token(Priority::Normal).await })
            })
            .collect();
        let last = waiting.pop().unwrap();
        tokio::task::yield_now().await;
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        last.await.unwrap();
        assert_eq!(
            start.elapsed().as_secs(),
            1,
            "the tenth is served as the first"
        );
        assert!(limiter.lock().waiters.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_grows_old_while_others_sleep_is_woken() {
        let limiter = Arc::new(Limiter::new(0.25, 1, 1));
        limiter.token(Priority::Normal).await;
        let start = Instant::now();
        let serve = |priority| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move {
                limiter.token(priority).await;
                start.elapsed().as_secs()
            })
        };
        let event = serve(Priority::Low);
        tokio::task::yield_now().await;
        let status = serve(Priority::High);
        assert_eq!(event.await.unwrap(), 4, "older than two seconds by then");
        assert_eq!(status.await.unwrap(), 8);
    }

    #[tokio::test(start_paused = true)]
    async fn slots_bound_what_is_under_way() {
        let limiter = Limiter::new(1.0, 1, 2);
        let (_one, two) = (limiter.slot().await, limiter.slot().await);
        let third = tokio::time::timeout(Duration::from_secs(1), limiter.slot());
        assert!(third.await.is_err());
        drop(two);
        drop(limiter.slot().await);
    }
}
