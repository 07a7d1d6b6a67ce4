//! What is known, as the screen shows it. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::kinds::{Event, Lease};
use super::observer::Facts;
use super::operators::OperatorState;
use super::snapshot::{ClusterView, EventView, InstanceView, Lag, ReplicaView};
use crate::api::{Quorum, QuorumRecord};
use crate::instance::InstancePhase;
use crate::mysql::ThreadState;
use crate::operator::kinds::{Cluster, Pod};
use crate::operator::observe::Sight;
use crate::operator::resources::ROLE_LABEL;

/// Events that are kept for the screen.
const EVENTS: usize = 50;

/// The cluster.
pub(super) fn cluster(cluster: &Cluster) -> ClusterView {
    let status = &cluster.status;
    let operation = status.operation.as_ref();
    ClusterView {
        name: cluster.metadata.name.to_string(),
        generation: cluster.metadata.generation,
        observed_generation: status.observed_generation,
        wanted: cluster.spec.instances,
        phase: format!("{:?}", status.phase),
        reason: status.reason.clone(),
        ready: status.ready.clone(),
        primary: status.current_primary.clone().unwrap_or_default(),
        target: status.target_primary.clone().unwrap_or_default(),
        version: status.version.clone().unwrap_or_default(),
        quorum: status.quorum.as_ref().map(quorum).unwrap_or_default(),
        operation: operation.map_or_else(String::new, |o| format!("{:?}: {}", o.kind, o.step)),
    }
}

fn quorum(record: &QuorumRecord) -> String {
    let words = |quorum: &Quorum| match quorum.members.as_slice() {
        [] => "nobody".to_owned(),
        members => format!("{} of {}", quorum.acks, members.join(", ")),
    };
    let current = words(&record.current);
    match &record.next {
        Some(next) => format!("{current} → {}", words(next)),
        None => current,
    }
}

/// The instances: every pod, and every row of the status.
pub(super) fn instances(facts: &Facts) -> Vec<InstanceView> {
    let status = facts.cluster.as_ref().map(|cluster| &cluster.status);
    let rows = status
        .map(|status| status.instances.as_slice())
        .unwrap_or_default();
    let pods: BTreeMap<&str, &Pod> = facts
        .pods
        .iter()
        .map(|pod| (pod.metadata.name.as_str(), &**pod))
        .collect();
    let mut views: BTreeMap<&str, InstanceView> = BTreeMap::new();
    for row in rows {
        let view = views.entry(&row.name).or_default();
        (view.ready, view.state) = (row.ready, row.state.clone());
    }
    for name in pods.keys() {
        views.entry(name).or_default();
    }
    let complete = |(name, mut view): (&str, InstanceView)| {
        name.clone_into(&mut view.pod);
        if let Some(pod) = pods.get(name) {
            pod.metadata.uid.as_str().clone_into(&mut view.uid);
            view.role = pod
                .metadata
                .labels
                .get(ROLE_LABEL)
                .unwrap_or_default()
                .to_owned();
            if view.state.is_empty() {
                view.state = doing(pod, facts.sights.get(name));
            }
        } else {
            "no pod".clone_into(&mut view.state);
        }
        if let Some(sight) = facts.sights.get(name) {
            hear(&mut view, sight, facts.readings.lacks(sight));
        }
        view
    };
    views.into_iter().map(complete).collect()
}

/// What an instance is at, where the operator says nothing of it.
fn doing(pod: &Pod, sight: Option<&Sight>) -> String {
    let status = sight.and_then(|sight| sight.status.as_ref());
    if pod.metadata.is_terminating() {
        return "terminating".to_owned();
    }
    match status.map(|status| status.phase) {
        None => pod.status.phase.as_str().to_lowercase(),
        Some(InstancePhase::Running) => String::new(),
        Some(phase) => format!("{phase:?}").to_lowercase(),
    }
}

fn hear(view: &mut InstanceView, sight: &Sight, lacks: Option<u64>) {
    view.heard = sight.fresh;
    let Some(status) = &sight.status else {
        return;
    };
    view.starts = Some(status.starts);
    let server = status.server.as_ref().filter(|_| sight.fresh);
    let Some(server) = server else {
        return; // what it was like when it was last heard is not what it is
    };
    view.gtid.clone_from(&server.gtid_executed);
    let replication = server.replication.as_ref();
    if view.state.is_empty()
        && let Some(replication) = replication
        && replication.receiver.state != ThreadState::On
    {
        view.state = format!(
            "receiver of {}: {}",
            replication.source_host,
            words(&replication.receiver.state)
        );
    }
    view.lag = lacks.map(|transactions| Lag {
        transactions,
        seconds: replication.and_then(|replication| replication.lag_seconds),
    });
}

fn words(state: &ThreadState) -> &str {
    match state {
        ThreadState::On => "on",
        ThreadState::Connecting => "connecting",
        ThreadState::Off => "off",
        ThreadState::Failed(error) => error,
    }
}

/// Who holds the Lease; empty for nobody.
pub(super) fn holder(lease: Option<&Lease>) -> String {
    let holder = lease.and_then(|lease| lease.spec.holder_identity.clone());
    holder.unwrap_or_default()
}

/// Whether a holder of the Lease is the process that was started as `identity`: which is not the first
/// of a container, and so has added its process ID and more.
fn is_of(holder: &str, identity: &str) -> bool {
    let added = holder.strip_prefix(identity);
    !identity.is_empty() && added.is_some_and(|added| added.is_empty() || added.starts_with('_'))
}

/// A replica of the operator.
pub(super) fn replica(
    name: &str,
    state: &OperatorState,
    lease: Option<&Lease>,
    now: Instant,
) -> ReplicaView {
    let leads = state.process.is_ok() && is_of(&holder(lease), &state.identity);
    let transitions = lease.and_then(|lease| lease.spec.lease_transitions);
    ReplicaView {
        name: name.to_owned(),
        identity: state.identity.clone(),
        pid: state.process.clone().ok(),
        age: now.duration_since(state.since),
        leads,
        term: leads.then(|| transitions.unwrap_or_default() + 1),
        why: state.process.clone().err().unwrap_or_default(),
    }
}

/// Events, latest first.
pub(super) fn events<'a>(
    events: impl Iterator<Item = &'a Event>,
    now: Timestamp,
) -> Vec<EventView> {
    let mut dated: Vec<_> = events
        .map(|event| (event.last().unwrap_or(now), event))
        .collect();
    dated.sort_by(|(a, one), (b, other)| {
        b.cmp(a)
            .then_with(|| one.metadata.name.cmp(&other.metadata.name))
    });
    let view = |(last, event): (Timestamp, &Event)| {
        let count = event.series.as_ref().map_or(1, |series| series.count);
        EventView {
            key: event.metadata.uid.to_string(),
            // An Event of the future has just happened.
            age: Duration::try_from(now.duration_since(last)).unwrap_or_default(),
            warning: event.kind == "Warning",
            reason: event.reason.clone(),
            about: event.regarding.name.clone(),
            note: event.note.clone(),
            count,
        }
    };
    dated.into_iter().take(EVENTS).map(view).collect()
}

#[cfg(test)]
#[path = "gather_tests.rs"]
mod tests;
