//! Containers that are processes: the instance manager with a real mysqld, each pod on a loopback
//! address of its own.
//!
//! Volumes are folders below one root; paths of mounts in commands are rewritten to them, and `mainstay
//! instance run` is told of its folders, its address and its peers' by its environment. A container is
//! a process group. Its standard input is a pipe that this process holds: when it closes, for whatever
//! reason, the manager stops, so that nothing outlives the sandbox.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sync::watch;
use futures_util::future::BoxFuture;
use nix::sys::signal::{Signal as Posix, kill, killpg};
use nix::unistd::Pid;
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::timeout;

use super::folders::Folders;
use super::{Check, ContainerRuntime, ContainerSpec, PodRef, PodVolume, Signal, wire};
use crate::client::Stream;
use crate::instance::PORT;
use crate::sandbox::node::machine::ContainerRun;

/// MySQL's port, where pods have addresses of their own.
const MYSQL_PORT: u16 = 3306;
/// Exit code of a run that nobody knows the end of.
const UNKNOWN: i32 = 137;

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
    /// Where the manager and MySQL listen.
    manager: SocketAddr,
    mysql: SocketAddr,
    host: Option<String>,
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
        let found = pods.find(|pod| pod.host.as_deref() == Some(host));
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
            if let Some(host) = &pod.host {
                text.push_str(&format!("{} {host}\n", pod.mysql));
            }
        }
        self.0.folders.write_hosts(&text)
    }

    fn spawn(&self, container: &ContainerSpec) -> io::Result<(Child, Pid)> {
        let folder = |path: &str| {
            self.0
                .folders
                .mounted(&container.pod, &container.mounts, path)
        };
        let [program, arguments @ ..] = container.command.as_slice() else {
            return Err(io::Error::other(
                "the image's own command is not known here",
            ));
        };
        let program = match program.as_str() {
            "/mainstay" => self.0.options.mainstay.clone(),
            program => folder(program),
        };
        let log = self
            .0
            .folders
            .open_log(&container.pod, &container.run.container)?;
        let mut command = Command::new(program);
        command
            .args(arguments.iter().map(|argument| folder(argument)))
            .envs(&container.env)
            .current_dir(self.0.folders.pod(&container.pod))
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        if arguments.first().is_some_and(|word| word == "instance") {
            self.tell_instance(&mut command, container, &folder)?;
        }
        let child = command.spawn()?;
        let group = child.id().and_then(|id| i32::try_from(id).ok());
        let group = group.ok_or_else(|| io::Error::other("it has ended already"))?;
        Ok((child, Pid::from_raw(group)))
    }

    /// What `mainstay instance run` finds elsewhere than in a container.
    fn tell_instance(
        &self,
        command: &mut Command,
        container: &ContainerSpec,
        folder: &impl Fn(&str) -> PathBuf,
    ) -> io::Result<()> {
        let (manager, mysql) = {
            let state = self.lock();
            let pod = state.pods.get(&container.pod.uid);
            let pod = pod.ok_or_else(|| io::Error::other("no volumes are mounted"))?;
            (pod.manager, pod.mysql)
        };
        command
            .env("MAINSTAY_LISTEN", manager.to_string())
            .env("MAINSTAY_BIND_ADDRESS", mysql.ip().to_string())
            .env("MAINSTAY_MYSQL_PORT", mysql.port().to_string())
            .env("MAINSTAY_MYSQLD", &self.0.options.mysqld)
            .env("MAINSTAY_HOSTS", self.0.folders.hosts())
            .env("MAINSTAY_STOP_WITH_STDIN", "true")
            .env("MAINSTAY_VOLUME", folder("/var/lib/mysql"))
            .env("MAINSTAY_RUN", folder("/run/mainstay"))
            .env("MAINSTAY_TMP", folder("/tmp"))
            .env("MAINSTAY_CONFIG", folder("/etc/mainstay/config/my.cnf"))
            .env("MAINSTAY_TLS", folder("/etc/mainstay/tls"))
            .env("MAINSTAY_INTERNAL", folder("/etc/mainstay/internal"))
            .env(
                "MAINSTAY_ROOT_PASSWORD",
                folder("/etc/mainstay/root/password"),
            );
        Ok(())
    }
}

