//! Workers: a fixed pool that serves a queue with a reconciler.
//!
//! A run is contained: it has a deadline, a panic in it is a failure of its key only, and one that
//! ignores its deadline is named by the liveness check.

mod slots;
mod stall;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use metrics::Histogram;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

use super::health::Health;
use super::metric;
use super::object::ObjectKey;
use super::queue::{BACKOFF_CAP, BACKOFF_INITIAL, Finish, Pause, Queue};
use super::shutdown::Shutdown;
use super::sources::Source;
use super::store::NotSynced;
use super::tasks::panic_message;
use crate::client::{self, BreakerState, BreakerWatch, Environment};
use slots::Slots;

/// What a reconcile that succeeded asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more until something changes.
    Done,
    /// Another run after this time, unless something changes earlier.
    RequeueAfter(Duration),
}

/// Why a reconcile did not succeed: what decides when it is tried again.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// It may succeed later: tried again after a backoff.
    #[error("{0}")]
    Transient(String),
    /// It can't succeed as things are: no retry until something changes. Its object is told at once
    /// that it is [`stalled`](Reconciler::stalled).
    #[error("{0}")]
    Permanent(String),
    /// It lost an optimistic write: tried again at once, a few times.
    #[error("{0}")]
    Conflict(String),
    /// What stopped it concerns no object: the circuit breaker opened, or leadership ended. Tried
    /// again soon, and not counted as a failure of its key.
    #[error("{0}")]
    Interrupted(String),
}

impl From<client::Error> for ReconcileError {
    /// Only what the server refused as invalid is permanent. A missing permission is not: granting
    /// it changes no object that would wake the key.
    fn from(error: client::Error) -> Self {
        let message = error.to_string();
        match error {
            error if error.is_conflict() => Self::Conflict(message),
            client::Error::Invalid { .. } | client::Error::Request { .. } => {
                Self::Permanent(message)
            }
            client::Error::BreakerOpen { .. } | client::Error::Fenced { .. } => {
                Self::Interrupted(message)
            }
            _ => Self::Transient(message),
        }
    }
}

impl From<NotSynced> for ReconcileError {
    /// It will be.
    fn from(error: NotSynced) -> Self {
        Self::Transient(error.to_string())
    }
}

/// Brings the world of one object to what it should be.
pub trait Reconciler: Send + Sync + 'static {
    /// One run for `key`. It reads stores, decides, and writes; it is dropped at an await when its
    /// deadline passes, so each step must leave a state that the next run understands.
    fn reconcile(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;

    /// Says on the object that nothing comes of it, and `why`. Called after a run that failed for good,
    /// or when all runs have failed for [`ControllerOptions::stalled_after`], and then after each
    /// further one that fails; no run of that key is under way. What it can't say now is said the next
    /// time. A run that succeeds takes it back.
    fn stalled(&self, key: &ObjectKey, why: &str) -> impl Future<Output = ()> + Send {
        let _ = (key, why);
        std::future::ready(())
    }
}

/// Settings of a [`Controller`].
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Runs at a time; at least one.
    pub workers: usize,
    /// How long a run may take.
    pub deadline: Duration,
    /// A key whose runs have all failed for so long is [`stalled`](Reconciler::stalled). It is tried
    /// again by its backoff, which by then is as rare as a resync (16 min at most), and on any change.
    pub stalled_after: Duration,
    /// Chance for the runs' trace ids.
    pub environment: Environment,
    /// The coalescing window: a change below [`Priority::High`](super::Priority::High) runs no sooner
    /// than this after the start of its key's last run, and all that come meanwhile run once. The
    /// first change after a quiet time runs at once, and none waits longer than the window, however
    /// many follow. Delays and retries that runs ask for keep their own time.
    ///
    /// None by default: a window spares runs where a child's changes come in bursts and the last
    /// counts (design: 1 s, classically 5 s), but what comes second in one may be what matters.
    pub window: Duration,
    /// Longest first backoff of a key that fails: what is waited is drawn from zero to it, and it
    /// doubles with each failure.
    pub backoff_initial: Duration,
    /// What that grows to.
    pub backoff_max: Duration,
}

