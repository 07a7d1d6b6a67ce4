//! The pod's status, as it follows from where its containers stand.


use jiff::{SignedDuration, Timestamp, TimestampRound, Unit};
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting,
    ContainerStatus, HostIP, PodCondition, PodIP, PodSpec, PodStatus,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::container::{Container, Ended, Life};
use super::{Machine, Mounts, Now};
use crate::runtime::Kind as _;
use crate::sandbox::node::kinds::Pod;

/// The conditions that a kubelet writes, in its order.
pub(super) const CONDITIONS: [&str; 4] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
];

/// A condition before it has its time: whether it holds, and why not (a word and a sentence).
type Verdict = (bool, Option<(&'static str, String)>);

impl Machine {
    /// The status as it is to be written. Times are in whole seconds, as Kubernetes keeps them.
    pub(in super::super) fn status(&mut self, pod: &Pod, now: Now) -> PodStatus {
        let phase = self.phase(pod);
        let generation = Some(pod.meta().generation).filter(|generation| *generation > 0);
        let verdicts = self.verdicts(phase);
        let conditions = CONDITIONS.into_iter().zip(verdicts).map(|(name, verdict)| {
            let (holds, why) = verdict;
            let known = self.conditions.get(name).filter(|(held, _)| *held == holds);
            let since = known.map_or(now.wall, |(_, since)| *since);
            self.conditions.insert(name, (holds, since));
            let (reason, message) = why.unzip();
            PodCondition {
                type_: name.to_owned(),
                status: if holds { "True" } else { "False" }.to_owned(),
                reason: reason.map(str::to_owned),
                message,
                last_transition_time: Some(time(since)),
                observed_generation: generation,
                ..PodCondition::default()
            }
        });
        let conditions = conditions.collect();
        let statuses = |is_init: bool| {
            let of_kind = self.containers.iter().filter(|c| c.is_init == is_init);
            let statuses: Vec<_> = of_kind
                .map(|c| self.container_status(pod, c, now))
                .collect();
            (!statuses.is_empty()).then_some(statuses)
        };
        let address = self.has_network.then(|| self.pod_ip.to_string());
        PodStatus {
            phase: Some(phase.to_owned()),
            conditions: Some(conditions),
            start_time: Some(time(self.start_time)),
            host_ip: Some(self.host_ip.to_string()),
            host_ips: Some(vec![HostIP {
                ip: self.host_ip.to_string(),
            }]),
            pod_ips: address.clone().map(|ip| vec![PodIP { ip }]),
            pod_ip: address,
            init_container_statuses: statuses(true),
            container_statuses: statuses(false),
            qos_class: Some(qos_class(&pod.spec).to_owned()),
            observed_generation: generation,
            ..PodStatus::default()
        }
    }

    /// pkg/kubelet/kubelet_pods.go: `getPhase`.
    pub(super) fn phase(&self, pod: &Pod) -> &'static str {
        let policy = pod.spec.restart_policy.as_deref().unwrap_or("Always");
        let mains = || self.containers.iter().filter(|c| !c.is_init);
        let init_failed = |c: &Container| {
            c.is_init && matches!(&c.life, Life::Ended(e) if e.code != 0 && !c.restarts(e, policy))
        };
        let is_ended = |c: &Container| matches!(c.life, Life::Ended(_));
        if self.ending.is_some() && self.containers.iter().all(Container::is_stopped) {
            let all_well = self.is_initialized() && mains().all(Container::has_succeeded);
            return if all_well { "Succeeded" } else { "Failed" };
        }
        if self.containers.iter().any(init_failed) {
            return "Failed";
        }
        if !self.is_initialized() || mains().any(|c| !c.has_begun() || c.is_first_start()) {
            return "Pending";
        }
        let over = mains().all(is_ended)
            && mains().all(|c| matches!(&c.life, Life::Ended(e) if !c.restarts(e, policy)));
        match over {
            false => "Running",
            true if mains().all(Container::has_succeeded) => "Succeeded",
            true => "Failed",
        }
    }

    /// In the order of [`CONDITIONS`].
    fn verdicts(&self, phase: &str) -> [Verdict; 4] {
        let network = matches!(self.mounts, Mounts::Mounted | Mounts::Unmounting)
            || (self.has_network
                && matches!(self.mounts, Mounts::Wanted { .. } | Mounts::Mounting));
        let unready = |is_init| {
            let lacking = |c: &&Container| c.is_init == is_init && !c.is_ready();
            let names = self.containers.iter().filter(lacking);
            names.map(|c| c.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        let (incomplete, unready) = (unready(true), unready(false));
        let initialized = if self.is_initialized() {
            (true, (phase == "Succeeded").then(completed))
        } else {
            let why = format!("containers with incomplete status: [{incomplete}]");
            (false, Some(("ContainersNotInitialized", why)))
        };
        let ready = match phase {
            "Succeeded" => (false, Some(completed())),
            "Failed" => (false, Some(("PodFailed", String::new()))),
            _ if unready.is_empty() && self.is_initialized() => (true, None),
            _ => {
                let why = format!("containers with unready status: [{unready}]");
                (false, Some(("ContainersNotReady", why)))
            }
        };
        [(network, None), initialized, ready.clone(), ready]
    }

    fn container_status(&self, pod: &Pod, container: &Container, now: Now) -> ContainerStatus {
        let policy = pod.spec.restart_policy.as_deref().unwrap_or("Always");
        let waiting = |reason: &str, message: &str| ContainerState {
            waiting: Some(ContainerStateWaiting {
                reason: Some(reason.to_owned()),
                message: (!message.is_empty()).then(|| message.to_owned()),
            }),
            ..ContainerState::default()
        };
        let uid = &pod.meta().uid;
        let id = |run: u32| format!("sandbox://{uid}/{}/{run}", container.name);
        let ended = |ended: &Ended| ContainerState {
            terminated: Some(terminated(ended, id(ended.run))),
            ..ContainerState::default()
        };
        let before = container.last.as_ref();
        let creating = if pod
            .spec
            .init_containers
            .as_ref()
            .is_some_and(|c| !c.is_empty())
        {
            "PodInitializing"
        } else {
            "ContainerCreating"
        };
        let (state, last, run) = match &container.life {
            Life::New => (waiting(creating, ""), None, None),
            Life::Waiting(reason, why) => (waiting(reason, why), before, before.map(|b| b.run)),
            Life::Starting => (waiting(creating, ""), before, Some(container.run)),
            Life::Running(running) => {
                let state = ContainerState {
                    running: Some(ContainerStateRunning {
                        started_at: Some(time(running.since)),
                    }),
                    ..ContainerState::default()
                };
                (state, before, Some(container.run))
            }
            Life::Ended(end)
                if self.ending.is_none()
                    && container.restarts(end, policy)
                    && container.restart_at(end) > now.instant =>
            {
                let delay = SignedDuration::try_from(container.backoff_delay()).unwrap_or_default();
                let why = format!(
                    "back-off {delay:#} restarting failed container={} pod={}_{}({uid})",
                    container.name,
                    pod.meta().name,
                    pod.meta().namespace,
                );
                (waiting("CrashLoopBackOff", &why), Some(end), Some(end.run))
            }
            Life::Ended(end) => (ended(end), before, Some(end.run)),
        };
        let started = matches!(&container.life, Life::Running(running) if running.started);
        let image = container.spec().image.clone().unwrap_or_default();
        let has_id = !matches!(container.life, Life::Starting) || before.is_some();
        let id_of = match &container.life {
            Life::Starting => before.map(|before| before.run),
            _ => run,
        };
        ContainerStatus {
            name: container.name.clone(),
            image_id: if run.is_some() {
                image.clone()
            } else {
                String::new()
            },
            image,
            container_id: id_of.filter(|_| has_id).map(id),
            ready: container.is_ready(),
            restart_count: i32::try_from(run.unwrap_or(0)).unwrap_or(i32::MAX),
            started: Some(started),
            state: Some(state),
            last_state: last.map(ended),
            ..ContainerStatus::default()
        }
    }
}

fn completed() -> (&'static str, String) {
    ("PodCompleted", String::new())
}

fn terminated(ended: &Ended, id: String) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: ended.code,
        reason: Some(ended.reason.clone()),
        message: ended.message.clone(),
        started_at: ended.started.map(time),
        finished_at: Some(time(ended.finished)),
        container_id: Some(id),
        ..ContainerStateTerminated::default()
    }
}

fn time(at: Timestamp) -> Time {
    Time(whole_seconds(at))
}

/// Down to the second.
fn whole_seconds(at: Timestamp) -> Timestamp {
    let down = TimestampRound::new()
        .smallest(Unit::Second)
        .mode(jiff::RoundMode::Trunc);
    at.round(down).unwrap_or(at)
}

/// pkg/apis/core/v1/helper/qos.
fn qos_class(spec: &PodSpec) -> &'static str {
    let containers = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten());
    let (mut any, mut all) = (false, true);
    for container in containers {
        let resources = container.resources.clone().unwrap_or_default();
        let of = |map: &Option<std::collections::BTreeMap<String, Quantity>>, name| {
            map.as_ref().and_then(|map| map.get(name)).cloned()
        };
        for name in ["cpu", "memory"] {
            let (limit, request) = (of(&resources.limits, name), of(&resources.requests, name));
            any |= limit.is_some() || request.is_some();
            all &= limit.is_some() && (request.is_none() || request == limit);
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
