//! Containers that are processes: the instance manager with a real mysqld, each pod on a loopback
//! address of its own.
//!
//! Volumes are folders below one root; paths of mounts in commands are rewritten to them, and `mainstay
//! instance run` is told of its folders, its address and its peers' by its environment. A container is
//! a process group. Its standard input is a pipe that this process holds: when it closes, for whatever
//! reason, the manager stops, so that nothing outlives the sandbox.

mod containers;
mod folders;
mod spawn;
mod wire;

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sync::watch;
use nix::sys::signal::{Signal as Posix, kill, killpg};
use nix::unistd::Pid;
use tokio::process::ChildStdin;
use tokio::time::timeout;

use super::PodRef;
use crate::instance::PORT;
use crate::sandbox::node::machine::ContainerRun;
use folders::Folders;

/// MySQL's port, where pods have addresses of their own.
const MYSQL_PORT: u16 = 3306;
/// How containers are run as processes.
#[derive(Clone, Debug)]
pub struct ProcessOptions {
    /// Folder for volumes and pods. Short, for sockets are below it.
    pub root: PathBuf,
    /// The executable that is `/mainstay` in the operator's image.
    pub mainstay: PathBuf,
    /// mysqld.
    pub mysqld: PathBuf,
    /// The first three numbers of the pods' addresses, such as 127.77.1. Where such addresses can't be
    /// listened on, pods share 127.0.0.1 and differ by ports.
    pub subnet: [u8; 3],
}

/// Containers as processes. Clones are one and the same; the last one kills what still runs.
#[derive(Clone)]
pub struct Processes(Arc<Inner>);

struct Inner {
    options: ProcessOptions,
    folders: Folders,
    /// Whether each pod has an address of its own.
    separate: bool,
    state: Mutex<State>,
}

/// Held for map operations only.
#[derive(Default)]
struct State {
    /// By UID.
    pods: BTreeMap<String, Pod>,
}

struct Pod {
    place: PodRef,
    /// Where the manager and MySQL listen.
    manager: SocketAddr,
    mysql: SocketAddr,
    runs: BTreeMap<ContainerRun, Run>,
}

struct Run {
    group: Pid,
    ended: watch::Receiver<Option<i32>>,
    /// Closes with the run.
    _stdin: Option<ChildStdin>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for run in state.pods.values().flat_map(|pod| pod.runs.values()) {
            run.signal(Posix::SIGKILL);
        }
    }
}

impl Run {
    /// To all of its processes, unless it has ended.
    fn signal(&self, signal: Posix) {
        if self.ended.borrow().is_none() {
            let _ = killpg(self.group, signal);
        }
    }
}

impl Processes {
    /// Makes the folders.
    ///
    /// # Errors
    /// When they can't be made.
    pub fn new(options: ProcessOptions) -> io::Result<Self> {
        let folders = Folders::new(&options.root)?;
        let [a, b, c] = options.subnet;
        let separate = TcpListener::bind((Ipv4Addr::new(a, b, c, 1), 0)).is_ok();
        Ok(Self(Arc::new(Inner {
            options,
            folders,
            separate,
            state: Mutex::default(),
        })))
    }

    /// Asks everything to stop, and kills what runs after `grace`.
    pub async fn stop(&self, grace: Duration) {
        let runs: Vec<_> = {
            let state = self.lock();
            let runs = state.pods.values().flat_map(|pod| pod.runs.values());
            runs.map(|run| {
                let _ = kill(run.group, Posix::SIGTERM);
                (run.group, run.ended.clone())
            })
            .collect()
        };
        let all = async {
            for (_, ended) in &runs {
                let _ = ended.clone().wait_for(Option::is_some).await;
            }
        };
        let _ = timeout(grace, all).await;
        for (group, ended) in &runs {
            if ended.borrow().is_none() {
                let _ = killpg(*group, Posix::SIGKILL);
            }
        }
    }

    /// Where a pod's MySQL listens, by its DNS name.
    #[must_use]
    pub fn mysql(&self, host: &str) -> Option<SocketAddr> {
        let state = self.lock();
        let mut pods = state.pods.values();
        let found = pods.find(|pod| pod.place.host.as_deref() == Some(host));
        found.map(|pod| pod.mysql)
    }

    /// A container's output, of all its runs.
    #[must_use]
    pub fn log(&self, namespace: &str, pod: &str, container: &str) -> PathBuf {
        self.0.folders.log(namespace, pod, container)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after each operation, whoever panicked.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the pod listens: at its own address, or at ports that are free now.
    fn addresses(&self, pod: &PodRef) -> io::Result<(SocketAddr, SocketAddr)> {
        if self.0.separate {
            return Ok((
                SocketAddr::new(pod.ip, PORT),
                SocketAddr::new(pod.ip, MYSQL_PORT),
            ));
        }
        // Both held until both are known, so that they differ.
        let (one, other) = (
            TcpListener::bind((pod.ip, 0))?,
            TcpListener::bind((pod.ip, 0))?,
        );
        Ok((one.local_addr()?, other.local_addr()?))
    }

    /// Where a port of the pod is.
    fn port(&self, pod: &PodRef, port: u16) -> Option<SocketAddr> {
        let state = self.lock();
        let pod = state.pods.get(&pod.uid)?;
        match port {
            PORT => Some(pod.manager),
            MYSQL_PORT => Some(pod.mysql),
            port => Some(SocketAddr::new(pod.manager.ip(), port)),
        }
    }

    /// The file in which pods find their peers' addresses.
    fn write_hosts(&self) -> io::Result<()> {
        let state = self.lock();
        let mut text = String::new();
        for pod in state.pods.values() {
            if let Some(host) = &pod.place.host {
                let _ = writeln!(text, "{} {host}", pod.mysql);
            }
        }
        self.0.folders.write_hosts(&text)
    }
}

/// For messages and tests: where everything is.
impl fmt::Debug for Processes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root: &Path = &self.0.options.root;
        write!(f, "processes below {}", root.display())
    }
}
