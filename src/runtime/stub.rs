//! Signatures that the runtime helper replaces with the real thing, one file a concern.
#![allow(missing_docs, unused_variables, clippy::all, clippy::pedantic)]
use super::{Kind, Meta, ObjectKey};
use crate::client::{Client, Fence, Resource};
use std::{collections::BTreeMap, future::Future, sync::Arc, time::Duration};

// ---- store.rs
#[derive(Debug, thiserror::Error)]
#[error("{kind} store is read before its first list is complete")]
pub struct NotSynced {
    pub kind: &'static str,
}
pub struct Store<K> {
    _k: std::marker::PhantomData<fn() -> K>,
}
impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        todo!()
    }
}
impl<K: Kind> Store<K> {
    pub fn new() -> Self {
        todo!()
    }
    pub fn get(&self, key: &ObjectKey) -> Result<Option<Arc<K>>, NotSynced> {
        todo!()
    }
    pub fn list(&self) -> Result<Vec<Arc<K>>, NotSynced> {
        todo!()
    }
    pub fn in_namespace(&self, namespace: &str) -> Result<Vec<Arc<K>>, NotSynced> {
        todo!()
    }
    /// all objects with an owner reference of that UID
    pub fn owned_by(&self, uid: &str) -> Result<Vec<Arc<K>>, NotSynced> {
        todo!()
    }
    pub fn is_synced(&self) -> bool {
        todo!()
    }
    pub async fn synced(&self) {
        todo!()
    }
    /// Read your writes: a write of this process succeeded and the object is now at `meta` (uid, resourceVersion).
    /// `caught_up(key)` is false until the watch has delivered that or a later version (or a deletion), or 5 s passed.
    pub fn expect(&self, key: &ObjectKey, uid: &str, resource_version: &str) {
        todo!()
    }
    pub fn expect_deleted(&self, key: &ObjectKey, uid: &str) {
        todo!()
    }
    pub async fn caught_up(&self, key: &ObjectKey) {
        todo!()
    }
}

// ---- watch/
pub enum Change<K> {
    Applied { old: Option<Arc<K>>, new: Arc<K> },
    Deleted { last: Arc<K> },
}
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// None = all namespaces
    pub namespace: Option<String>,
    pub label_selector: Option<String>,
    pub field_selector: Option<String>,
}
/// One list-watch loop. `handler` is called after the store holds the change; it must be quick (it adds to a queue).
pub struct ListWatch<K> {
    _k: std::marker::PhantomData<fn() -> K>,
}
impl<K: Kind> ListWatch<K> {
    pub fn new(
        client: Client,
        scope: Scope,
        store: Store<K>,
        handler: impl Fn(Change<K>) + Send + Sync + 'static,
    ) -> Self {
        todo!()
    }
    /// Registers `cache-synced`/freshness with health under the kind's plural.
    pub fn with_health(self, health: &Health) -> Self {
        todo!()
    }
    /// Runs until shutdown; never ends by an error.
    pub async fn run(self, shutdown: Shutdown) {
        todo!()
    }
}

// ---- queue/
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    Low,
    Normal,
    High,
}
#[derive(Clone)]
pub struct Queue {}
impl Queue {
    pub fn new(name: &'static str) -> Self {
        todo!()
    }
    pub fn add(&self, key: ObjectKey, priority: Priority) {
        todo!()
    }
    pub fn add_after(&self, key: ObjectKey, delay: Duration) {
        todo!()
    }
    pub fn len(&self) -> usize {
        todo!()
    }
    /// Paused: keys coalesce, none is handed out.
    pub fn pause(&self) {}
    pub fn resume(&self) {}
}

// ---- controller.rs
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    RequeueAfter(Duration),
}
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// Backoff, then again.
    #[error("{0}")]
    Transient(String),
    /// No retry until the object changes.
    #[error("{0}")]
    Permanent(String),
    /// Retry at once, limited.
    #[error("{0}")]
    Conflict(String),
}
pub trait Reconciler: Send + Sync + 'static {
    fn reconcile(
        &self,
        key: &ObjectKey,
    ) -> impl Future<Output = Result<Outcome, ReconcileError>> + Send;
}
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    pub workers: usize,
    pub deadline: Duration,
}
pub struct Controller<R> {
    _r: R,
}
impl<R: Reconciler> Controller<R> {
    pub fn new(
        name: &'static str,
        queue: Queue,
        reconciler: Arc<R>,
        options: ControllerOptions,
    ) -> Self {
        todo!()
    }
    pub fn with_health(self, health: &Health) -> Self {
        todo!()
    }
    /// Serves the queue until shutdown: then takes no new key and lets running reconciles finish for at most `grace`; returns the number still running or queued.
    pub async fn run(self, shutdown: Shutdown, grace: Duration) -> usize {
        todo!()
    }
}

