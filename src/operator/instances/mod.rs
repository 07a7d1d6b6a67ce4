//! What the instances say: a standing watch on each instance manager, and commands to it.
//!
//! For the operator this is to MySQL servers what a list-watch is to API objects: the last state of
//! each, how fresh it is, and a wake-up when its shape changes or its voice is lost.

mod dial;
mod transport;
mod watch;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future;
use std::ops::Bound::{Excluded, Unbounded};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt as _;
use tokio::task::AbortHandle;
use tokio::time::Instant;

pub(crate) use self::dial::secure;
pub use self::dial::{DialError, Direct, InstanceDial};
use self::transport::Line;
pub use self::transport::{Access, Address, CommandFailure};
use super::observe::{Sight, Suspicion};
use crate::client::{Client, Fence};
use crate::instance::{Command, InstancePhase, InstanceStatus};
use crate::runtime::{Ended, ObjectKey};
use crate::sync::watch as watch_channel;

/// Standing watches on all instances of the clusters that this operator works on.
pub struct Instances {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    /// Commands leave only while this replica leads; the instances check its term besides.
    fence: Fence,
    access: Access,
    dial: Arc<dyn InstanceDial>,
    /// Wakes the reconcile of a cluster.
    wake: Box<dyn Fn(ObjectKey) + Send + Sync>,
    /// By pod key. Held for map operations only.
    entries: Mutex<BTreeMap<ObjectKey, Entry>>,
    /// The first watch that ended on its own.
    ended: watch_channel::Sender<Option<Ended>>,
}

struct Entry {
    cluster: ObjectKey,
    line: Arc<Line>,
    sight: Sight,
    /// Whether it is the one that the cluster's others are compared with.
    primary: bool,
    task: AbortHandle,
}

/// What metrics say of the instances of a cluster.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Voices {
    /// Those that are heard now.
    pub(super) heard: u32,
    /// How far the one that is furthest behind is, of those that are heard and say so.
    pub(super) lag_seconds: Option<f64>,
}

/// Instances looked at under one lock, for metrics: some ten microseconds.
const LOOKED_AT: usize = 256;

