//! The status: what is so, in words that explain themselves.

use super::view::{Instance, View};
use super::{Record, primary, replicas};
use crate::api::{Condition, InstanceRow, MySQLClusterStatus, Phase};
use crate::mysql::{Replication, ThreadState};
use crate::operator::kinds::{Cluster, Pod};
use crate::operator::observe::Now;
use crate::operator::resources;

/// The condition that says that nothing comes of the cluster as it is.
const STALLED: &str = "Stalled";

/// What the rest of the plan found.
#[derive(Debug)]
pub(super) struct Situation<'a> {
    /// Phase and reason while writes are not served, or nothing is done.
    pub(super) waiting: Option<(Phase, String)>,
    /// Why the spec can't be worked with.
    pub(super) invalid: Option<&'a str>,
}

pub(super) fn status(
    cluster: &Cluster,
    view: &View<'_>,
    record: &Record,
    situation: &Situation<'_>,
    term: u64,
    now: Now,
) -> MySQLClusterStatus {
    let rows: Vec<InstanceRow> = view
        .instances
        .values()
        .map(|i| row(view, record, i))
        .collect();
    let ready = view
        .instances
        .values()
        .filter(|i| i.ordinal < view.wanted && replicas::is_ready(view, record, i))
        .count();
    let primary = record.current.as_deref().and_then(|c| view.named(c));
    let writes = primary.is_some_and(|p| replicas::is_ready(view, record, p));
    let surplus = view
        .instances
        .values()
        .find(|i| i.ordinal >= view.wanted && i.pod.is_some());
    let complete = writes && ready == view.wanted as usize && surplus.is_none();
    let first_problem = rows
        .iter()
        .find(|row| !row.ready)
        .map(|row| format!("{}: {}", row.name, row.state));
    let (phase, reason) = match &situation.waiting {
        Some((phase @ (Phase::Paused | Phase::Offline), reason)) => (*phase, reason.clone()),
        Some((phase, reason)) if !writes => {
            // A promotion is over when writes are served, not when its record is.
            let phase = match &cluster.status.phase {
                before @ (Phase::Bootstrapping | Phase::FailingOver | Phase::SwitchingOver)
                    if *phase == Phase::Degraded =>
                {
                    before
                }
                _ => phase,
            };
            // Before there is a first primary, what keeps the instances from coming up says more.
            let detail = first_problem.filter(|_| *phase == Phase::Bootstrapping);
            (
                *phase,
                detail.map_or(reason.clone(), |d| format!("{reason}; {d}")),
            )
        }
        _ if complete => (
            Phase::Running,
            format!("{ready} of {} instances are ready", view.wanted),
        ),
        _ if writes => {
            let leaves = |i: &Instance<'_>| format!("{} is to be removed", i.name);
            let reason = first_problem.or_else(|| surplus.map(leaves));
            (Phase::Degraded, reason.unwrap_or_default())
        }
        _ => match &record.operation {
            // Written down just now; its first step comes with the next pass.
            Some(operation) => (primary::promotion_phase(record), operation.step.clone()),
            None => (
                Phase::Pending,
                first_problem.unwrap_or_else(|| "nothing runs yet".into()),
            ),
        },
    };
    let mut status = MySQLClusterStatus {
        observed_generation: cluster.metadata.generation,
        phase,
        reason,
        ready: format!("{ready}/{}", view.wanted),
        replicas: u32::try_from(view.instances.values().filter(|i| i.pod.is_some()).count())
            .unwrap_or(0),
        selector: resources::pod_selector(view.cluster),
        version: primary
            .and_then(|p| Some(p.up.as_ref()?.server.version.clone()))
            .or_else(|| cluster.status.version.clone()),
        current_primary: record.current.clone(),
        target_primary: record.target.clone(),
        term,
        quorum: record.quorum.clone(),
        app_account_hash: cluster.status.app_account_hash.clone(),
        operation: record.operation.clone(),
        conditions: Vec::new(),
        instances: rows,
    };
    status.conditions = conditions(cluster, &status, situation, writes, now);
    status
}

