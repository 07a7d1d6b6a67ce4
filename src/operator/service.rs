//! The operator proper: what is started in which order, and stopped in the reverse. It needs a client
//! and nothing else of the process, so that several run in one (tests, the simulation).

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;

use super::act::Actor;
use super::children::Children;
use super::instances::{Access, Direct, InstanceDial, Instances};
use super::kinds::{Cluster, ConfigMap, Pod, PodDisruptionBudget, Secret, Service, VolumeClaim};
use super::lead::lead;
use super::metric::Figures;
use super::notes::Notes;
use super::reconcile::ClusterReconciler;
use super::resources::{CLUSTER_LABEL, MANAGED_SELECTOR};
use super::stores::Stores;
use super::tuning::Tuning;
use crate::client::{Client, ConfigError, Error, Fence};
use crate::runtime::{
    Change, Controller, ControllerOptions, ElectionOptions, Elector, Ended, EventRecorder, Health,
    Kind, LeadershipWatch, ListWatch, Meta, ObjectKey, Pause, Priority, Queue, Scope, Shutdown,
    Source, Store, Tasks, WatchLimits, sources,
};

/// How the operator is to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Namespaces to work in; none for all.
    pub namespaces: BTreeSet<String>,
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
    #[error("{0}")]
    TaskEnded(Ended),
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
        // Caches first: what reads them waits for them. The queue is closed until this replica leads.
        let stores = Stores::new();
        let queue = Queue::new("mysqlcluster", client.environment());
        queue.pause(Pause::Standby);
        let mut caches = Tasks::new();
        start_watches(&client, &options, &stores, &queue, &health, &mut caches);

        let fenced = client.with_fence(fence.clone());
        let tuning = options.tuning;
        let identity = &options.election.identity;
        let (recorder, writer) =
            EventRecorder::with_limits(fenced.clone(), "mainstay", identity, tuning.events);
        let mut events = Tasks::new();
        events.spawn("event writer", |stop| writer.run(stop));

        let wake = queue.clone();
        let wake = move |key| wake.add(key, Priority::High);
        let access = options.instance_access;
        let instances = Instances::new(fenced.clone(), fence.clone(), access, dial, wake);
        let instances = Arc::new(instances);
        let figures = Figures::new(&options.election, &leadership, fence, &stores, &instances);
        let moves = figures.export(&health);
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
            Notes::new(recorder, moves.clone()),
            leadership.clone(),
            client.environment().clone(),
        );

        let mut election = Tasks::new();
        election.spawn("elector", |stop| elector.run(stop));
        let clusters = stores.clusters.clone();
        let mut following = Tasks::new();
        let lead = lead(leadership, stores, queue.clone(), instances.clone(), moves);
        following.spawn("leadership", |stop| until(stop, lead));

        let breaker = client.breaker();
        if let Some(breaker) = breaker.clone() {
            let state = breaker.clone();
            health.debug("breaker".to_owned(), move || state.to_string().into());
            health.readiness("breaker".to_owned(), move || Ok(breaker.to_string()));
        }
        let controller = Controller::new(
            "mysqlcluster",
            queue,
            Arc::new(reconciler),
            ControllerOptions {
                workers: options.workers,
                deadline: tuning.reconcile_deadline,
                environment: client.environment().clone(),
                window: tuning.window,
                backoff_initial: tuning.backoff_initial,
                backoff_max: tuning.backoff_max,
                stalled_after: tuning.stalled_after,
            },
        )
        .with_health(&health)
        .with_breaker(breaker);
        let controller = match tuning.resync {
            Some(period) => controller.with_source(resync(period, clusters)),
            None => controller,
        };
        let workers = AssertUnwindSafe(controller.run(stop, options.shutdown_grace));
        let identity = options.election.identity;
        tracing::info!(server = client.server(), identity, "started");

        // A task that dies ends the process with its name: it would look alive, and not do its work.
        let ended = tokio::select! {
            biased;
            left = workers.catch_unwind() => {
                left.map_err(|panic| Ended::panicked("workers", &*panic))
            }
            ended = caches.ended() => Err(ended),
            ended = events.ended() => Err(ended),
            ended = election.ended() => Err(ended),
            ended = following.ended() => Err(ended),
            ended = instances.ended() => Err(ended),
        };
        let left = ended.map_err(RunError::TaskEnded)?;

        // The workers end only on the stop signal, drained. Then, in the reverse order of the start:
        // nobody is told to begin anew, what happened is told, the lease is free, caches end.
        for layer in [following, events, election, caches] {
            for died in layer.stop().await {
                tracing::warn!(%died, "while stopping");
            }
        }
        Ok(left)
    }
}

/// All clusters, now and then, whatever the watches tell.
fn resync(period: Duration, clusters: Store<Cluster>) -> Source {
    sources::every(period, move || {
        let all = clusters.list().unwrap_or_default().into_iter();
        all.map(|cluster| cluster.metadata.key())
    })
}

/// Runs what never ends until `stop`.
async fn until(stop: Shutdown, task: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = stop.triggered() => {}
        () = task => {}
    }
}

fn start_watches(
    client: &Client,
    options: &Options,
    stores: &Stores,
    queue: &Queue,
    health: &Health,
    tasks: &mut Tasks,
) {
    let all = Scope {
        namespaces: options.namespaces.clone(),
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
    let watch = ListWatch::new(client.clone(), all, stores.clusters.clone(), on_cluster)
        .with_limits(options.tuning.watch)
        .with_health(health);
    tasks.spawn("watch of mysqlclusters", |stop| watch.run(stop));
    let mut watches = Watches {
        client,
        scope: &ours,
        limits: options.tuning.watch,
        queue,
        health,
        tasks,
    };
    watches.children::<Pod>(&stores.pods);
    watches.children::<Secret>(&stores.secrets);
    watches.children::<Service>(&stores.services);
    watches.children::<ConfigMap>(&stores.config_maps);
    watches.children::<PodDisruptionBudget>(&stores.budgets);
    watches.children::<VolumeClaim>(&stores.volumes);
}

struct Watches<'a> {
    client: &'a Client,
    scope: &'a Scope,
    limits: WatchLimits,
    queue: &'a Queue,
    health: &'a Health,
    tasks: &'a mut Tasks,
}

impl Watches<'_> {
    fn children<K: Kind>(&mut self, store: &Store<K>) {
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
        let (client, scope) = (self.client.clone(), self.scope.clone());
        let watch = ListWatch::new(client, scope, store.clone(), handler)
            .with_limits(self.limits)
            .with_health(self.health);
        let name = format!("watch of {}", K::RESOURCE.plural);
        self.tasks.spawn(name, |stop| watch.run(stop));
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
