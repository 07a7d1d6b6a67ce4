//! A pod as its kubelet sees it: a machine that is told what happened and says what to do.
//!
//! Pure: [`Machine::event`] takes in what the runtime says, [`Machine::step`] gives the actions that
//! are due, [`Machine::status`] what is to be written, [`Machine::wake`] when to step again at the
//! latest. An action is given once; the event that answers it is what counts.

mod backoff;
mod container;
mod probe;
mod recover;
mod running;
mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::kinds::Pod;
use crate::runtime::{EventType, Kind as _};
use container::Container;
pub(super) use probe::ProbeKind;

/// A pod's `terminationGracePeriodSeconds` where it names none (an API server always does).
const DEFAULT_GRACE: Duration = Duration::from_secs(30);
/// A pod that is removed by force still gets this long to stop (pkg/kubelet/pod_workers.go: no grace
/// below one second).
const LEAST_GRACE: Duration = Duration::from_secs(1);
/// Until a mount that failed is tried again: kubelet's first step.
const MOUNT_RETRY: Duration = Duration::from_millis(500);

/// The time by two clocks: durations are measured by the one, the other is what is written down.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) wall: Timestamp,
}

/// What the pod needs of the world around it, as it is now.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Why its volumes can't be mounted (any more they can).
    pub(super) mount: Option<String>,
    /// Why a container can't be configured: what its environment names is not there.
    pub(super) config: BTreeMap<String, String>,
    /// Why a container's image can't be pulled.
    pub(super) image: BTreeMap<String, String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The volumes were mounted, or could not be.
    Mounted(Result<(), String>),
    /// The volumes are not used any more.
    Unmounted,
    /// A container was started, or could not be.
    Started(ContainerRun, Result<(), String>),
    /// A container ended with this code; by a signal N with 128 + N.
    Exited(ContainerRun, i32),
    /// A probe was answered.
    Probed(ContainerRun, ProbeKind, Result<(), String>),
}

/// One run of a container: its restarts are numbered, the first is 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ContainerRun {
    pub(super) container: String,
    pub(super) run: u32,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Mount the volumes.
    Mount,
    /// Start a container.
    Start(ContainerRun),
    /// Ask it to stop: SIGTERM.
    Terminate(ContainerRun),
    /// SIGKILL.
    Kill(ContainerRun),
    /// Ask one of its probes.
    Probe(ContainerRun, ProbeKind),
    /// Let go of the volumes: nothing runs any more.
    Unmount,
    /// Tell people.
    Tell(EventType, &'static str, String),
    /// Write the last status, then remove the pod from the API.
    Finish,
}

/// How far the volumes are.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mounts {
    Wanted { not_before: Instant },
    Mounting,
    Mounted,
    Unmounting,
    Unmounted,
}

/// The pod is being stopped.
#[derive(Clone, Copy, Debug)]
struct Ending {
    kill_at: Instant,
    finished: bool,
}

/// The machine of one pod.
#[derive(Debug)]
pub(super) struct Machine {
    pod_ip: IpAddr,
    host_ip: IpAddr,
    start_time: Timestamp,
    mounts: Mounts,
    /// Whether it was given its address.
    has_network: bool,
    /// Init containers first, in their order.
    containers: Vec<Container>,
    ending: Option<Ending>,
    /// Transition times of the conditions that the kubelet writes.
    conditions: BTreeMap<&'static str, (bool, Timestamp)>,
    /// The problem that was told last, so that it is told once.
    told: Option<String>,
}

impl Machine {
    /// Takes in what happened. What is late (of an earlier run) changes nothing.
    pub(super) fn event(&mut self, event: &Event, now: Now) -> Vec<Action> {
        match event {
            Event::Mounted(Ok(())) if self.mounts == Mounts::Mounting => {
                self.mounts = Mounts::Mounted;
                self.has_network = true;
                self.told = None;
                Vec::new()
            }
            Event::Mounted(Err(why)) if self.mounts == Mounts::Mounting => {
                self.mounts = Mounts::Wanted {
                    not_before: now.instant + MOUNT_RETRY,
                };
                self.tell_once(EventType::Warning, "FailedMount", why)
            }
            Event::Unmounted if self.mounts == Mounts::Unmounting => {
                self.mounts = Mounts::Unmounted;
                Vec::new()
            }
            Event::Mounted(_) | Event::Unmounted => Vec::new(),
            Event::Started(run, result) => self
                .container(run)
                .map(|container| container.started(result, now))
                .unwrap_or_default(),
            Event::Exited(run, code) => {
                if let Some(container) = self.container(run) {
                    container.exited(*code, now);
                }
                Vec::new()
            }
            Event::Probed(run, kind, result) => self
                .container(run)
                .map(|container| container.probed(*kind, result, now))
                .unwrap_or_default(),
        }
    }