fn conditions(
    cluster: &Cluster,
    status: &MySQLClusterStatus,
    situation: &Situation<'_>,
    writes: bool,
    now: Now,
) -> Vec<Condition> {
    let phase = status.phase;
    let running = phase == Phase::Running;
    let stalled = situation.invalid.is_some();
    let resting = matches!(phase, Phase::Running | Phase::Offline | Phase::Paused);
    let ready_reason = if running {
        "AllInstancesReady".to_owned()
    } else {
        format!("{phase:?}")
    };
    let facts = [
        (
            "Ready",
            running && !stalled,
            ready_reason,
            status.reason.clone(),
        ),
        (
            "Available",
            writes,
            if writes {
                "PrimaryWritable"
            } else {
                "NoWritablePrimary"
            }
            .to_owned(),
            match (&status.current_primary, writes) {
                (Some(primary), true) => format!("{primary} accepts writes"),
                _ => status.reason.clone(),
            },
        ),
        (
            "Progressing",
            !resting && !stalled,
            status
                .operation
                .as_ref()
                .map_or_else(|| format!("{phase:?}"), |o| format!("{:?}", o.kind)),
            status
                .operation
                .as_ref()
                .map_or_else(|| status.reason.clone(), |o| o.step.clone()),
        ),
        (
            "Degraded",
            writes && !running,
            format!("{phase:?}"),
            status.reason.clone(),
        ),
        (
            STALLED,
            stalled,
            if stalled { "InvalidSpec" } else { "SpecUsable" }.to_owned(),
            situation
                .invalid
                .unwrap_or("the spec can be worked with")
                .to_owned(),
        ),
    ];
    facts
        .into_iter()
        .map(|(kind, fact, reason, message)| {
            let before = &cluster.status.conditions;
            let generation = cluster.metadata.generation;
            condition(before, kind, fact, reason, message, generation, now)
        })
        .collect()
}

/// A condition that has been so since it became so, as `before` says, or since now.
fn condition(
    before: &[Condition],
    kind: &str,
    fact: bool,
    reason: String,
    message: String,
    generation: i64,
    now: Now,
) -> Condition {
    let value = if fact { "True" } else { "False" };
    let mut before = before.iter();
    let since = before
        .find(|c| c.kind == kind && c.status == value)
        .map(|c| c.last_transition_time.clone());
    Condition {
        kind: kind.to_owned(),
        status: value.to_owned(),
        reason,
        message,
        last_transition_time: since.unwrap_or_else(|| rfc3339(now)),
        observed_generation: generation,
    }
}

/// Says in `status` that no reconcile succeeds, and `why`. The next one that does computes it anew.
pub(in crate::operator) fn stall(
    status: &mut MySQLClusterStatus,
    generation: i64,
    why: &str,
    now: Now,
) {
    let conditions = &mut status.conditions;
    let (reason, message) = ("ReconcileFails".to_owned(), why.to_owned());
    let stalled = condition(conditions, STALLED, true, reason, message, generation, now);
    conditions.retain(|c| c.kind != STALLED);
    conditions.push(stalled);
}

