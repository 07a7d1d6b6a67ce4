//! Sources of keys that are not watches: a timer, and a channel.
//!
//! They add keys to a controller's queue, where these coalesce with what watches add. A
//! [`Controller`](super::Controller) runs its sources as long as it runs itself.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use tokio::sync::mpsc::Receiver;
use tokio::time::{MissedTickBehavior, interval};

use super::object::ObjectKey;
use super::queue::{Priority, Queue};

/// Shortest period of [`every`]; the resolution of the timer.
const SHORTEST: Duration = Duration::from_millis(1);

type Feed = dyn FnOnce(Queue, Priority) -> BoxFuture<'static, ()> + Send;

/// Something that adds keys to a queue.
pub struct Source {
    priority: Priority,
    feed: Box<Feed>,
}

impl Source {
    fn new<F: Future<Output = ()> + Send + 'static>(
        priority: Priority,
        feed: impl FnOnce(Queue, Priority) -> F + Send + 'static,
    ) -> Self {
        Self {
            priority,
            feed: Box::new(|queue, priority| feed(queue, priority).boxed()),
        }
    }

    /// Adds its keys with another priority.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> Self {
        Self { priority, ..self }
    }

    /// Adds its keys to `queue` until it has no more, if ever. Cancel-safe: what was taken from a
    /// channel was added. For queues that no [`Controller`](super::Controller) serves.
    pub async fn feed(self, queue: Queue) {
        (self.feed)(queue, self.priority).await;
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("priority", &self.priority)
            .finish_non_exhaustive()
    }
}

/// Adds what `keys` gives once a `period` (a millisecond at least), first when one has passed: the
/// slow resync, or a look at what no watch tells of. With [`Priority::Low`], for nothing is known to
/// have changed: however many keys these are, changes go before them. A tick that comes late is not
/// made up for.
#[must_use]
pub fn every<Keys>(period: Duration, mut keys: impl FnMut() -> Keys + Send + 'static) -> Source
where
    Keys: IntoIterator<Item = ObjectKey>,
{
    Source::new(Priority::Low, move |queue, priority| async move {
        let mut ticks = interval(period.max(SHORTEST));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first comes at once.
        ticks.tick().await;
        loop {
            ticks.tick().await;
            keys().into_iter().for_each(|key| queue.add(key, priority));
        }
    })
}

/// Adds the keys that come through a channel, with [`Priority::Normal`], until all senders are gone:
/// a webhook, another system's events, another controller. The channel never fills for long, as
/// adding to a queue does not wait.
#[must_use]
pub fn channel(mut receiver: Receiver<ObjectKey>) -> Source {
    Source::new(Priority::Normal, move |queue, priority| async move {
        while let Some(key) = receiver.recv().await {
            queue.add(key, priority);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Environment;
    use crate::runtime::{
        Controller, ControllerOptions, Outcome, ReconcileError, Reconciler, Shutdown,
    };
    use std::sync::{Arc, Mutex};
    use tokio::sync::mpsc;
    use tokio::time::{Instant, sleep};

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("ns", name)
    }

    /// Notes what ran, and in which second.
    struct Noting {
        begun: Instant,
        runs: Mutex<Vec<(String, u64)>>,
    }

    impl Reconciler for Noting {
        async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
            let run = (key.name.to_string(), self.begun.elapsed().as_secs());
            self.runs.lock().unwrap().push(run);
            Ok(Outcome::Done)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_controller_runs_what_its_sources_give_until_it_stops() {
        let noting = Arc::new(Noting {
            begun: Instant::now(),
            runs: Mutex::default(),
        });
        let queue = Queue::new("test", &Environment::system());
        let options = ControllerOptions {
            workers: 1,
            ..ControllerOptions::default()
        };
        let (sender, receiver) = mpsc::channel(1);
        let mut round = 0;
        let timed = move || {
            round += 1;
            (0..round).map(|n| key(&format!("timed-{n}")))
        };
        let controller = Controller::new("test", queue, Arc::clone(&noting), options)
            .with_source(every(Duration::from_secs(10), timed))
            .with_source(channel(receiver));
        let shutdown = Shutdown::new();
        let running = tokio::spawn(controller.run(shutdown.clone(), Duration::ZERO));
        sleep(Duration::from_secs(3)).await;
        for name in ["a", "b", "a"] {
            sender.send(key(name)).await.unwrap();
        }
        sleep(Duration::from_secs(1)).await;
        // The end of one source is not that of the others.
        drop(sender);
        sleep(Duration::from_secs(17)).await;
        shutdown.trigger();
        assert_eq!(running.await.unwrap(), 0);
        sleep(Duration::from_mins(1)).await;
        let mut runs = noting.runs.lock().unwrap().clone();
        // Whether the second `a` found the first one running is chance.
        runs.dedup();
        runs.retain(|run| *run != ("a".to_owned(), 3) && *run != ("b".to_owned(), 3));
        let expected = [("timed-0", 10), ("timed-0", 20), ("timed-1", 20)];
        assert_eq!(runs, expected.map(|(name, at)| (name.to_owned(), at)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_channels_keys_are_all_added_with_the_priority_that_was_said() {
        let queue = Queue::new("test", &Environment::system());
        let (sender, receiver) = mpsc::channel(1);
        queue.add(key("normal"), Priority::Normal);
        let source = channel(receiver).with_priority(Priority::High);
        let feeding = tokio::spawn(source.feed(queue.clone()));
        for name in ["a", "b", "a"] {
            sender.send(key(name)).await.unwrap();
        }
        drop(sender);
        feeding.await.unwrap();
        let mut order = Vec::new();
        while !queue.is_empty() {
            order.push(queue.next().await.unwrap().key.name.to_string());
        }
        assert_eq!(order, ["a", "b", "normal"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_period_of_nothing_is_a_millisecond() {
        let queue = Queue::new("test", &Environment::system());
        let source = every(Duration::ZERO, || [key("a")]);
        let feeding = tokio::spawn(source.feed(queue.clone()));
        let begun = Instant::now();
        queue.next().await.unwrap();
        assert_eq!(begun.elapsed(), SHORTEST);
        feeding.abort();
    }
}
