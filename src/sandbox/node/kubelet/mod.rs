//! The kubelets of all nodes: a worker for each pod that is bound to one.

pub(super) mod config;
mod facts;
mod link;
mod report;
mod worker;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::kinds::Pod;
use super::machine::ContainerRun;
use super::nodes;
use super::runtime::{ContainerRuntime, PodRef, Signal};
use super::stores::Stores;
use crate::client::{Client, Stream};
use crate::runtime::{Change, EventRecorder, Kind as _, ObjectKey};
pub(super) use facts::NodeFacts;
pub use facts::PodFacts;
use link::{Link, Linked};
use worker::{View, Worker};

/// All kubelets.
pub(super) struct Kubelet {
    client: Client,
    stores: Stores,
    runtime: Arc<dyn ContainerRuntime>,
    events: EventRecorder,
    state: Mutex<State>,
    /// Counts changes of Secrets, ConfigMaps and claims.
    config: watch::Sender<u64>,
    /// Images that can be pulled; `None`: all.
    images: Option<BTreeSet<String>>,
}

/// Held for map operations only.
#[derive(Default)]
struct State {
    /// Everything was listed once: what pods need is known.
    begun: bool,
    nodes: Vec<NodeState>,
    /// By UID.
    pods: BTreeMap<String, Entry>,
    /// The UID of the pod that uses a persistent volume.
    attached: BTreeMap<String, String>,
    /// The ways to pods, by name: they outlive a pod as a cut does.
    links: BTreeMap<ObjectKey, Link>,
}

struct NodeState {
    address: IpAddr,
    failed: Option<Instant>,
}

struct Entry {
    place: PodRef,
    node: String,
    view: watch::Sender<View>,
    task: Option<AbortHandle>,
}

impl Kubelet {
    /// Kubelets of so many nodes; none has a pod yet.
    pub(super) fn new(
        client: Client,
        stores: Stores,
        runtime: Arc<dyn ContainerRuntime>,
        events: EventRecorder,
        count: usize,
        images: Option<BTreeSet<String>>,
    ) -> Self {
        let mut taken = BTreeSet::new();
        let nodes = (0..count.max(1)).map(|_| {
            let address = runtime.address(&taken);
            taken.insert(address);
            NodeState {
                address,
                failed: None,
            }
        });
        let state = State {
            nodes: nodes.collect(),
            ..State::default()
        };
        Self {
            client,
            stores,
            runtime,
            events,
            state: Mutex::new(state),
            config: watch::Sender::new(0),
            images,
        }
    }

    /// All nodes. One that failed counts as lost a while later: nobody tells.
    pub(super) fn nodes(&self) -> Vec<NodeFacts> {
        let state = self.lock();
        let facts = |(index, node): (usize, &NodeState)| {
            let lost = node.failed.map(|at| at + nodes::MONITOR_GRACE);
            NodeFacts {
                index,
                address: node.address,
                lost: lost.filter(|lost| *lost <= Instant::now()),
            }
        };
        state.nodes.iter().enumerate().map(facts).collect()
    }

    /// Secrets, ConfigMaps or claims have changed, or a volume was let go of.
    pub(super) fn config_changed(&self) {
        self.config.send_modify(|count| *count += 1);
    }

    /// Everything was listed: takes up the pods that there are.
    pub(super) fn begin(self: &Arc<Self>) {
        self.lock().begun = true;
        let pods = super::stores::all(&self.stores.pods);
        for pod in &pods {
            self.applied(pod);
        }
        for orphan in self.runtime.pods() {
            if !pods.iter().any(|pod| pod.meta().uid == orphan.uid) {
                self.clean_up(orphan);
            }
        }
    }

