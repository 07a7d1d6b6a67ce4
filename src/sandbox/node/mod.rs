//! A local node: what kubelets, a scheduler, a provisioner of volumes and the endpoints controller do,
//! as far as an operator can see it.
//!
//! It is a client of an API server like any of them, and knows nothing of the one it talks to. It
//! promises that
//! - a pod's status says what its containers do, whatever was killed or restarted before;
//! - a pod is removed only after its containers have ended and its volumes are free;
//! - a persistent volume is used by one pod at a time, and its data goes with its claim only;
//! - over [`Models`], on a paused clock and with a seeded client, it does the same each time.
//!
//! `machine/`, `schedule.rs`, `scheduling.rs`, `volumes.rs`, `nodes.rs` and `endpoints.rs` decide, and
//! are pure; `kubelet/` and `control.rs` look, write and run; `runtime/` is what runs containers.
//!
//! What Mainstay's pods don't need is left out: containers besides init and ordinary ones, exec probes,
//! lifecycle hooks, resource limits, images (any name is good, unless the options say which are).

mod control;
mod endpoints;
mod kinds;
mod kubelet;
mod logs;
mod machine;
mod nodes;
mod runtime;
mod schedule;
mod scheduling;
mod stores;
#[cfg(test)]
mod tests;
mod volumes;
mod writer;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::AsyncRead;
use tokio::time::timeout;

use crate::apiserver::{LogOptions, PodDial, PodStream};
use crate::client::{Client, Stream};
use crate::instance::PORT;
use crate::operator::instances::{Address, DialError, InstanceDial, secure};
use crate::runtime::{EventRecorder, EventWriter, Shutdown};
use control::Control;
use kubelet::Kubelet;
pub use kubelet::PodFacts;
use runtime::ContainerRuntime;
pub use runtime::{Models, ProcessOptions, Processes};
use stores::{Bells, Stores};
use writer::Writer;

/// Until a pod that does not answer is given up, as an operator would over a real network.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// What runs the containers.
#[derive(Clone)]
pub enum Runtime {
    /// Models in memory.
    Models(Models),
    /// Processes on this machine.
    Processes(Processes),
}

/// How the node is to be.
#[derive(Clone)]
pub struct NodeOptions {
    /// Node objects, `node-1` and on, at least one; each is a zone of its own.
    pub nodes: usize,
    /// What runs the containers.
    pub runtime: Runtime,
    /// Images that can be pulled; `None`: all.
    pub images: Option<BTreeSet<String>>,
}

/// The local node. Clones are one and the same.
#[derive(Clone)]
pub struct Node {
    client: Client,
    stores: Stores,
    runtime: Arc<dyn ContainerRuntime>,
    kubelet: Arc<Kubelet>,
    options: NodeOptions,
    writers: Arc<Mutex<Option<Writers>>>,
}

/// Events' recorder of the scheduler, and both writers, until they run.
struct Writers {
    scheduler: EventRecorder,
    tasks: Vec<EventWriter>,
}

impl Node {
    /// A node that does not run yet. `client` decides its time and chance.
    #[must_use]
    pub fn new(client: Client, options: NodeOptions) -> Self {
        let runtime: Arc<dyn ContainerRuntime> = match options.runtime.clone() {
            Runtime::Models(models) => Arc::new(models),
            Runtime::Processes(processes) => Arc::new(processes),
        };
        let stores = Stores::default();
        let (scheduler, first) = EventRecorder::new(client.clone(), "default-scheduler", "sandbox");
        let (events, second) = EventRecorder::new(client.clone(), "kubelet", "sandbox");
        let kubelet = Arc::new(Kubelet::new(
            client.clone(),
            stores.clone(),
            Arc::clone(&runtime),
            events,
            options.nodes,
            options.images.clone(),
        ));
        let writers = Writers {
            scheduler,
            tasks: vec![first, second],
        };
        Self {
            client,
            stores,
            runtime,
            kubelet,
            options,
            writers: Arc::new(Mutex::new(Some(writers))),
        }
    }

    /// What it was made with: for another node in its place.
    #[must_use]
    pub fn options(&self) -> &NodeOptions {
        &self.options
    }

