//! Containers that are models: the instance manager over a modelled mysqld, in memory.
//!
//! A container is what its command says: `mainstay instance install` has done its work at once,
//! `mainstay instance run` is a [`ModelledInstance`], anything else is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::sync::watch;
use futures_util::future::BoxFuture;

use super::{Check, ContainerRuntime, ContainerSpec, Content, PodRef, PodVolume, Signal};
use crate::client::Stream;
use crate::instance::PORT;
use crate::sandbox::node::machine::ContainerRun;
use crate::sandbox::{InstanceSpec, ModelledInstance, Mysqls, Volume};

/// First `server_id`: the ordinal is added, as the instance manager does.
const SERVER_ID_BASE: u32 = 1000;
/// Exit code of a container whose process 1 was killed.
const KILLED: i32 = 137;
/// Bytes under way in a connection.
const PIPE: usize = 64 << 10;

/// Modelled containers, which outlive the node that runs them: as real ones outlive their kubelet.
/// Clones are one and the same.
#[derive(Clone)]
pub struct Models {
    mysqls: Mysqls,
    /// What the addresses of pods begin with.
    subnet: [u8; 2],
    state: Arc<Mutex<State>>,
}

/// Held for map operations only.
#[derive(Default)]
struct State {
    /// Persistent volumes by name.
    volumes: BTreeMap<String, Volume>,
    /// By UID.
    pods: BTreeMap<String, Pod>,
    /// DNS names of pods that are cut off.
    cut: BTreeSet<String>,
    /// All DNS names that there ever were: those a cut parts.
    hosts: BTreeSet<String>,
}

struct Pod {
    place: PodRef,
    volumes: Vec<PodVolume>,
    runs: BTreeMap<ContainerRun, Run>,
}

#[derive(Clone)]
enum Run {
    Instance(ModelledInstance),
    /// It has done what there was to do.
    Done(watch::Sender<Option<i32>>),
}

impl Models {
    /// Containers whose servers are on that network.
    #[must_use]
    pub fn new(mysqls: &Mysqls) -> Self {
        Self {
            mysqls: mysqls.clone(),
            subnet: [10, 244],
            state: Arc::default(),
        }
    }

    /// The same with pods at addresses of this machine, in `127.subnet.0.0/16`. Nothing listens there by
    /// itself: it is for who leads connections of other processes to
    /// [`Node::dial`](super::super::Node::dial).
    #[must_use]
    pub fn on_loopback(self, subnet: u8) -> Self {
        let subnet = [127, subnet];
        Self { subnet, ..self }
    }

    /// The modelled servers.
    #[must_use]
    pub fn mysqls(&self) -> &Mysqls {
        &self.mysqls
    }

    /// The persistent volume of that name, once it was used.
    #[must_use]
    pub fn volume(&self, name: &str) -> Option<Volume> {
        self.lock().volumes.get(name).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Whole after each operation, whoever panicked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, pod: &PodRef, run: &ContainerRun) -> Option<Run> {
        self.lock().pods.get(&pod.uid)?.runs.get(run).cloned()
    }

    /// The pod's instance, as long as it runs.
    fn instance(&self, pod: &PodRef) -> Option<ModelledInstance> {
        let state = self.lock();
        let runs = state.pods.get(&pod.uid)?.runs.values();
        runs.rev().find_map(|run| match run {
            Run::Instance(instance) => Some(instance.clone()),
            Run::Done(_) => None,
        })
    }

    fn begin(&self, container: &ContainerSpec) -> Result<Run, String> {
        let words: Vec<&str> = container.command.iter().map(String::as_str).collect();
        match words.as_slice() {
            [_, "instance", "install", ..] => Ok(Run::Done(watch::Sender::new(Some(0)))),
            [_, "instance", "run", ..] => self.instance_of(container).map(Run::Instance),
            _ => Err(format!(
                "this node models instances of Mainstay only, not {:?}",
                container.command
            )),
        }
    }

