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
    /// Held for map operations only.
    entries: Mutex<Clusters>,
    /// The first watch that ended on its own.
    ended: watch_channel::Sender<Option<Ended>>,
}

/// By cluster, so that what is done for one costs the same however many others there are. None is empty.
type Clusters = BTreeMap<ObjectKey, Pods>;

/// The instances of one cluster, by pod name.
type Pods = BTreeMap<Arc<str>, Entry>;

struct Entry {
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
        let mut clusters = self.shared.lock();
        if addresses.is_empty() {
            clusters.remove(cluster);
            return;
        }
        let pods = clusters.entry(cluster.clone()).or_default();
        let wanted: BTreeSet<&str> = addresses.iter().map(|a| a.pod.as_str()).collect();
        pods.retain(|pod, _| wanted.contains(&**pod));
        for address in addresses {
            let name: Arc<str> = address.pod.as_str().into();
            if pods
                .get(&name)
                .is_some_and(|entry| entry.line.address == address)
            {
                continue;
            }
            let previous = pods.remove(&name);
            let uid = address.pod_uid.clone();
            let dial = Arc::clone(&self.shared.dial);
            let line = Line::new(cluster.clone(), address, self.shared.access, dial);
            let line = Arc::new(line);
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
            let pod = line.address.key();
            let watch = watch::run(self.shared.clone(), pod.clone(), line.clone());
            let task = tokio::spawn(self.shared.clone().contain(pod, watch));
            pods.insert(
                name,
                Entry {
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
        self.shared.lock().remove(cluster);
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
        let mut clusters = self.shared.lock();
        let pods = clusters.get_mut(cluster).into_iter().flatten();
        pods.map(|(pod, entry)| {
            entry.primary = primary == Some(&**pod);
            (pod.to_string(), entry.sight.clone())
        })
        .collect()
    }

    /// What metrics say, by cluster. Every word of an instance needs the lock: it is given back after
    /// each [`LOOKED_AT`] of them, or after a cluster that alone has more.
    pub(super) fn voices(&self) -> HashMap<ObjectKey, Voices> {
        let mut all: HashMap<ObjectKey, Voices> = HashMap::new();
        let mut last: Option<ObjectKey> = None;
        loop {
            let clusters = self.shared.lock();
            let from = last.as_ref().map_or(Unbounded, Excluded);
            let (mut looked_at, mut seen) = (0, None);
            for (cluster, pods) in clusters.range((from, Unbounded)) {
                looked_at += pods.len();
                if looked_at > LOOKED_AT && seen.is_some() {
                    break;
                }
                seen = Some(cluster.clone());
                let voices = all.entry(cluster.clone()).or_default();
                for entry in pods.values() {
                    voices.add(&entry.sight);
                }
            }
            drop(clusters);
            if seen.is_none() {
                return all;
            }
            last = seen;
        }
    }

    /// Give a command to a cluster's `pod` under the leader's `term`; what the instance then is becomes
    /// what is known.
    ///
    /// # Errors
    /// [`CommandFailure`]; the command may have been carried out all the same where it is
    /// [`CommandFailure::Unreachable`].
    pub async fn command(
        &self,
        cluster: &ObjectKey,
        pod: &str,
        command: &Command,
        term: u64,
    ) -> Result<(), CommandFailure> {
        let line = {
            let mut clusters = self.shared.lock();
            let entry = clusters
                .get_mut(cluster)
                .and_then(|pods| pods.get_mut(pod))
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
        self.shared.heard(&line, status, Some(asked));
        Ok(())
    }
}

/// Holds every instance's transactions against the primary's. Done whenever the primary speaks: at that
/// moment its reading is the newest, whatever the rhythm of the others.
fn suspect(pods: &mut Pods, primary: &str) {
    let Some(reference) = pods.get_mut(primary) else {
        return;
    };
    reference.sight.suspicion = None;
    let reference = reference.sight.clone();
    for (pod, entry) in pods {
        if **pod != *primary {
            entry.sight.suspicion = Suspicion::of(&entry.sight, &reference);
        }
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Clusters> {
        // The map is whole after each operation, whoever panicked.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An instance spoke: by itself, or in answer to a command that was given at `asked`.
    fn heard(&self, line: &Arc<Line>, status: InstanceStatus, asked: Option<Instant>) {
        let now = Instant::now();
        let changed = {
            let mut clusters = self.lock();
            let Some(pods) = clusters.get_mut(&line.cluster) else {
                return;
            };
            let Some(entry) = entry_of(pods, line) else {
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
            if entry.primary {
                suspect(pods, &line.address.pod);
            }
            changed
        };
        if changed {
            (self.wake)(line.cluster.clone());
        }
    }

    /// An instance is not heard any more.
    fn lost(&self, line: &Arc<Line>, error: String) {
        {
            let mut clusters = self.lock();
            let pods = clusters.get_mut(&line.cluster);
            let Some(entry) = pods.and_then(|pods| entry_of(pods, line)) else {
                return;
            };
            entry.sight.error = error;
            if !entry.sight.fresh {
                return;
            }
            entry.sight.fresh = false;
            entry.sight.since = Instant::now();
        }
        (self.wake)(line.cluster.clone());
    }
}

/// The entry that has this line still: another may have taken its place.
fn entry_of<'a>(pods: &'a mut Pods, line: &Arc<Line>) -> Option<&'a mut Entry> {
    let entry = pods.get_mut(line.address.pod.as_str());
    entry.filter(|entry| Arc::ptr_eq(&entry.line, line))
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

#[cfg(test)]
mod tests;