    /// What is due now. `gone`: the pod is not in the API any more, only what runs of it is left.
    pub(super) fn step(&mut self, pod: &Pod, gone: bool, facts: &Facts, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        if gone || pod.meta().is_terminating() {
            let kill_at = now.instant + grace(pod);
            let ending = self.ending.get_or_insert(Ending {
                kill_at,
                finished: false,
            });
            // A later deletion can only shorten it.
            ending.kill_at = ending.kill_at.min(kill_at);
        }
        if let Some(ending) = self.ending {
            self.end(ending, &mut actions);
        } else if self.is_over(pod) {
            self.unmount(&mut actions);
        } else {
            self.progress(pod, facts, now, &mut actions);
        }
        for container in &mut self.containers {
            container.kill_if_due(now, &mut actions);
            container.probes_due(now, &mut actions);
        }
        actions
    }

    /// When to step again, if nothing happens before. What was due at `now` was done by the step.
    pub(super) fn wake(&self, now: Now) -> Option<Instant> {
        let mount = match self.mounts {
            Mounts::Wanted { not_before } if self.ending.is_none() => Some(not_before),
            _ => None,
        };
        let containers = self.containers.iter().filter_map(Container::wake);
        containers.chain(mount).filter(|at| *at > now.instant).min()
    }

    /// Whether something is to be mounted or started, and so the facts matter.
    pub(super) fn wants_facts(&self) -> bool {
        self.ending.is_none()
            && (matches!(self.mounts, Mounts::Wanted { .. })
                || self.containers.iter().any(Container::is_stopped))
    }

    /// Whether everything was done that there was to do: the pod may go.
    pub(super) fn is_finished(&self) -> bool {
        self.ending.is_some_and(|ending| ending.finished)
    }

    /// Towards all containers running.
    fn progress(&mut self, pod: &Pod, facts: &Facts, now: Now, actions: &mut Vec<Action>) {
        match self.mounts {
            Mounts::Mounted => {}
            Mounts::Wanted { not_before } => {
                if let Some(problem) = &facts.mount {
                    actions.extend(self.tell_once(EventType::Warning, "FailedMount", problem));
                } else if not_before <= now.instant {
                    self.mounts = Mounts::Mounting;
                    actions.push(Action::Mount);
                }
                return;
            }
            Mounts::Mounting | Mounts::Unmounting | Mounts::Unmounted => return,
        }
        let policy = pod.spec.restart_policy.as_deref().unwrap_or("Always");
        let initialized = self.is_initialized();
        for container in &mut self.containers {
            if container.is_init && initialized {
                continue;
            }
            container.progress(policy, facts, now, actions);
            if container.is_init && !container.has_succeeded() {
                // The next one waits for it.
                return;
            }
        }
    }

    /// Towards nothing running, then the pod's end.
    fn end(&mut self, ending: Ending, actions: &mut Vec<Action>) {
        for container in &mut self.containers {
            container.stop("Stopping container", ending.kill_at, actions);
        }
        let stopped = self.containers.iter().all(Container::is_stopped);
        if !stopped || self.mounts == Mounts::Mounting {
            return;
        }
        self.unmount(actions);
        if self.mounts == Mounts::Unmounted && !ending.finished {
            self.ending = Some(Ending {
                finished: true,
                ..ending
            });
            actions.push(Action::Finish);
        }
    }

    fn unmount(&mut self, actions: &mut Vec<Action>) {
        match self.mounts {
            // What is wanted may have been mounted by the kubelet that ran here before.
            Mounts::Mounted | Mounts::Wanted { .. } => {
                self.mounts = Mounts::Unmounting;
                actions.push(Action::Unmount);
            }
            Mounts::Mounting | Mounts::Unmounting | Mounts::Unmounted => {}
        }
    }

    /// Whether all init containers have done their work. It stays so: they do not run again when
    /// another container is restarted.
    fn is_initialized(&self) -> bool {
        let begun = |c: &Container| !c.is_init && c.has_begun();
        self.containers.iter().any(begun)
            || self
                .containers
                .iter()
                .all(|c| !c.is_init || c.has_succeeded())
    }

    /// Whether nothing will run any more, by the pod's own restart policy.
    fn is_over(&self, pod: &Pod) -> bool {
        matches!(self.phase(pod), "Succeeded" | "Failed")
    }

    fn container(&mut self, run: &ContainerRun) -> Option<&mut Container> {
        self.containers
            .iter_mut()
            .find(|c| c.name == run.container && c.is_run(run.run))
    }

    fn tell_once(&mut self, kind: EventType, reason: &'static str, note: &str) -> Vec<Action> {
        if self.told.as_deref() == Some(note) {
            return Vec::new();
        }
        self.told = Some(note.to_owned());
        vec![Action::Tell(kind, reason, note.to_owned())]
    }
}

/// How long the pod may take to stop.
fn grace(pod: &Pod) -> Duration {
    let seconds = pod
        .metadata
        .deletion_grace_period_seconds
        .or(pod.spec.termination_grace_period_seconds);
    let grace = seconds.map_or(DEFAULT_GRACE, |seconds| {
        Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    });
    grace.max(LEAST_GRACE)
}