    /// Runs until `stop`. What it runs goes on: another node may take it up. A second run does nothing.
    #[must_use] 
    pub fn run(&self, stop: Shutdown) -> BoxFuture<'static, ()> {
        let node = self.clone();
        Box::pin(async move { node.serve(stop).await })
    }

    async fn serve(&self, stop: Shutdown) {
        let writers = {
            let mut writers = self.writers.lock().unwrap_or_else(PoisonError::into_inner);
            writers.take()
        };
        let Some(writers) = writers else {
            return;
        };
        let bells = Bells::default();
        let kubelet = Arc::clone(&self.kubelet);
        let on_pod = move |change: &_| kubelet.pod(change);
        let mut tasks = self.stores.watch(&self.client, &bells, on_pod, &stop);
        for writer in writers.tasks {
            tasks.spawn(writer.run(stop.clone()));
        }
        let control = Control {
            writer: Writer {
                client: self.client.clone(),
            },
            stores: self.stores.clone(),
            bells: bells.clone(),
            runtime: Arc::clone(&self.runtime),
            kubelet: Arc::clone(&self.kubelet),
            events: writers.scheduler,
        };
        let work: BoxFuture<'_, ()> = Box::pin(async {
            self.stores.synced().await;
            // Those that came before their Secrets and claims were listed.
            self.kubelet.begin();
            let config = async {
                loop {
                    bells.config.notified().await;
                    self.kubelet.config_changed();
                }
            };
            tokio::join!(control.run(), config);
        });
        tokio::select! {
            biased;
            () = stop.triggered() => {}
            () = work => {}
        }
        self.kubelet.stop();
        while tasks.join_next().await.is_some() {}
    }

    /// The pods that are here, by namespace and name.
    #[must_use]
    pub fn pods(&self) -> Vec<PodFacts> {
        self.kubelet.facts()
    }

    /// A stream to a port of a pod, as whoever is outside of it gets one. Where the pod speaks TLS and
    /// `tls` is set, what comes out is plain, and nobody has proven anything (as in the API server's
    /// proxy). It waits while the pod is cut off.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] where there is no such pod, else what a connection fails with.
    pub async fn dial(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        tls: bool,
    ) -> io::Result<Box<dyn Stream>> {
        self.kubelet.dial(namespace, pod, port, tls).await
    }

    /// SIGKILL of a pod's containers, as the kernel does when memory runs out; false where none runs.
    #[must_use] 
    pub fn kill_container(&self, namespace: &str, pod: &str) -> bool {
        self.kubelet.kill_containers(namespace, pod)
    }

    /// SIGKILL of a pod's mysqld alone; false where none runs.
    #[must_use] 
    pub fn kill_mysqld(&self, namespace: &str, pod: &str) -> bool {
        self.kubelet.kill_mysqld(namespace, pod)
    }

    /// Cuts a pod off from operators and peers; those that follow it under its name are cut off too.
    pub fn cut(&self, namespace: &str, pod: &str) {
        self.kubelet.cut(namespace, pod, true);
    }

    /// Ends a [`cut`](Self::cut).
    pub fn heal(&self, namespace: &str, pod: &str) {
        self.kubelet.cut(namespace, pod, false);
    }

    /// A node object's machine loses its power: what runs on it is gone, and nobody tells.
    pub fn fail_node(&self, node: &str) {
        self.kubelet.fail(node);
    }

    /// A machine that failed is back.
    pub fn restore_node(&self, node: &str) {
        self.kubelet.restore(node);
    }
}

impl InstanceDial for Node {
    fn dial(&self, address: &Address) -> BoxFuture<'static, Result<Box<dyn Stream>, DialError>> {
        let (node, address) = (self.clone(), address.clone());
        Box::pin(async move {
            let dialled = node
                .kubelet
                .dial(&address.namespace, &address.pod, PORT, false);
            let stream = match timeout(CONNECT_TIMEOUT, dialled).await {
                Err(_) => {
                    return Err(DialError::Unroutable(format!(
                        "{address:?} does not answer"
                    )));
                }
                Ok(Err(error)) => return Err(DialError::Other(format!("{address:?}: {error}"))),
                Ok(Ok(stream)) => stream,
            };
            if node.runtime.is_secure() {
                return Ok(stream);
            }
            secure(&address, stream).await
        })
    }
}

impl PodDial for Node {
    fn dial(
        &self,
        namespace: &str,
        pod: &str,
        port: u16,
        tls: bool,
    ) -> BoxFuture<'static, io::Result<Box<dyn PodStream>>> {
        let (node, namespace, pod) = (self.clone(), namespace.to_owned(), pod.to_owned());
        Box::pin(async move {
            let stream = node.kubelet.dial(&namespace, &pod, port, tls).await?;
            Ok(Box::new(stream) as Box<dyn PodStream>)
        })
    }

    fn log(
        &self,
        namespace: &str,
        pod: &str,
        options: LogOptions,
    ) -> BoxFuture<'static, io::Result<Box<dyn AsyncRead + Send + Unpin>>> {
        let file = match &self.options.runtime {
            Runtime::Models(_) => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "modelled containers write no log",
            )),
            Runtime::Processes(processes) => {
                let container = options.container.as_deref().unwrap_or("mysql");
                Ok(processes.log(namespace, pod, container))
            }
        };
        Box::pin(async move { logs::open(file?, options).await })
    }
}
