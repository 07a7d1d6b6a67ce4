//! Pods: what their containers come to, in a word.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Printed, age, list, str_of};

/// What is counted and said as containers are looked at.
#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

impl Summary {
    fn restarted(&mut self, status: &Value) {
        self.restarts += status["restartCount"].as_i64().unwrap_or_default();
        let finished = age::read(&status["lastState"]["terminated"]["finishedAt"]);
        self.last_restart = self.last_restart.max(finished);
    }
}

pub(super) fn pod(it: Printed<'_>) -> Vec<Value> {
    let status = it.at("/status");
    let phase = str_of(status, "phase");
    let mut summary = Summary {
        reason: match str_of(status, "reason") {
            "" => phase.to_owned(),
            reason => reason.to_owned(),
        },
        ..Summary::default()
    };
    let gated = |condition: &Value| {
        condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated"
    };
    if list(&status["conditions"]).iter().any(gated) {
        "SchedulingGated".clone_into(&mut summary.reason);
    }
    let sidecars: Vec<&str> = it
        .list("/spec/initContainers")
        .iter()
        .filter(|container| container["restartPolicy"] == "Always")
        .map(|container| str_of(container, "name"))
        .collect();
    let total = it.list("/spec/containers").len() + sidecars.len();
    let mut of_sidecars = Summary::default();
    let initializing = init_containers(it, &sidecars, &mut summary, &mut of_sidecars);
    if !initializing || has_condition(status, "Initialized") {
        summary.restarts = of_sidecars.restarts;
        summary.last_restart = of_sidecars.last_restart;
        containers(status, &mut summary);
    }
    if it.deleted() {
        if status["reason"] == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !matches!(phase, "Succeeded" | "Failed") {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            let ago = age::human(it.now.duration_since(last));
            format!("{} ({ago} ago)", summary.restarts)
        }
        _ => summary.restarts.to_string(),
    };
    vec![
        it.name(),
        json!(format!("{}/{total}", summary.ready)),
        json!(summary.reason),
        json!(restarts),
        it.age(),
        it.text_or("/status/podIPs/0/ip", "<none>"),
        it.text_or("/spec/nodeName", "<none>"),
        it.text_or("/status/nominatedNodeName", "<none>"),
        json!(readiness_gates(it)),
    ]
}

/// The first init container that is not done is what the pod waits for. Whether there is one.
fn init_containers(
    it: Printed<'_>,
    sidecars: &[&str],
    summary: &mut Summary,
    of_sidecars: &mut Summary,
) -> bool {
    let count = it.list("/spec/initContainers").len();
    for (i, status) in it.list("/status/initContainerStatuses").iter().enumerate() {
        let sidecar = sidecars.contains(&str_of(status, "name"));
        summary.restarted(status);
        if sidecar {
            of_sidecars.restarted(status);
        }
        let terminated = &status["state"]["terminated"];
        let waiting = str_of(&status["state"]["waiting"], "reason");
        if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or_default() == 0 {
            continue;
        }
        if sidecar && status["started"] == true {
            summary.ready += usize::from(status["ready"] == true);
            continue;
        }
        summary.reason = if terminated.is_object() {
            format!("Init:{}", ended(terminated))
        } else if !matches!(waiting, "" | "PodInitializing") {
            format!("Init:{waiting}")
        } else {
            format!("Init:{i}/{count}")
        };
        return true;
    }
    false
}

fn containers(status: &Value, summary: &mut Summary) {
    let mut running = false;
    let mut failed = None;
    for status in list(&status["containerStatuses"]).iter().rev() {
        summary.restarted(status);
        let state = &status["state"];
        let waiting = str_of(&state["waiting"], "reason");
        let terminated = &state["terminated"];
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if terminated.is_object() {
            summary.reason = ended(terminated);
            if terminated["exitCode"].as_i64().unwrap_or_default() != 0 {
                failed = Some(summary.reason.clone());
            }
        } else if status["ready"] == true && state["running"].is_object() {
            running = true;
            summary.ready += 1;
        }
    }
    // One container that has ended does not end the pod.
    if summary.reason == "Completed" {
        if running && has_condition(status, "Ready") {
            "Running".clone_into(&mut summary.reason);
        } else if let Some(failed) = failed {
            summary.reason = failed;
        } else if running {
            "NotReady".clone_into(&mut summary.reason);
        }
    }
}

/// How a container ended.
fn ended(terminated: &Value) -> String {
    let number = |name: &str| terminated[name].as_i64().unwrap_or_default();
    match (str_of(terminated, "reason"), number("signal")) {
        ("", 0) => format!("ExitCode:{}", number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

fn has_condition(status: &Value, name: &str) -> bool {
    let mut conditions = list(&status["conditions"]).iter();
    conditions.any(|condition| condition["type"] == name && condition["status"] == "True")
}

fn readiness_gates(it: Printed<'_>) -> String {
    let gates = it.list("/spec/readinessGates");
    if gates.is_empty() {
        return "<none>".to_owned();
    }
    let open = gates
        .iter()
        .filter(|gate| has_condition(it.at("/status"), str_of(gate, "conditionType")));
    format!("{}/{}", open.count(), gates.len())
}
