//! What a node asks of containers, done with processes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use crate::sync::watch;
use futures_util::future::BoxFuture;
use nix::sys::signal::{Signal as Posix, kill, killpg};
use tokio::net::TcpStream;

use super::{Pod, Processes, Run, wire};
use crate::client::Stream;
use crate::sandbox::node::machine::ContainerRun;
use crate::sandbox::node::runtime::{
    Check, ContainerRuntime, ContainerSpec, PodRef, PodVolume, Signal,
};

/// Exit code of a run that nobody knows the end of.
const UNKNOWN: i32 = 137;

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

    fn pods(&self) -> Vec<PodRef> {
        let state = self.lock();
        state.pods.values().map(|pod| pod.place.clone()).collect()
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
                place: pod.clone(),
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
