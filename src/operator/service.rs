//! The operator proper: what is started in which order, and stopped in the reverse. It needs a client
//! and nothing else of the process, so that several run in one (tests, the simulation).

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::act::Actor;
use super::children::Children;
use super::instances::{Access, Direct, InstanceDial, Instances};
use super::kinds::{Cluster, ConfigMap, Pod, PodDisruptionBudget, Secret, Service, VolumeClaim};
use super::reconcile::ClusterReconciler;
use super::resources::{CLUSTER_LABEL, MANAGED_SELECTOR};
use super::stores::Stores;
use super::tuning::Tuning;
use crate::client::{Client, ConfigError, Error, Fence};
use crate::runtime::{
    Change, Controller, ControllerOptions, ElectionOptions, Elector, EventRecorder, Health, Kind,
    Leadership, LeadershipWatch, ListWatch, Meta, ObjectKey, Pause, Priority, Queue, Scope,
    Shutdown, Source, Store, WatchLimits, sources,
};

/// How the operator is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespace to work in; `None` for all.
    pub namespace: Option<String>,
    /// Reconciles at a time.
    pub workers: usize,
    /// The Lease.
    pub election: ElectionOptions,
    /// How long running reconciles may take to finish once the stop is asked for.
    pub shutdown_grace: Duration,
    /// How instances are reached.
    pub instance_access: Access,
    /// Image that brings the instance manager into MySQL pods.
    pub operator_image: String,
    /// Limits and intervals.
    pub tuning: Tuning,
}

/// Why the operator did not start, or ended other than on request.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// No usable API server configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The API server does not let us in, or (outside a cluster) does not answer.
    #[error("API server {server} (context from {origin}): {error}")]
    ApiServer {
        /// Its URL.
        server: String,
        /// Where its address came from.
        origin: String,
        /// What it said.
        error: Box<Error>,
    },
    /// The probe and metrics address is not to be had.
    #[error("can't listen on {address} (--listen): {error}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's words.
        error: std::io::Error,
    },
    /// Election options that contradict each other.
    #[error("leader election: {0}")]
    Election(String),
    /// Metrics or signals can't be set up.
    #[error("{0}")]
    Setup(String),
    /// A task that must live as long as the process ended.
    #[error("{0} ended unexpectedly")]
    TaskEnded(&'static str),
}

/// One replica of the operator.
pub struct Operator {
    client: Client,
    options: Options,
    health: Health,
    dial: Arc<dyn InstanceDial>,
    elector: Elector,
    leadership: LeadershipWatch,
    fence: Fence,
}

impl Operator {
    /// A replica that does not run yet. Its checks are registered with `health`.
    ///
    /// # Errors
    /// [`RunError::Election`] for election options that contradict each other.
    pub fn new(client: Client, options: Options, health: &Health) -> Result<Self, RunError> {
        let (elector, leadership, fence) =
            Elector::new(client.election_lane(), options.election.clone())
                .map_err(RunError::Election)?;
        Ok(Self {
            client,
            options,
            health: health.clone(),
            dial: Arc::new(Direct),
            elector: elector.with_health(health),
            leadership,
            fence,
        })
    }

    /// Reaches instances through `dial`, where they are not reached through the API server.
    #[must_use]
    pub fn with_instance_dial(self, dial: Arc<dyn InstanceDial>) -> Self {
        Self { dial, ..self }
    }

    /// Whether this replica leads.
    #[must_use]
    pub fn leadership(&self) -> LeadershipWatch {
        self.leadership.clone()
    }

