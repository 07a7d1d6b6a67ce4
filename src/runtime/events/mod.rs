//! Kubernetes Events: what a person should read with `kubectl describe`.
//!
//! Publishing never blocks and never fails: the queue is bounded, what does not fit is dropped and
//! counted, as is what the API server does not take. Repeats become one Event with a count, and an object
//! that has had many new ones waits for the next.

mod body;
mod limit;
mod series;

use std::future::Future;
use std::time::Duration;

use serde::de::IgnoredAny;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};

use super::metric;
use super::shutdown::Shutdown;
use crate::client::{Client, EVENT, Environment, Error, Patch, Resource};
use body::Reporter;
use series::{Act, Series, TooMany};

/// How long what is queued is still written at shutdown.
const FLUSH_LIMIT: Duration = Duration::from_secs(2);

/// Bounds of what is held and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits {
    /// Events that wait to be written, at least one; more are dropped.
    pub queue: usize,
    /// The count of a series of repeats is written at most this often.
    pub interval: Duration,
    /// An Event that repeats within this time counts as one of its series.
    pub window: Duration,
    /// New Events of one object, type and reason that are written at once after a quiet time, at least
    /// one; more are dropped. The count of a series is not limited by it.
    pub burst: u32,
    /// After this time there may be one more; without a limit for zero.
    pub refill: Duration,
}

impl EventLimits {
    /// 1000 that wait; a count each 10 s; series of what repeats within 10 min. 25 new ones at once and
    /// one each 5 min are client-go's (`defaultSpamBurst`, `defaultSpamQPS`).
    pub const DEFAULT: Self = Self {
        queue: 1000,
        interval: Duration::from_secs(10),
        window: Duration::from_mins(10),
        burst: 25,
        refill: Duration::from_mins(5),
    };
}

impl Default for EventLimits {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// Whether an Event is good to know or asks for attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// Something happened as it should.
    Normal,
    /// Something is wrong.
    Warning,
}

/// Who an Event is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ObjectRef {
    /// Its type.
    pub resource: Resource,
    /// Its namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// An Event as it was published.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Published {
    about: ObjectRef,
    kind: EventType,
    reason: String,
    action: String,
    note: String,
}

/// Publishes Events. Clones share a queue.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    queue: mpsc::Sender<Published>,
}

impl EventRecorder {
    /// A recorder and the writer that must run for it. `reporter` names the controller, such as
    /// `mysql.mainstay.dev/operator`; `instance` this process.
    #[must_use]
    pub fn new(client: Client, reporter: &str, instance: &str) -> (Self, EventWriter) {
        Self::with_limits(client, reporter, instance, EventLimits::DEFAULT)
    }

    /// The same within other limits.
    #[must_use]
    pub fn with_limits(
        client: Client,
        reporter: &str,
        instance: &str,
        limits: EventLimits,
    ) -> (Self, EventWriter) {
        metric::begin_events();
        let (queue, published) = mpsc::channel(limits.queue.max(1));
        let writer = EventWriter {
            client,
            published,
            series: Series::new(&limits),
            reporter: Reporter::new(reporter, instance),
        };
        (Self { queue }, writer)
    }

    /// Queues an Event: `reason` is one CamelCase word for machines, `action` what was done or
    /// tried, `note` a sentence for people.
    pub fn publish(
        &self,
        about: &ObjectRef,
        kind: EventType,
        reason: &str,
        action: &str,
        note: String,
    ) {
        let event = Published {
            about: about.clone(),
            kind,
            reason: reason.to_owned(),
            action: action.to_owned(),
            note,
        };
        match self.queue.try_send(event) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => dropped("full", 1),
            Err(mpsc::error::TrySendError::Closed(_)) => dropped("shutdown", 1),
        }
    }
}

/// Writes what an [`EventRecorder`] queues.
pub struct EventWriter {
    client: Client,
    published: mpsc::Receiver<Published>,
    series: Series,
    reporter: Reporter,
}

impl EventWriter {
    /// Writes until shutdown, then what is queued for at most 2 s.
    pub async fn run(self, shutdown: Shutdown) {
        let environment = self.client.environment().clone();
        write(
            &Remote(self.client),
            self.published,
            self.series,
            self.reporter,
            environment,
            &shutdown,
        )
        .await;
    }
}