    fn instance_of(&self, container: &ContainerSpec) -> Result<ModelledInstance, String> {
        let mut state = self.lock();
        let pod = &container.pod;
        let host = pod.host.clone().ok_or("the pod has no DNS name")?;
        let volumes = &state
            .pods
            .get(&pod.uid)
            .ok_or("no volumes are mounted")?
            .volumes;
        let mounted = |path: &str| {
            let mount = container.mounts.iter().find(|mount| mount.path == path)?;
            volumes.iter().find(|volume| volume.name == mount.volume)
        };
        let data = mounted("/var/lib/mysql").map(|volume| &volume.content);
        let Some(Content::Persistent(name)) = data else {
            return Err("no persistent volume is mounted at /var/lib/mysql".to_owned());
        };
        let volume = state
            .volumes
            .get(name)
            .ok_or("the volume is not there")?
            .clone();
        let file = |path: &str, name: &str| {
            let files = mounted(path).map(|volume| &volume.content);
            match files {
                Some(Content::Files(files, _)) => text(files, name),
                _ => Err(format!("no {path}/{name}")),
            }
        };
        let token = file("/etc/mainstay/internal", "token")?;
        let config = file("/etc/mainstay/config", "my.cnf")?;
        let ordinal = container
            .env
            .get("ORDINAL")
            .and_then(|text| text.parse::<u32>().ok());
        let ordinal = ordinal.ok_or("no ORDINAL in the environment")?;
        state.hosts.insert(host.clone());
        self.part(&state);
        drop(state);
        Ok(ModelledInstance::start(InstanceSpec {
            name: pod.name.clone(),
            pod_uid: pod.uid.clone(),
            host,
            server_id: SERVER_ID_BASE + ordinal,
            token,
            config,
            volume,
        }))
    }

    /// Cuts what is to be cut between all hosts.
    fn part(&self, state: &State) {
        for host in &state.cut {
            for other in state.hosts.iter().filter(|other| *other != host) {
                self.mysqls.cut(host, other);
            }
        }
    }
}