impl Default for ControllerOptions {
    fn default() -> Self {
        Self {
            workers: 8,
            deadline: Duration::from_mins(2),
            // As a Deployment's progressDeadlineSeconds.
            stalled_after: Duration::from_mins(10),
            environment: Environment::system(),
            window: Duration::ZERO,
            backoff_initial: BACKOFF_INITIAL,
            backoff_max: BACKOFF_CAP,
        }
    }
}

/// Serves a queue with a reconciler.
pub struct Controller<R> {
    pool: Pool<R>,
    breaker: Option<BreakerWatch>,
    sources: Vec<Source>,
}

/// What the workers share.
struct Pool<R> {
    name: &'static str,
    queue: Queue,
    reconciler: Arc<R>,
    options: ControllerOptions,
    slots: Arc<Slots>,
}

/// How a run ended, as its metric names it.
enum Run {
    Ended(Result<Outcome, ReconcileError>),
    TimedOut,
    Panicked(String),
}

impl<R: Reconciler> Controller<R> {
    /// A controller that does not run yet. `name` labels its metrics and spans.
    #[must_use]
    pub fn new(
        name: &'static str,
        queue: Queue,
        reconciler: Arc<R>,
        options: ControllerOptions,
    ) -> Self {
        let options = ControllerOptions {
            workers: options.workers.max(1),
            ..options
        };
        queue.set_window(options.window);
        queue.set_backoff(options.backoff_initial, options.backoff_max);
        metric::begin_controller(name);
        let slots = Arc::new(Slots::new(options.workers));
        Self {
            pool: Pool {
                name,
                queue,
                reconciler,
                options,
                slots,
            },
            breaker: None,
            sources: Vec::new(),
        }
    }

    /// Adds a source of keys besides the watches; see [`sources`](super::sources). It is fed from as
    /// long as the controller runs.
    #[must_use]
    pub fn with_source(mut self, source: Source) -> Self {
        self.sources.push(source);
        self
    }

    /// Starts no reconcile while the client's circuit breaker is open.
    #[must_use]
    pub fn with_breaker(self, breaker: Option<BreakerWatch>) -> Self {
        Self { breaker, ..self }
    }

    /// Registers the liveness of the workers, which names a run that ignores its deadline.
    #[must_use]
    pub fn with_health(self, health: &Health) -> Self {
        let pool = &self.pool;
        let (slots, deadline) = (Arc::clone(&pool.slots), pool.options.deadline);
        health.liveness(format!("workers-{}", pool.name), move || {
            slots.check(Instant::now(), deadline)
        });
        let queue = pool.queue.clone();
        health.collector(move || queue.measure());
        let (queue, slots) = (pool.queue.clone(), Arc::clone(&pool.slots));
        health.debug(format!("queue-{}", pool.name), move || {
            let mut state = queue.debug();
            state["running"] = slots.debug(Instant::now());
            state
        });
        self
    }

    /// Serves the queue until shutdown: then takes no new key and lets running reconciles finish for
    /// at most `grace`; those still running then are dropped at their next await. Returns the number
    /// of keys that were running or ready.
    pub async fn run(self, shutdown: Shutdown, grace: Duration) -> usize {
        let mut workers = JoinSet::new();
        let Self {
            pool,
            breaker,
            sources,
        } = self;
        let queue = pool.queue.clone();
        let pool = Arc::new(pool);
        for slot in 0..pool.options.workers {
            workers.spawn(Arc::clone(&pool).work(slot));
        }
        tokio::select! {
            biased;
            () = shutdown.triggered() => {}
            () = queue.drive_timer() => {}
            () = follow_breaker(&queue, breaker) => {}
            () = feed(&queue, sources) => {}
            () = join(&mut workers) => {}
        }
        queue.drain();
        let finished = timeout(grace, join(&mut workers)).await;
        let left = queue.left();
        if finished.is_err() {
            let running = pool.slots.running();
            tracing::warn!(
                controller = pool.name,
                ?running,
                "reconciles were cut short"
            );
            workers.abort_all();
        }
        left.running + left.queued
    }
}