/// Where Events go. Tests fake it.
trait Target: Send + Sync {
    fn create(
        &self,
        namespace: &str,
        event: &Value,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// A merge patch.
    fn patch(
        &self,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

struct Remote(Client);

impl Target for Remote {
    async fn create(&self, namespace: &str, event: &Value) -> Result<(), Error> {
        let created: Result<IgnoredAny, _> = self.0.create(EVENT, Some(namespace), event).await;
        created.map(|_| ())
    }

    async fn patch(&self, namespace: &str, name: &str, patch: &Value) -> Result<(), Error> {
        let patch = Patch::Merge(patch);
        let patched: Result<IgnoredAny, _> = self
            .0
            .patch(EVENT, Some(namespace), name, None, patch)
            .await;
        patched.map(|_| ())
    }
}

async fn write<T: Target>(
    target: &T,
    mut published: mpsc::Receiver<Published>,
    series: Series,
    reporter: Reporter,
    environment: Environment,
    shutdown: &Shutdown,
) {
    let mut writer = Writer {
        target,
        series,
        reporter,
        environment,
    };
    tokio::select! {
        biased;
        () = shutdown.triggered() => {}
        () = writer.serve(&mut published) => {}
    }
    // An Event that was being written when the shutdown came is written again: rather twice.
    published.close();
    let flushed = timeout(FLUSH_LIMIT, writer.flush(&mut published)).await;
    if flushed.is_err() {
        dropped("shutdown", published.len() as u64);
    }
}

struct Writer<'a, T> {
    target: &'a T,
    series: Series,
    reporter: Reporter,
    environment: Environment,
}

impl<T: Target> Writer<'_, T> {
    /// Ends when no recorder is left.
    async fn serve(&mut self, published: &mut mpsc::Receiver<Published>) {
        loop {
            let due = self.series.next_due();
            tokio::select! {
                biased;
                // First, so that a stream of new Events does not hold it up; it is rare by itself.
                () = until(due) => self.write_due(Instant::now()).await,
                event = published.recv() => match event {
                    Some(event) => self.take(event).await,
                    None => return,
                },
            }
        }
    }

    /// Writes everything that is queued or held back.
    async fn flush(&mut self, published: &mut mpsc::Receiver<Published>) {
        while let Some(event) = published.recv().await {
            self.take(event).await;
        }
        while let Some(act) = self.series.take_held() {
            self.act(act).await;
        }
    }

    async fn take(&mut self, event: Published) {
        let name = body::name(&event.about.name, self.environment.bits());
        let (reason, about) = (event.reason.clone(), event.about.name.clone());
        match self.series.publish(Instant::now(), event, name) {
            Ok(Some(act)) => self.act(act).await,
            Ok(None) => {}
            Err(TooMany) => {
                tracing::debug!(
                    reason,
                    about,
                    "an Event was not written: there were too many"
                );
                dropped("limited", 1);
            }
        }
    }

    async fn write_due(&mut self, now: Instant) {
        while let Some(act) = self.series.take_due(now) {
            self.act(act).await;
        }
    }

    async fn act(&mut self, act: Act) {
        let namespace = body::namespace(&act.event.about);
        let now = self.environment.now();
        let mut result = match act.count {
            1 => {
                let event = body::event(&act.event, &act.name, &self.reporter, now);
                self.target.create(namespace, &event).await
            }
            count => {
                let patch = body::series(count, now);
                self.target.patch(namespace, &act.name, &patch).await
            }
        };
        if act.count > 1 && matches!(&result, Err(error) if error.is_not_found()) {
            // The Event expired at the server, or was never written.
            let event = body::event(&act.event, &act.name, &self.reporter, now);
            result = self.target.create(namespace, &event).await;
        }
        if let Err(error) = result {
            tracing::debug!(%error, reason = act.event.reason, "an Event was not written");
            let open = matches!(error, Error::BreakerOpen { .. });
            dropped(if open { "breaker" } else { "failed" }, 1);
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

fn dropped(reason: &'static str, count: u64) {
    metrics::counter!(metric::EVENTS_DROPPED, "reason" => reason).increment(count);
}

#[cfg(test)]
mod tests;
