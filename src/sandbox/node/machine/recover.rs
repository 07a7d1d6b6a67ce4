//! A machine for a pod that may have run before: what its status says, and what still runs of it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container as Spec, ContainerState, ContainerStateTerminated, ContainerStatus,
};

use super::container::{Container, Ended};
use super::{Machine, Mounts, Now, grace};
use crate::sandbox::node::kinds::Pod;

/// What a kubelet says of a container that it does not find any more.
const LOST_REASON: &str = "ContainerStatusUnknown";
const LOST_MESSAGE: &str =
    "The container could not be located when the pod was taken up again. It was running before";
/// Exit code of a container that was killed (128 + SIGKILL).
const KILLED: i32 = 137;

impl Machine {
    /// The machine of `pod` at these addresses. `running` are the containers that run (by name, with
    /// the number of their run): none unless the kubelet, not the node, was started anew.
    pub(in super::super) fn new(
        pod: &Pod,
        pod_ip: IpAddr,
        host_ip: IpAddr,
        running: &BTreeMap<String, u32>,
        now: Now,
    ) -> Self {
        let status = &pod.status;
        let grace = grace(pod);
        let make = |specs: &[Spec], statuses: &Option<Vec<ContainerStatus>>, is_init| {
            let statuses = statuses.as_deref().unwrap_or_default();
            let make = |spec: &Spec| {
                let mut container = Container::new(spec, is_init, grace);
                let status = statuses.iter().find(|status| status.name == spec.name);
                let run = running.get(&spec.name).copied();
                container.recover(status, run, now);
                container
            };
            specs.iter().map(make).collect::<Vec<_>>()
        };
        let init = pod.spec.init_containers.as_deref().unwrap_or_default();
        let mut containers = make(init, &status.init_container_statuses, true);
        containers.extend(make(
            &pod.spec.containers,
            &status.container_statuses,
            false,
        ));
        let conditions = status.conditions.iter().flatten().filter_map(|condition| {
            let name = super::status::CONDITIONS
                .into_iter()
                .find(|name| *name == condition.type_)?;
            let since = condition.last_transition_time.as_ref()?.0;
            Some((name, (condition.status == "True", since)))
        });
        Self {
            pod_ip,
            host_ip,
            start_time: status.start_time.as_ref().map_or(now.wall, |time| time.0),
            mounts: Mounts::Wanted {
                not_before: now.instant,
            },
            has_network: status.pod_ip.is_some(),
            containers,
            ending: None,
            conditions: conditions.collect(),
            told: None,
        }
    }
}

impl Container {
    fn recover(&mut self, status: Option<&ContainerStatus>, running: Option<u32>, now: Now) {
        let restarts = status.map_or(0, |status| u32::try_from(status.restart_count).unwrap_or(0));
        let state = status.and_then(|status| status.state.as_ref());
        let last = status.and_then(|status| terminated(status.last_state.as_ref()));
        let since = state
            .and_then(|state| state.running.as_ref()?.started_at.as_ref())
            .map(|time| time.0);
        if let Some(run) = running {
            self.run = run;
            self.last = last.map(|last| ended(last, run.saturating_sub(1), now));
            let (started, ready) =
                status.map_or((false, false), |s| (s.started == Some(true), s.ready));
            self.take_up(since.unwrap_or(now.wall), started, ready, now);
            return;
        }
        self.run = restarts;
        if let Some(since) = since {
            self.last = last.map(|last| ended(last, restarts.saturating_sub(1), now));
            self.lost(since, now);
        } else if let Some(terminated) = terminated(state) {
            self.last = last.map(|last| ended(last, restarts.saturating_sub(1), now));
            self.life = super::container::Life::Ended(ended(terminated, restarts, now));
        } else if let Some(last) = last {
            // It waited for its restart.
            self.life = super::container::Life::Ended(ended(last, restarts, now));
        }
    }

    /// It ran, and is not found any more.
    fn lost(&mut self, since: Timestamp, now: Now) {
        self.life = super::container::Life::Ended(Ended {
            run: self.run,
            code: KILLED,
            reason: LOST_REASON.to_owned(),
            message: Some(LOST_MESSAGE.to_owned()),
            started: Some(since),
            finished: now.wall,
            at: now.instant,
        });
    }
}

fn terminated(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state?.terminated.as_ref()
}

fn ended(from: &ContainerStateTerminated, run: u32, now: Now) -> Ended {
    Ended {
        run,
        code: from.exit_code,
        reason: from.reason.clone().unwrap_or_default(),
        message: from.message.clone(),
        started: from.started_at.as_ref().map(|time| time.0),
        finished: from.finished_at.as_ref().map_or(now.wall, |time| time.0),
        at: now.instant,
    }
}