    /// What all its writes pass.
    #[must_use]
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Runs until `stop`, and then to the end: running reconciles, Events, the lease. Returns how many
    /// keys were left undone.
    ///
    /// # Errors
    /// [`RunError::TaskEnded`] when a task that must live as long as the operator ended.
    pub async fn run(self, stop: Shutdown) -> Result<usize, RunError> {
        let Self {
            client,
            options,
            health,
            dial,
            elector,
            leadership,
            fence,
        } = self;
        let stores = Stores::new();
        let queue = Queue::new("mysqlcluster", client.environment());
        queue.pause(Pause::Standby);
        let watches_stop = Shutdown::new();
        let watches = start_watches(&client, &options, &stores, &queue, &health, &watches_stop);

        let fenced = client.with_fence(fence.clone());
        let tuning = options.tuning;
        let identity = &options.election.identity;
        let (events, writer) =
            EventRecorder::with_limits(fenced.clone(), "mainstay", identity, tuning.events);
        let events_stop = Shutdown::new();
        let events_task = tokio::spawn(writer.run(events_stop.clone()));

        let wake = queue.clone();
        let wake = move |key| wake.add(key, Priority::High);
        let access = options.instance_access;
        let instances = Arc::new(Instances::new(fenced.clone(), fence, access, dial, wake));
        let image = &options.operator_image;
        let children = || Children::new(fenced.clone(), stores.clone(), image.clone());
        let reconciler = ClusterReconciler::new(
            stores.clone(),
            instances.clone(),
            children(),
            Actor::new(
                fenced.clone(),
                stores.clone(),
                instances.clone(),
                Arc::new(children()),
            ),
            events,
            leadership.clone(),
            client.environment().clone(),
        );
        let breaker = client.breaker();
        if let Some(breaker) = breaker.clone() {
            health.readiness("breaker".to_owned(), move || Ok(breaker.to_string()));
        }
        let controller = Controller::new(
            "mysqlcluster",
            queue.clone(),
            Arc::new(reconciler),
            ControllerOptions {
                workers: options.workers,
                deadline: tuning.reconcile_deadline,
                environment: client.environment().clone(),
                window: tuning.window,
                backoff_initial: tuning.backoff_initial,
                backoff_max: tuning.backoff_max,
            },
        )
        .with_health(&health)
        .with_breaker(breaker);
        let controller = match tuning.resync {
            Some(period) => controller.with_source(resync(period, &stores)),
            None => controller,
        };
        let mut controller = tokio::spawn(controller.run(stop, options.shutdown_grace));
        let elector_stop = Shutdown::new();
        let mut elector = tokio::spawn(elector.run(elector_stop.clone()));
        let mut leading = tokio::spawn(lead(leadership, stores, queue, instances));
        let identity = options.election.identity;
        tracing::info!(server = client.server(), identity, "started");

        // A task that dies ends the process with its name; it would be a process that looks alive.
        let left = tokio::select! {
            biased;
            left = &mut controller => left.map_err(|_| RunError::TaskEnded("controller"))?,
            _ = &mut elector => return Err(RunError::TaskEnded("elector")),
            _ = &mut leading => return Err(RunError::TaskEnded("leadership task")),
        };
        // The controller ends only on the stop signal, drained. Then Events, lease, watches.
        leading.abort();
        finish(&events_stop, events_task).await;
        finish(&elector_stop, elector).await;
        watches_stop.trigger();
        for watch in watches {
            let _ = watch.await;
        }
        Ok(left)
    }
}

/// All clusters, now and then, whatever the watches tell.
fn resync(period: Duration, stores: &Stores) -> Source {
    let clusters = stores.clusters.clone();
    sources::every(period, move || {
        let all = clusters.list().unwrap_or_default().into_iter();
        all.map(|cluster| cluster.metadata.key())
    })
}

async fn finish(stop: &Shutdown, task: JoinHandle<()>) {
    stop.trigger();
    let _ = task.await;
}