impl Drop for Entry {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Instances {
    /// No watches yet. `wake` is called with a cluster's key when an instance of it changed.
    pub fn new(
        client: Client,
        fence: Fence,
        access: Access,
        dial: Arc<dyn InstanceDial>,
        wake: impl Fn(ObjectKey) + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                client,
                fence,
                access,
                dial,
                wake: Box::new(wake),
                entries: Mutex::new(BTreeMap::new()),
                ended: watch_channel::Sender::new(None),
            }),
        }
    }

    /// Watch exactly these instances of `cluster`: new ones are begun, those whose pod, address or
    /// credentials changed are begun anew, others ended.
    pub fn track(&self, cluster: &ObjectKey, addresses: Vec<Address>) {
        let mut entries = self.shared.lock();
        let wanted: BTreeSet<ObjectKey> = addresses.iter().map(Address::key).collect();
        entries.retain(|key, entry| entry.cluster != *cluster || wanted.contains(key));
        for address in addresses {
            let key = address.key();
            if entries
                .get(&key)
                .is_some_and(|entry| entry.line.address == address)
            {
                continue;
            }
            let previous = entries.remove(&key);
            let uid = address.pod_uid.clone();
            let dial = Arc::clone(&self.shared.dial);
            let line = Arc::new(Line::new(address, self.shared.access, dial));
            let mut sight = Sight {
                pod_uid: uid.clone(),
                status: None,
                read_at: None,
                asked_at: None,
                fresh: false,
                since: Instant::now(),
                mute_since: None,
                error: "not heard of yet".into(),
                told_to_follow: None,
                told_to_clone: None,
                suspicion: None,
            };
            // The same pod behind new credentials is not a stranger.
            if let Some(previous) = previous.filter(|p| p.sight.pod_uid == uid) {
                sight.read_at = previous.sight.read_at;
                sight.status.clone_from(&previous.sight.status);
            }
            let watch = watch::run(self.shared.clone(), key.clone(), line.clone());
            let task = tokio::spawn(self.shared.clone().contain(key.clone(), watch));
            entries.insert(
                key,
                Entry {
                    cluster: cluster.clone(),
                    line,
                    sight,
                    primary: false,
                    task: task.abort_handle(),
                },
            );
        }
    }

    /// End all watches of a cluster.
    pub fn forget(&self, cluster: &ObjectKey) {
        self.shared
            .lock()
            .retain(|_, entry| entry.cluster != *cluster);
    }

    /// Waits for a watch that ends on its own: from then on its instance would look as it last was, or
    /// silent.
    pub async fn ended(&self) -> Ended {
        let mut ended = self.shared.ended.subscribe();
        loop {
            if let Some(ended) = ended.borrow_and_update().clone() {
                return ended;
            }
            // The sender lives in `self`.
            let _ = ended.changed().await;
        }
    }

    /// End all watches.
    pub fn clear(&self) {
        self.shared.lock().clear();
    }

    /// What is known of the instances of a cluster, by pod name. `primary` is the pod that the
    /// others' transactions are compared with.
    #[must_use]
    pub fn sights(&self, cluster: &ObjectKey, primary: Option<&str>) -> BTreeMap<String, Sight> {
        let mut entries = self.shared.lock();
        for (key, entry) in entries.iter_mut().filter(|(_, e)| e.cluster == *cluster) {
            entry.primary = primary == Some(&*key.name);
        }
        entries
            .iter()
            .filter(|(_, entry)| entry.cluster == *cluster)
            .map(|(key, entry)| (key.name.to_string(), entry.sight.clone()))
            .collect()
    }

    /// What metrics say, by cluster. Every word of an instance needs the lock: it is given back after
    /// each [`LOOKED_AT`] of them.
    pub(super) fn voices(&self) -> HashMap<ObjectKey, Voices> {
        let mut all: HashMap<ObjectKey, Voices> = HashMap::new();
        let mut last: Option<ObjectKey> = None;
        loop {
            let entries = self.shared.lock();
            let from = last.as_ref().map_or(Unbounded, Excluded);
            let mut seen = None;
            for (key, entry) in entries.range((from, Unbounded)).take(LOOKED_AT) {
                seen = Some(key.clone());
                all.entry(entry.cluster.clone())
                    .or_default()
                    .add(&entry.sight);
            }
            drop(entries);
            if seen.is_none() {
                return all;
            }
            last = seen;
        }
    }

    /// Give a command under the leader's `term`; what the instance then is becomes what is known.
    ///
    /// # Errors
    /// [`CommandFailure`]; the command may have been carried out all the same where it is
    /// [`CommandFailure::Unreachable`].
    pub async fn command(
        &self,
        pod: &ObjectKey,
        command: &Command,
        term: u64,
    ) -> Result<(), CommandFailure> {
        let line = {
            let mut entries = self.shared.lock();
            let entry = entries
                .get_mut(pod)
                .ok_or_else(|| CommandFailure::Unreachable(format!("{pod} is not watched")))?;
            match command {
                Command::Follow(_) => entry.sight.told_to_follow = Some(Instant::now()),
                Command::Clone(_) => entry.sight.told_to_clone = Some(Instant::now()),
                _ => {}
            }
            entry.line.clone()
        };
        let asked = Instant::now();
        let command = line.command(&self.shared.client, command, term);
        let Ok(answer) = self.shared.fence.guard(command).await else {
            let why = "this replica does not hold the lease";
            return Err(CommandFailure::Unreachable(why.into()));
        };
        let status = answer?;
        self.shared.heard(pod, &line, status, Some(asked));
        Ok(())
    }
}

/// Holds every instance's transactions against the primary's. Done whenever the primary speaks: at that
/// moment its reading is the newest, whatever the rhythm of the others.
fn suspect(entries: &mut BTreeMap<ObjectKey, Entry>, cluster: &ObjectKey, primary: &ObjectKey) {
    let Some(reference) = entries.get_mut(primary) else {
        return;
    };
    reference.sight.suspicion = None;
    let reference = reference.sight.clone();
    let others = entries
        .iter_mut()
        .filter(|(key, entry)| entry.cluster == *cluster && *key != primary);
    for (_, entry) in others {
        entry.sight.suspicion = Suspicion::of(&entry.sight, &reference);
    }
}

