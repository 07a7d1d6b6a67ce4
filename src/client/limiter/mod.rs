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
    use proptest::prelude::*;
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

    /// When it comes (in ms), its priority, and how long it waits (in ms), for ever from 3000 on.
    type Caller = (u64, usize, u64);

    async fn served(callers: Vec<Caller>, rate: f64, burst: u32) -> Vec<(Caller, Option<Instant>)> {
        let limiter = Arc::new(Limiter::new(rate, burst, 1));
        let start = Instant::now();
        let tasks = callers.into_iter().map(|caller| {
            let limiter = Arc::clone(&limiter);
            let (comes, priority, patience) = caller;
            let priority = [Priority::Low, Priority::Normal, Priority::High][priority];
            let patience = match patience {
                3000.. => Duration::from_hours(1),
                patience => Duration::from_millis(patience),
            };
            tokio::spawn(async move {
                tokio::time::sleep_until(start + Duration::from_millis(comes)).await;
                let token = tokio::time::timeout(patience, limiter.token(priority)).await;
                (caller, token.is_ok().then(Instant::now))
            })
        });
        let served = futures_util::future::join_all(tasks.collect::<Vec<_>>()).await;
        assert!(limiter.lock().waiters.is_empty(), "nobody is left behind");
        assert_eq!(limiter.lock().bucket.first(Instant::now()), None);
        served.into_iter().map(Result::unwrap).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whoever comes, waits or gives up: never over the rate plus burst in any window, nobody who
        /// waits is lost, and who gives up gives its place back.
        #[test]
        fn k34938_the_rate_holds_and_nobody_is_lost(
            callers in proptest::collection::vec((0_u64..3000, 0_usize..3, 1_u64..6000), 1..80),
            burst in 1_u32..10,
        ) {
            let rate = 20.0;
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            let start = runtime.block_on(async { Instant::now() });
            let served = runtime.block_on(served(callers, rate, burst));
            for (caller, at) in &served {
                prop_assert!(at.is_some() || caller.2 < 3000, "{caller:?} was never served");
            }
            let mut granted: Vec<Instant> = served.iter().filter_map(|(_, at)| *at).collect();
            granted.sort_unstable();
            for (i, from) in granted.iter().enumerate() {
                for (j, to) in granted.iter().enumerate().skip(i) {
                    let allowed = (*to - *from).as_secs_f64() * rate + f64::from(burst) + 1e-3;
                    prop_assert!((j - i + 1) as f64 <= allowed);
                }
            }
            // A place that was not given back would hold the last one up.
            let needed = 3.0 + granted.len() as f64 / rate + 0.01;
            if let Some(last) = granted.last() {
                prop_assert!((*last - start).as_secs_f64() <= needed, "{:?}", *last - start);
            }
        }
    }
}