/// The exit code as a container runtime has it.
fn code(status: io::Result<ExitStatus>) -> i32 {
    status.map_or(UNKNOWN, |status| {
        let signal = status.signal().map(|signal| 128 + signal);
        status.code().or(signal).unwrap_or(UNKNOWN)
    })
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl ContainerRuntime for Processes {
    fn address(&self, taken: &BTreeSet<IpAddr>) -> IpAddr {
        if !self.0.separate {
            return IpAddr::V4(Ipv4Addr::LOCALHOST);
        }
        let [a, b, c] = self.0.options.subnet;
        let all = (1..=u8::MAX).map(|last| IpAddr::V4(Ipv4Addr::new(a, b, c, last)));
        let mut free = all.filter(|ip| !taken.contains(ip));
        free.next().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    fn running(&self, pod: &PodRef) -> BTreeMap<String, u32> {
        let state = self.lock();
        let runs = state.pods.get(&pod.uid).map(|pod| pod.runs.iter());
        let running = runs.into_iter().flatten();
        running
            .filter(|(_, run)| run.ended.borrow().is_none())
            .map(|(run, _)| (run.container.clone(), run.run))
            .collect()
    }

    fn mount(&self, pod: &PodRef, volumes: &[PodVolume]) -> BoxFuture<'static, Result<(), String>> {
        let (processes, pod, volumes) = (self.clone(), pod.clone(), volumes.to_vec());
        Box::pin(async move {
            processes.0.folders.mount(&pod, &volumes).map_err(words)?;
            if processes.lock().pods.contains_key(&pod.uid) {
                return Ok(());
            }
            let (manager, mysql) = processes.addresses(&pod).map_err(words)?;
            let entry = Pod {
                manager,
                mysql,
                host: pod.host.clone(),
                runs: BTreeMap::new(),
            };
            processes.lock().pods.insert(pod.uid.clone(), entry);
            processes.write_hosts().map_err(words)
        })
    }

    fn unmount(&self, pod: &PodRef) -> BoxFuture<'static, ()> {
        let (processes, pod) = (self.clone(), pod.clone());
        Box::pin(async move {
            processes.lock().pods.remove(&pod.uid);
            let done = processes
                .write_hosts()
                .and_then(|()| processes.0.folders.unmount(&pod));
            if let Err(error) = done {
                tracing::warn!(pod = pod.name, %error, "the pod's folder stays");
            }
        })
    }

    fn start(&self, container: ContainerSpec) -> BoxFuture<'static, Result<(), String>> {
        let processes = self.clone();
        Box::pin(async move {
            let (mut child, group) = processes.spawn(&container).map_err(words)?;
            let (end, ended) = watch::channel(None);
            let run = Run {
                group,
                ended,
                _stdin: child.stdin.take(),
            };
            {
                let mut state = processes.lock();
                let pod = state.pods.get_mut(&container.pod.uid);
                let pod = pod.ok_or_else(|| "no volumes are mounted".to_owned())?;
                pod.runs.insert(container.run, run);
            }
            tokio::spawn(async move {
                let status = child.wait().await;
                // Nothing of a container outlives its first process.
                let _ = killpg(group, Posix::SIGKILL);
                end.send_replace(Some(code(status)));
            });
            Ok(())
        })
    }

    fn wait(&self, pod: &PodRef, run: &ContainerRun) -> BoxFuture<'static, i32> {
        let ended = {
            let state = self.lock();
            let run = state.pods.get(&pod.uid).and_then(|pod| pod.runs.get(run));
            run.map(|run| run.ended.clone())
        };
        let (processes, uid, run) = (self.clone(), pod.uid.clone(), run.clone());
        Box::pin(async move {
            let code = match ended {
                Some(mut ended) => {
                    let code = ended.wait_for(Option::is_some).await;
                    code.ok().and_then(|code| *code)
                }
                None => None,
            };
            if let Some(pod) = processes.lock().pods.get_mut(&uid) {
                pod.runs.remove(&run);
            }
            code.unwrap_or(UNKNOWN)
        })
    }

    fn signal(&self, pod: &PodRef, run: &ContainerRun, signal: Signal) {
        let state = self.lock();
        let run = state.pods.get(&pod.uid).and_then(|pod| pod.runs.get(run));
        let Some(run) = run.filter(|run| run.ended.borrow().is_none()) else {
            return;
        };
        match signal {
            // To the first process alone: what it started is its own affair.
            Signal::Term => {
                let _ = kill(run.group, Posix::SIGTERM);
            }
            Signal::Kill => run.signal(Posix::SIGKILL),
        }
    }

    fn probe(
        &self,
        pod: &PodRef,
        _: &ContainerRun,
        check: Check,
    ) -> BoxFuture<'static, Result<(), String>> {
        let port = match &check {
            Check::Http { port, .. } | Check::Tcp { port } => *port,
        };
        let address = self.port(pod, port);
        Box::pin(async move {
            let address = address.ok_or_else(|| "connection refused".to_owned())?;
            let stream = TcpStream::connect(address).await.map_err(words)?;
            match check {
                Check::Tcp { .. } => Ok(()),
                Check::Http { path, tls, .. } => wire::get(stream, address, &path, tls).await,
            }
        })
    }

    fn dial(
        &self,
        pod: &PodRef,
        port: u16,
        tls: bool,
    ) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let address = self.port(pod, port);
        Box::pin(async move {
            let address = address.ok_or(io::ErrorKind::ConnectionRefused)?;
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            if tls {
                return wire::open(stream, address.ip()).await;
            }
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }

    fn is_secure(&self) -> bool {
        false
    }

    fn reclaim(&self, volume: &str) -> BoxFuture<'static, Result<(), String>> {
        let done = self.0.folders.reclaim(volume).map_err(words);
        Box::pin(async move { done })
    }

    fn cut(&self, pod: &PodRef, cut: bool) {
        // The loopback can't be cut without privileges. A pod that stands still is as silent.
        let signal = if cut { Posix::SIGSTOP } else { Posix::SIGCONT };
        let state = self.lock();
        for run in state
            .pods
            .get(&pod.uid)
            .iter()
            .flat_map(|pod| pod.runs.values())
        {
            run.signal(signal);
        }
    }

    fn kill_mysqld(&self, pod: &PodRef) -> bool {
        let Some(pid) = self.0.folders.mysqld(pod) else {
            return false;
        };
        // Only one of the pod's own processes.
        let state = self.lock();
        let ours = state.pods.get(&pod.uid).is_some_and(|pod| {
            let group = nix::unistd::getpgid(Some(pid));
            pod.runs.values().any(|run| group == Ok(run.group))
        });
        ours && kill(pid, Posix::SIGKILL).is_ok()
    }
}

/// For messages and tests: where everything is.
impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let root: &Path = &self.0.options.root;
        write!(f, "processes below {}", root.display())
    }
}