impl Voices {
    fn add(&mut self, sight: &Sight) {
        if !sight.fresh {
            return;
        }
        self.heard += 1;
        let server = sight.status.as_ref().and_then(|it| it.server.as_ref());
        let replication = server.and_then(|server| server.replication.as_ref());
        if let Some(lag) = replication.and_then(|replication| replication.lag_seconds) {
            let most = self.lag_seconds.map_or(lag, |before| before.max(lag));
            self.lag_seconds = Some(most);
        }
    }
}

impl Shared {
    /// Runs a watch, which ends only by being aborted.
    async fn contain(self: Arc<Self>, pod: ObjectKey, watch: impl Future<Output = ()>) {
        let task = format!("watch of instance {pod}");
        let ended = match AssertUnwindSafe(watch).catch_unwind().await {
            Ok(()) => Ended::returned(task),
            Err(panic) => Ended::panicked(task, &*panic),
        };
        self.ended.send_replace(Some(ended));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ObjectKey, Entry>> {
        // The map is whole after each operation, whoever panicked.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An instance spoke: by itself, or in answer to a command that was given at `asked`.
    fn heard(
        &self,
        pod: &ObjectKey,
        line: &Arc<Line>,
        status: InstanceStatus,
        asked: Option<Instant>,
    ) {
        let now = Instant::now();
        let cluster = {
            let mut entries = self.lock();
            let Some(entry) = entries.get_mut(pod).filter(|e| Arc::ptr_eq(&e.line, line)) else {
                return;
            };
            if status.pod_uid != entry.sight.pod_uid {
                return; // the address was passed on to another pod
            }
            let changed = !entry.sight.fresh
                || entry.sight.status.as_ref().map(shape) != Some(shape(&status));
            if !entry.sight.fresh {
                entry.sight.fresh = true;
                entry.sight.since = now;
                entry.sight.error.clear();
            }
            let mute = status.phase == InstancePhase::Running && status.server.is_none();
            entry.sight.mute_since = mute.then(|| entry.sight.mute_since.unwrap_or(now));
            entry.sight.status = Some(status);
            (entry.sight.read_at, entry.sight.asked_at) = (Some(now), asked);
            let cluster = entry.cluster.clone();
            if entry.primary {
                suspect(&mut entries, &cluster, pod);
            }
            changed.then_some(cluster)
        };
        if let Some(cluster) = cluster {
            (self.wake)(cluster);
        }
    }

    /// An instance is not heard any more.
    fn lost(&self, pod: &ObjectKey, line: &Arc<Line>, error: String) {
        let cluster = {
            let mut entries = self.lock();
            let Some(entry) = entries.get_mut(pod).filter(|e| Arc::ptr_eq(&e.line, line)) else {
                return;
            };
            entry.sight.error = error;
            if !entry.sight.fresh {
                return;
            }
            entry.sight.fresh = false;
            entry.sight.since = Instant::now();
            entry.cluster.clone()
        };
        (self.wake)(cluster);
    }
}

/// A status without what changes all the time: positions, how long the source was silent, lag but
/// for its order of size.
fn shape(status: &InstanceStatus) -> InstanceStatus {
    let mut shape = status.clone();
    if let Some(server) = &mut shape.server {
        let empty = server.gtid_executed.is_empty();
        server.gtid_executed = if empty { String::new() } else { "…".into() };
        server.gtid_purged = String::new();
        server.semi_sync_waiting = 0;
        if let Some(replication) = &mut server.replication {
            replication.received = String::new();
            replication.source_silent_ms = 0;
            // Whether it lags is of interest, not by how much exactly.
            replication.lag_seconds = replication.lag_seconds.map(|lag| (lag / 30.0).floor());
        }
    }
    shape
}