    /// Ends a pod that was removed from the API while no kubelet was here.
    fn clean_up(&self, orphan: PodRef) {
        tracing::info!(
            pod = orphan.name,
            uid = orphan.uid,
            "nobody knows the pod any more"
        );
        let runtime = Arc::clone(&self.runtime);
        self.kill_all(&orphan);
        tokio::spawn(async move {
            for (container, run) in runtime.running(&orphan) {
                runtime
                    .wait(&orphan, &ContainerRun { container, run })
                    .await;
            }
            runtime.unmount(&orphan).await;
        });
    }

    /// Takes in a change of a pod.
    pub(super) fn pod(self: &Arc<Self>, change: &Change<Pod>) {
        match change {
            Change::Applied { new, .. } => self.applied(new),
            Change::Deleted { last } => {
                if let Some(entry) = self.lock().pods.get(last.meta().uid.as_str()) {
                    entry.view.send_modify(|view| view.gone = true);
                }
            }
        }
    }

    fn applied(self: &Arc<Self>, pod: &Arc<Pod>) {
        let mut state = self.lock();
        if let Some(entry) = state.pods.get(pod.meta().uid.as_str()) {
            entry.view.send_modify(|view| view.pod = Arc::clone(pod));
            return;
        }
        let node = pod.node();
        let Some(index) = (0..state.nodes.len()).find(|index| nodes::name(*index) == node) else {
            return;
        };
        if !state.begun || state.nodes[index].failed.is_some() {
            return;
        }
        let place = self.place(&state, pod);
        let view = View {
            pod: Arc::clone(pod),
            gone: false,
        };
        let (view, viewed) = watch::channel(view);
        let host_ip = state.nodes[index].address;
        let worker = Worker::new(Arc::clone(self), place.clone(), host_ip, viewed);
        let uid = pod.meta().uid.to_string();
        state.pods.insert(
            uid.clone(),
            Entry {
                place,
                node: node.to_owned(),
                view,
                task: None,
            },
        );
        // After the entry is there, for the worker takes it away.
        let task = tokio::spawn(worker.run()).abort_handle();
        if let Some(entry) = state.pods.get_mut(&uid) {
            entry.task = Some(task);
        }
    }

    /// Where the pod is: its old address, where nobody else has it by now.
    fn place(&self, state: &State, pod: &Pod) -> PodRef {
        let mut taken: BTreeSet<IpAddr> = state.pods.values().map(|entry| entry.place.ip).collect();
        taken.extend(state.nodes.iter().map(|node| node.address));
        let known = pod.status.pod_ip.as_ref().and_then(|ip| ip.parse().ok());
        let known = known.filter(|ip| !taken.contains(ip));
        let ip = known.unwrap_or_else(|| self.runtime.address(&taken));
        let meta = pod.meta();
        let host = pod.spec.hostname.as_ref().zip(pod.spec.subdomain.as_ref());
        PodRef {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            uid: meta.uid.to_string(),
            ip,
            host: host.map(|(name, domain)| format!("{name}.{domain}.{}.svc", meta.namespace)),
        }
    }

    /// All pods that there are, by namespace and name.
    pub(super) fn facts(&self) -> Vec<PodFacts> {
        let state = self.lock();
        let facts = state.pods.values().map(|entry| {
            let place = &entry.place;
            let key = ObjectKey::new(&place.namespace, &place.name);
            PodFacts {
                namespace: place.namespace.clone(),
                name: place.name.clone(),
                uid: place.uid.clone(),
                node: entry.node.clone(),
                ip: place.ip,
                host: place.host.clone(),
                running: self.runtime.running(place).into_iter().collect(),
                cut: state.links.get(&key).is_some_and(Link::is_cut),
            }
        });
        let mut facts: Vec<_> = facts.collect();
        facts.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        facts
    }

    /// The pod of that name, the one that is not being deleted where there are two.
    fn find(&self, namespace: &str, name: &str) -> Option<PodRef> {
        let state = self.lock();
        let of_name =
            |entry: &&Entry| entry.place.namespace == namespace && entry.place.name == name;
        let found = state.pods.values().filter(of_name);
        let last = found.max_by_key(|entry| !entry.view.borrow().gone)?;
        Some(last.place.clone())
    }