// ---- election/
#[derive(Clone, Debug)]
pub struct ElectionOptions {
    pub namespace: String,
    pub name: String,
    pub identity: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub renew_interval: Duration,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// no lease record seen yet
    Unknown,
    Standby {
        holder: String,
    },
    Leader {
        term: u64,
    },
}
pub struct Elector {}
/// Reading side, cheap to clone.
#[derive(Clone)]
pub struct LeadershipWatch {}
impl LeadershipWatch {
    pub fn current(&self) -> Leadership {
        todo!()
    }
    pub async fn changed(&mut self) -> Leadership {
        todo!()
    }
    /// As the leader: make the term at least `term` (written to the Lease's leaseTransitions before it is visible here). For an instance that remembers a higher term, as after the Lease was deleted.
    pub fn raise_term(&self, term: u64) {
        todo!()
    }
}
impl Elector {
    /// The fence goes to `Client::with_fence`.
    pub fn new(
        election_lane: Client,
        options: ElectionOptions,
    ) -> Result<(Elector, LeadershipWatch, Fence), String> {
        todo!()
    }
    pub fn with_health(self, health: &Health) -> Self {
        todo!()
    }
    /// Campaigns until shutdown, then releases the lease if held. Never ends by an error.
    pub async fn run(self, shutdown: Shutdown) {
        todo!()
    }
}

// ---- shutdown.rs
/// A stop signal that many tasks can wait for. Clones share it.
#[derive(Clone)]
pub struct Shutdown {}
impl Shutdown {
    pub fn new() -> Self {
        todo!()
    }
    pub fn trigger(&self) {}
    pub fn is_triggered(&self) -> bool {
        todo!()
    }
    pub async fn triggered(&self) {
        todo!()
    }
    /// SIGTERM or SIGINT trigger it; a second one exits the process at once (code 1).
    pub fn on_signals() -> std::io::Result<Self> {
        todo!()
    }
}

// ---- health.rs and server.rs
#[derive(Clone)]
pub struct Health {}
impl Health {
    pub fn new() -> Self {
        todo!()
    }
    /// readiness: Ok(detail) or Err(why)
    pub fn readiness(
        &self,
        name: String,
        check: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) {
    }
    pub fn liveness(
        &self,
        name: String,
        check: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) {
    }
    /// Serves /livez /readyz /leaderz (from the leadership watch) /metrics on the bound address until shutdown. ?verbose lists each check.
    pub async fn serve(
        self,
        listener: tokio::net::TcpListener,
        metrics: Telemetry,
        leadership: Option<LeadershipWatch>,
        shutdown: Shutdown,
    ) {
        todo!()
    }
}

// ---- telemetry.rs
#[derive(Clone)]
pub struct Telemetry {}
impl Telemetry {
    /// Installs the metrics recorder and describes all metrics of the runtime.
    pub fn install() -> Result<Self, String> {
        todo!()
    }
    pub fn render(&self) -> String {
        todo!()
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}
/// tracing subscriber; filter from MAINSTAY_LOG or `default_filter`
pub fn init_tracing(format: LogFormat, default_filter: &str) {
    todo!()
}

// ---- events.rs
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    Normal,
    Warning,
}
/// Who an Event is about.
#[derive(Clone, Debug)]
pub struct ObjectRef {
    pub resource: Resource,
    pub namespace: String,
    pub name: String,
    pub uid: String,
}
/// Queues Events (bounded; drops and counts when full); a task of its own writes them as events.k8s.io/v1, repeats as series.
#[derive(Clone)]
pub struct EventRecorder {}
impl EventRecorder {
    /// `run` must be spawned; after shutdown it flushes what is queued for at most 2 s.
    pub fn new(client: Client, reporter: &str, instance: &str) -> (Self, EventWriter) {
        todo!()
    }
    pub fn publish(
        &self,
        about: &ObjectRef,
        kind: EventType,
        reason: &str,
        action: &str,
        note: String,
    ) {
    }
}
pub struct EventWriter {}
impl EventWriter {
    pub async fn run(self, shutdown: Shutdown) {
        todo!()
    }
}