/// Whole seconds, as Kubernetes writes times.
fn rfc3339(now: Now) -> String {
    now.wall.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

fn row(view: &View<'_>, record: &Record, instance: &Instance<'_>) -> InstanceRow {
    let ready = replicas::is_ready(view, record, instance);
    let primary = record.current.as_ref() == Some(&instance.name);
    let role = match (&instance.up, primary) {
        (Some(_), true) if ready => "primary",
        (Some(up), false) if up.replication().is_some() => "replica",
        _ => "",
    };
    InstanceRow {
        name: instance.name.clone(),
        role: role.to_owned(),
        ready,
        state: if ready {
            "ready".into()
        } else {
            state(view, record, instance)
        },
        version: instance.up.as_ref().map(|up| up.server.version.clone()),
        node: instance
            .pod
            .map(|p| p.spec.node_name.to_string())
            .filter(|n| !n.is_empty()),
        errant: instance
            .suspicion()
            .filter(|s| s.confirmed())
            .map(|s| s.transactions.to_string()),
        config_hash: instance.up.as_ref().map(|up| up.status.config_hash.clone()),
    }
}

/// Why an instance is not ready.
fn state(view: &View<'_>, record: &Record, instance: &Instance<'_>) -> String {
    let Some(pod) = instance.pod else {
        return "has no pod yet".into();
    };
    if pod.metadata.is_terminating() {
        return "its pod is being deleted".into();
    }
    if let Some(up) = &instance.up {
        if instance.is_errant() {
            return "has transactions of its own that the primary has not; it is rebuilt".into();
        }
        if instance.suspicion().is_some() {
            return "has transactions that the primary may not have; being checked".into();
        }
        if !up.status.message.is_empty() {
            return up.status.message.clone();
        }
        if up.status.stopping {
            return "is stopping".into();
        }
        return match up.replication() {
            _ if record.current.as_ref() == Some(&instance.name) => {
                "does not accept writes yet".into()
            }
            None if up.writable() => {
                "accepts writes without being the primary; being stopped".into()
            }
            None => "does not replicate yet".into(),
            Some(replication) => replication_state(view, record, replication),
        };
    }
    match instance.sight {
        Some(sight) if sight.fresh => match &sight.status {
            Some(status) if status.message.is_empty() => format!("mysqld: {:?}", status.phase),
            Some(status) => format!("mysqld: {:?}: {}", status.phase, status.message),
            None => pod_state(pod),
        },
        Some(sight) if sight.status.is_some() => {
            format!("not heard of: {}", sight.error)
        }
        _ => pod_state(pod),
    }
}

fn replication_state(view: &View<'_>, record: &Record, replication: &Replication) -> String {
    let current = record.current.as_deref().unwrap_or_default();
    if replication.source_host != view.host(current) {
        return format!("follows {}, not {current}", replication.source_host);
    }
    let thread = |name: &str, state: &ThreadState, error: &str| match state {
        ThreadState::On => None,
        ThreadState::Connecting if error.is_empty() => {
            Some(format!("{name} connects to {current}"))
        }
        ThreadState::Connecting => Some(format!("{name} connects to {current}: {error}")),
        ThreadState::Off => Some(format!("{name} is stopped")),
        ThreadState::Failed(error) => Some(format!("{name} stopped: {error}")),
    };
    thread("the applier", &replication.applier, "")
        .or_else(|| {
            thread(
                "the receiver",
                &replication.receiver.state,
                &replication.receiver.error,
            )
        })
        .or_else(|| {
            replication
                .lag_seconds
                .map(|lag| format!("is {lag:.0} s behind"))
        })
        .unwrap_or_else(|| "catches up".into())
}

/// What keeps a pod from running, from Kubernetes' own words.
fn pod_state(pod: &Pod) -> String {
    let containers = pod
        .status
        .init_container_statuses
        .iter()
        .chain(&pod.status.container_statuses);
    for container in containers {
        if let Some(waiting) = &container.state.waiting
            && !matches!(
                &*waiting.reason,
                "" | "ContainerCreating" | "PodInitializing"
            )
        {
            return format!(
                "container {}: {}: {}",
                container.name, waiting.reason, waiting.message
            );
        }
        if let Some(ended) = container
            .state
            .terminated
            .as_ref()
            .filter(|t| t.exit_code != 0)
        {
            return format!(
                "container {} ended with {}: {} {}",
                container.name, ended.exit_code, ended.reason, ended.message
            );
        }
    }
    if let Some(unscheduled) = &pod.status.conditions.unscheduled {
        return format!("{}: {}", unscheduled.reason, unscheduled.message);
    }
    "its pod is starting".into()
}