/// Works only while leading: the queue hands out keys once the caches hold their first lists.
async fn lead(
    mut leadership: LeadershipWatch,
    stores: Stores,
    queue: Queue,
    instances: Arc<Instances>,
) {
    let mut state = leadership.current();
    loop {
        match &state {
            Leadership::Leader { term } => {
                tracing::info!(term, "leading");
                tokio::select! {
                    biased;
                    () = stores.synced() => {
                        for cluster in stores.clusters.list().unwrap_or_default() {
                            queue.add(cluster.metadata.key(), Priority::Low);
                        }
                        queue.resume(Pause::Standby);
                    }
                    changed = leadership.changed() => {
                        state = changed;
                        continue;
                    }
                }
            }
            Leadership::Standby { .. } | Leadership::Unknown => {
                queue.pause(Pause::Standby);
                instances.clear();
            }
        }
        state = leadership.changed().await;
    }
}

fn start_watches(
    client: &Client,
    options: &Options,
    stores: &Stores,
    queue: &Queue,
    health: &Health,
    stop: &Shutdown,
) -> Vec<JoinHandle<()>> {
    let all = Scope {
        namespace: options.namespace.clone(),
        ..Scope::default()
    };
    let ours = Scope {
        label_selector: Some(MANAGED_SELECTOR.to_owned()),
        ..all.clone()
    };
    let clusters = queue.clone();
    let on_cluster = move |change: Change<Cluster>| {
        if let Some((key, priority)) = cluster_change(&change) {
            clusters.add(key, priority);
        }
    };
    let watch = Watches {
        client,
        scope: &ours,
        limits: options.tuning.watch,
        queue,
        health,
        stop,
    };
    vec![
        tokio::spawn(
            ListWatch::new(client.clone(), all, stores.clusters.clone(), on_cluster)
                .with_limits(options.tuning.watch)
                .with_health(health)
                .run(stop.clone()),
        ),
        tokio::spawn(watch.children::<Pod>(&stores.pods)),
        tokio::spawn(watch.children::<Secret>(&stores.secrets)),
        tokio::spawn(watch.children::<Service>(&stores.services)),
        tokio::spawn(watch.children::<ConfigMap>(&stores.config_maps)),
        tokio::spawn(watch.children::<PodDisruptionBudget>(&stores.budgets)),
        tokio::spawn(watch.children::<VolumeClaim>(&stores.volumes)),
    ]
}

struct Watches<'a> {
    client: &'a Client,
    scope: &'a Scope,
    limits: WatchLimits,
    queue: &'a Queue,
    health: &'a Health,
    stop: &'a Shutdown,
}

impl Watches<'_> {
    fn children<K: Kind>(&self, store: &Store<K>) -> impl Future<Output = ()> + Send + use<K> {
        let queue = self.queue.clone();
        let handler = move |change: Change<K>| {
            let object = match &change {
                Change::Applied { new, .. } => new,
                Change::Deleted { last } => last,
            };
            if let Some(key) = cluster_of(object.meta()) {
                queue.add(key, Priority::Normal);
            }
        };
        ListWatch::new(
            self.client.clone(),
            self.scope.clone(),
            store.clone(),
            handler,
        )
        .with_limits(self.limits)
        .with_health(self.health)
        .run(self.stop.clone())
    }
}

/// The cluster that a child belongs to.
fn cluster_of(meta: &Meta) -> Option<ObjectKey> {
    let name = meta.labels.get(CLUSTER_LABEL)?;
    Some(ObjectKey::new(&meta.namespace, name))
}

/// Our own writes of the status are no reason to look again.
fn cluster_change(change: &Change<Cluster>) -> Option<(ObjectKey, Priority)> {
    match change {
        Change::Deleted { last } => Some((last.metadata.key(), Priority::High)),
        Change::Applied { old: None, new } => Some((new.metadata.key(), Priority::Low)),
        Change::Applied {
            old: Some(old),
            new,
        } => {
            let (before, after) = (&old.metadata, &new.metadata);
            let same = before.uid == after.uid
                && before.generation == after.generation
                && before.annotations == after.annotations
                && before.deletion_timestamp == after.deletion_timestamp;
            (!same).then(|| (after.key(), Priority::High))
        }
    }
}