    /// A stream to a port of a pod.
    pub(super) async fn dial(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
        tls: bool,
    ) -> io::Result<Box<dyn Stream>> {
        let link = self.lock().link(namespace, name);
        // Nobody says that the way is cut: the caller waits.
        link.whole().await;
        let unknown = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                format!("no pod {namespace}/{name}"),
            )
        };
        let place = self.find(namespace, name).ok_or_else(unknown)?;
        let stream = self.runtime.dial(&place, port, tls).await?;
        Ok(Box::new(Linked::new(stream, link)))
    }

    /// Cuts a pod (and those that follow it under its name) off, or heals that.
    pub(super) fn cut(&self, namespace: &str, name: &str, cut: bool) {
        let link = self.lock().link(namespace, name);
        link.set(cut);
        if let Some(place) = self.find(namespace, name) {
            self.runtime.cut(&place, cut);
        }
    }

    fn is_cut(&self, place: &PodRef) -> bool {
        self.lock().link(&place.namespace, &place.name).is_cut()
    }

    /// SIGKILL of all containers of a pod; false where none runs.
    pub(super) fn kill_containers(&self, namespace: &str, name: &str) -> bool {
        let Some(place) = self.find(namespace, name) else {
            return false;
        };
        self.kill_all(&place)
    }

    fn kill_all(&self, place: &PodRef) -> bool {
        let running = self.runtime.running(place);
        let any = !running.is_empty();
        for (container, run) in running {
            let run = ContainerRun { container, run };
            self.runtime.signal(place, &run, Signal::Kill);
        }
        any
    }

    /// SIGKILL of a pod's mysqld; false where none runs.
    pub(super) fn kill_mysqld(&self, namespace: &str, name: &str) -> bool {
        self.find(namespace, name)
            .is_some_and(|place| self.runtime.kill_mysqld(&place))
    }

    /// A node loses its power: everything on it is gone, and nobody tells.
    pub(super) fn fail(&self, node: &str) {
        let mut state = self.lock();
        let Some(index) = (0..state.nodes.len()).find(|index| nodes::name(*index) == node) else {
            return;
        };
        state.nodes[index].failed.get_or_insert_with(Instant::now);
        let lost: Vec<String> = (state.pods.iter())
            .filter(|(_, entry)| entry.node == node)
            .map(|(uid, _)| uid.clone())
            .collect();
        for uid in lost {
            let Some(entry) = state.pods.remove(&uid) else {
                continue;
            };
            if let Some(task) = entry.task {
                task.abort();
            }
            self.kill_all(&entry.place);
            state.attached.retain(|_, holder| *holder != uid);
        }
        drop(state);
        self.config_changed();
    }

    /// A failed node is back: its pods are taken up again.
    pub(super) fn restore(self: &Arc<Self>, node: &str) {
        {
            let mut state = self.lock();
            let found = (0..state.nodes.len()).find(|index| nodes::name(*index) == node);
            let Some(index) = found else {
                return;
            };
            state.nodes[index].failed = None;
        }
        for pod in super::stores::all(&self.stores.pods) {
            if pod.node() == node {
                self.applied(&pod);
            }
        }
    }

    /// Ends all workers; what they run goes on.
    pub(super) fn stop(&self) {
        for entry in self.lock().pods.values() {
            if let Some(task) = &entry.task {
                task.abort();
            }
        }
    }

    /// The pod's volumes are free: another may wait for them.
    fn detach(&self, uid: &str) {
        self.lock().attached.retain(|_, holder| holder != uid);
        self.config_changed();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after each operation, whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn link(&mut self, namespace: &str, name: &str) -> Link {
        let key = ObjectKey::new(namespace, name);
        self.links.entry(key).or_default().clone()
    }
}