fn text(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Result<String, String> {
    let bytes = files.get(name).ok_or_else(|| format!("no file {name}"))?;
    let text = String::from_utf8(bytes.clone()).map_err(|_| format!("{name} is no text"))?;
    Ok(text.trim_end_matches('\n').to_owned())
}

impl ContainerRuntime for Models {
    fn address(&self, taken: &BTreeSet<IpAddr>) -> IpAddr {
        // 10.244.0.0/16, as clusters commonly have it, or what was asked for.
        let [first, second] = self.subnet;
        let all = (1..=u16::MAX).map(|number| {
            let [high, low] = number.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(first, second, high, low))
        });
        let mut free = all.filter(|ip| !taken.contains(ip));
        free.next().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }

    fn pods(&self) -> Vec<PodRef> {
        let state = self.lock();
        state.pods.values().map(|pod| pod.place.clone()).collect()
    }

    fn running(&self, pod: &PodRef) -> BTreeMap<String, u32> {
        let state = self.lock();
        let runs = state.pods.get(&pod.uid).map(|pod| pod.runs.iter());
        let running = runs.into_iter().flatten();
        running
            .filter(|(_, run)| matches!(run, Run::Instance(_)))
            .map(|(run, _)| (run.container.clone(), run.run))
            .collect()
    }

    fn mount(&self, pod: &PodRef, volumes: &[PodVolume]) -> BoxFuture<'static, Result<(), String>> {
        let mut state = self.lock();
        for volume in volumes {
            if let Content::Persistent(name) = &volume.content {
                let new = || Volume::new(&self.mysqls);
                state.volumes.entry(name.clone()).or_insert_with(new);
            }
        }
        let new = || Pod {
            place: pod.clone(),
            volumes: Vec::new(),
            runs: BTreeMap::new(),
        };
        let entry = state.pods.entry(pod.uid.clone()).or_insert_with(new);
        entry.volumes = volumes.to_vec();
        let config = volumes.iter().find_map(|volume| match &volume.content {
            Content::Files(files, _) => text(files, "my.cnf").ok(),
            Content::Persistent(_) | Content::Empty => None,
        });
        if let Some(config) = config {
            for run in entry.runs.values() {
                if let Run::Instance(instance) = run {
                    instance.set_config(&config);
                }
            }
        }
        Box::pin(async { Ok(()) })
    }

    fn unmount(&self, pod: &PodRef) -> BoxFuture<'static, ()> {
        self.lock().pods.remove(&pod.uid);
        Box::pin(async {})
    }

    fn start(&self, container: ContainerSpec) -> BoxFuture<'static, Result<(), String>> {
        let models = self.clone();
        Box::pin(async move {
            let run = models.begin(&container)?;
            let mut state = models.lock();
            let pod = state.pods.get_mut(&container.pod.uid);
            let pod = pod.ok_or("no volumes are mounted")?;
            pod.runs.insert(container.run, run);
            Ok(())
        })
    }

    fn wait(&self, pod: &PodRef, run: &ContainerRun) -> BoxFuture<'static, i32> {
        let found = self.run(pod, run);
        let (models, uid, run) = (self.clone(), pod.uid.clone(), run.clone());
        Box::pin(async move {
            let code = match found {
                None => KILLED,
                Some(Run::Instance(instance)) => instance.ended().await,
                Some(Run::Done(ended)) => {
                    let mut ended = ended.subscribe();
                    let code = ended.wait_for(Option::is_some).await;
                    code.ok().and_then(|code| *code).unwrap_or(KILLED)
                }
            };
            if let Some(pod) = models.lock().pods.get_mut(&uid) {
                pod.runs.remove(&run);
            }
            code
        })
    }

    fn signal(&self, pod: &PodRef, run: &ContainerRun, signal: Signal) {
        match (self.run(pod, run), signal) {
            (Some(Run::Instance(instance)), Signal::Term) => instance.terminate(),
            (Some(Run::Instance(instance)), Signal::Kill) => instance.kill(),
            (Some(Run::Done(_)) | None, _) => {}
        }
    }

    fn probe(
        &self,
        pod: &PodRef,
        run: &ContainerRun,
        check: Check,
    ) -> BoxFuture<'static, Result<(), String>> {
        let found = self.run(pod, run);
        Box::pin(async move {
            match (found, check) {
                (Some(Run::Instance(instance)), Check::Http { path, .. }) => instance.probe(&path),
                (Some(Run::Instance(_)), Check::Tcp { .. }) => Ok(()),
                (Some(Run::Done(_)) | None, _) => Err("connection refused".to_owned()),
            }
        })
    }

    fn dial(
        &self,
        pod: &PodRef,
        port: u16,
        _tls: bool,
    ) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let instance = self.instance(pod).filter(|_| port == PORT);
        Box::pin(async move {
            let instance = instance.ok_or(io::ErrorKind::ConnectionRefused)?;
            let (near, far) = tokio::io::duplex(PIPE);
            tokio::spawn(async move { instance.serve_stream(far).await });
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }

    fn is_secure(&self) -> bool {
        true
    }

    fn reclaim(&self, volume: &str) -> BoxFuture<'static, Result<(), String>> {
        if let Some(volume) = self.lock().volumes.remove(volume) {
            volume.erase();
        }
        Box::pin(async { Ok(()) })
    }

    fn cut(&self, pod: &PodRef, cut: bool) {
        let Some(host) = &pod.host else {
            return;
        };
        let mut state = self.lock();
        if cut {
            state.hosts.insert(host.clone());
            state.cut.insert(host.clone());
        } else if state.cut.remove(host) {
            for other in state.hosts.iter().filter(|other| *other != host) {
                self.mysqls.heal(host, other);
            }
        }
        self.part(&state);
    }

    fn kill_mysqld(&self, pod: &PodRef) -> bool {
        let instance = self.instance(pod);
        if let Some(instance) = &instance {
            instance.kill_mysqld();
        }
        instance.is_some()
    }
}