impl<R: Reconciler> Pool<R> {
    /// One worker's life.
    async fn work(self: Arc<Self>, slot: usize) {
        let duration = metrics::histogram!(metric::RECONCILE_DURATION, "controller" => self.name);
        let mut jitter = self.options.environment.jitter();
        while let Some(item) = self.queue.next().await {
            // At the highest level, so that no filter takes the name of the object from a line.
            let span = tracing::error_span!(
                "reconcile",
                controller = self.name,
                key = %item.key,
                trace = format_args!("{:016x}", jitter.bits()),
            );
            self.serve(slot, &item.key, &duration)
                .instrument(span)
                .await;
        }
    }

    async fn serve(&self, slot: usize, key: &ObjectKey, duration: &Histogram) {
        let started = Instant::now();
        self.slots.begin(slot, key, started);
        let reconcile = AssertUnwindSafe(async { self.reconciler.reconcile(key).await });
        let run = match timeout(self.options.deadline, reconcile.catch_unwind()).await {
            Ok(Ok(result)) => Run::Ended(result),
            Ok(Err(panic)) => Run::Panicked(panic_message(&*panic)),
            Err(_) => Run::TimedOut,
        };
        if let Some(why) = self.stall(key, &run) {
            self.tell_stalled(key, &why).await;
        }
        self.slots.end(slot);
        let worked = started.elapsed();
        duration.record(worked.as_secs_f64());
        let (result, finish) = classify(&run);
        metrics::counter!(metric::RECONCILE_TOTAL, "controller" => self.name, "result" => result)
            .increment(1);
        let again = self.queue.done(key, finish, worked);
        match run {
            Run::Ended(Ok(outcome)) => tracing::debug!(?outcome, ?worked, "reconciled"),
            Run::Ended(Err(ReconcileError::Conflict(error))) => {
                tracing::debug!(%error, ?again, "lost a write to a newer one");
            }
            Run::Ended(Err(ReconcileError::Interrupted(error))) => {
                tracing::debug!(%error, ?again, "interrupted");
            }
            Run::Ended(Err(error)) => {
                tracing::warn!(%error, result, ?again, "reconcile failed");
            }
            Run::TimedOut => tracing::error!(?worked, ?again, "reconcile reached its deadline"),
            Run::Panicked(message) => tracing::error!(message, ?again, "reconcile panicked"),
        }
    }
}

fn classify(run: &Run) -> (&'static str, Finish) {
    match run {
        Run::Ended(Ok(Outcome::Done)) => ("done", Finish::Success),
        Run::Ended(Ok(Outcome::RequeueAfter(after))) => ("requeue", Finish::SuccessAfter(*after)),
        Run::Ended(Err(ReconcileError::Transient(_))) => ("transient", Finish::Failed),
        Run::Ended(Err(ReconcileError::Permanent(_))) => ("permanent", Finish::Permanent),
        Run::Ended(Err(ReconcileError::Conflict(_))) => ("conflict", Finish::Conflict),
        Run::Ended(Err(ReconcileError::Interrupted(_))) => ("interrupted", Finish::Interrupted),
        Run::TimedOut => ("timeout", Finish::Failed),
        Run::Panicked(_) => ("panic", Finish::Failed),
    }
}

/// Pauses the queue while the breaker is open. Never ends.
async fn follow_breaker(queue: &Queue, breaker: Option<BreakerWatch>) {
    let Some(mut breaker) = breaker else {
        return std::future::pending().await;
    };
    let mut state = breaker.current();
    loop {
        match state {
            BreakerState::Open => queue.pause(Pause::Breaker),
            BreakerState::HalfOpen | BreakerState::Closed => queue.resume(Pause::Breaker),
        }
        state = breaker.changed_from(state).await;
    }
}

/// Adds what the sources give. Never ends.
async fn feed(queue: &Queue, sources: Vec<Source>) {
    join_all(sources.into_iter().map(|source| source.feed(queue.clone()))).await;
    std::future::pending::<()>().await;
}

/// Waits for all workers. A panic of one is none of a reconcile's but a bug here: it goes on up.
async fn join(workers: &mut JoinSet<()>) {
    while let Some(ended) = workers.join_next().await {
        if let Err(error) = ended
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

#[cfg(test)]
mod tests;
