//! What runs containers: models in memory, or processes.

mod models;
mod processes;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;

use futures_util::future::BoxFuture;

use super::machine::ContainerRun;
use crate::client::Stream;

pub use models::Models;
pub use processes::{ProcessOptions, Processes};

/// A pod, as a runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PodRef {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    /// Its address.
    pub(super) ip: IpAddr,
    /// Its DNS name in its headless Service, where it has one.
    pub(super) host: Option<String>,
}

/// A container that is to be started.
#[derive(Clone, Debug)]
pub(super) struct ContainerSpec {
    pub(super) pod: PodRef,
    pub(super) run: ContainerRun,
    /// Command and arguments; empty for the image's own.
    pub(super) command: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) mounts: Vec<Mount>,
}

/// Where a container finds a volume of its pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// Absolute path in the container.
    pub(super) path: String,
    /// Name of the volume in the pod.
    pub(super) volume: String,
}

/// A volume of a pod. It has no `Debug`: it may hold a Secret's values.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct PodVolume {
    /// Its name in the pod.
    pub(super) name: String,
    pub(super) content: Content,
}

/// What is in a volume of a pod.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// The persistent volume of this name.
    Persistent(String),
    /// Nothing; it lives as long as its pod.
    Empty,
    /// These files, by their paths, with this mode; they change as their Secret or ConfigMap does.
    Files(BTreeMap<String, Vec<u8>>, u32),
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// GET this path; TLS without a look at the certificate, as kubelets do.
    Http { port: u16, path: String, tls: bool },
    /// A connection to this port.
    Tcp { port: u16 },
}

/// A signal for a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Term,
    Kill,
}

/// Runs containers. A pod is named by its UID; a run of one of its containers by name and number.
pub(super) trait ContainerRuntime: Send + Sync + 'static {
    /// An address for a pod, besides those taken.
    fn address(&self, taken: &BTreeSet<IpAddr>) -> IpAddr;

    /// The pods that have something here: for a kubelet that was started anew.
    fn pods(&self) -> Vec<PodRef>;

    /// The containers of a pod that run: for a kubelet that was started anew.
    fn running(&self, pod: &PodRef) -> BTreeMap<String, u32>;

    /// Makes the pod's volumes available, or brings their files up to date.
    fn mount(&self, pod: &PodRef, volumes: &[PodVolume]) -> BoxFuture<'static, Result<(), String>>;

    /// Forgets the pod and what lives only as long as it. Nothing of it runs any more.
    fn unmount(&self, pod: &PodRef) -> BoxFuture<'static, ()>;

    /// Starts a container.
    fn start(&self, container: ContainerSpec) -> BoxFuture<'static, Result<(), String>>;

    /// Waits until a run that was started has ended; its exit code, 128 + N after signal N.
    fn wait(&self, pod: &PodRef, run: &ContainerRun) -> BoxFuture<'static, i32>;

    /// Sends a signal; nothing where the run has ended.
    fn signal(&self, pod: &PodRef, run: &ContainerRun, signal: Signal);

    /// Asks a running container. The caller limits the time.
    fn probe(
        &self,
        pod: &PodRef,
        run: &ContainerRun,
        check: Check,
    ) -> BoxFuture<'static, Result<(), String>>;

    /// A stream to a port of the pod; with `tls` what comes out of it is plain, whoever it is.
    fn dial(
        &self,
        pod: &PodRef,
        port: u16,
        tls: bool,
    ) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;

    /// Whether streams are between the two ends alone anyway, and carry no TLS.
    fn is_secure(&self) -> bool;

    /// Deletes the data of a persistent volume. Once more does nothing more.
    fn reclaim(&self, volume: &str) -> BoxFuture<'static, Result<(), String>>;

    /// Cuts the pod off from its peers, or heals that.
    fn cut(&self, pod: &PodRef, cut: bool);

    /// SIGKILL of the pod's mysqld alone; false where none runs.
    fn kill_mysqld(&self, pod: &PodRef) -> bool;
}
