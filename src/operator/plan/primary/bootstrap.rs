//! The first primary of a cluster, new or adopted.

use std::collections::BTreeSet;

use super::super::Record;
use super::super::quorum;
use super::super::view::{Instance, Up, View};
use super::Decision;
use super::failover::{diverged, most_advanced, stop_receivers};
use crate::api::{Operation, OperationKind, Phase, QuorumRecord};
use crate::instance::InstancePhase;
use crate::operator::observe::Now;

/// No primary was ever recorded: all volumes that existed before must be seen, then the one that
/// holds everything is it; among empty ones the first.
pub(super) fn bootstrap(
    view: &View<'_>,
    record: &Record,
    adopted: &BTreeSet<u32>,
    now: Now,
) -> Decision {
    // Servers that go on from before the record was lost (an orphaned cluster that is adopted): their
    // sets stand still before they are compared, or what is acknowledged meanwhile is lost. Whoever
    // is writable without being the primary is told to stop.
    if view.up().any(|(_, up)| up.writable()) {
        return Decision::wait(
            Phase::Bootstrapping,
            "a server of the former cluster stops accepting writes",
        );
    }
    let all: Vec<(&Instance<'_>, &Up<'_>)> = view.up().collect();
    if let Some(stop) = stop_receivers(&all) {
        return Decision {
            commands: stop.commands,
            ..Decision::wait(
                Phase::Bootstrapping,
                "replicas of the former cluster stop receiving",
            )
        };
    }
    let absent: Vec<&str> = view
        .instances
        .values()
        .filter(|i| adopted.contains(&i.ordinal) && i.up.is_none())
        .map(|i| i.name.as_str())
        .collect();
    if !absent.is_empty() {
        let reason = format!(
            "waiting for {}: their volumes existed before, and which of them holds the newest data is not known until all are seen",
            absent.join(", ")
        );
        return Decision::wait(Phase::Bootstrapping, reason);
    }
    let up: Vec<(&Instance<'_>, &Up<'_>)> = view.up().collect();
    let needed = 1 + quorum::acks_for(view.wanted.saturating_sub(1) as usize) as usize;
    // The first instance is waited for while it is on its way: people expect it to be the primary.
    // One whose mysqld can't be started does not keep the others from it.
    let first_is_coming = view.instances.get(&0).is_some_and(|first| {
        let coming = [
            InstancePhase::Initialising,
            InstancePhase::Starting,
            InstancePhase::Running,
        ];
        first.up.is_none() && first.phase().is_some_and(|phase| coming.contains(&phase))
    });
    if up.len() < needed || (adopted.is_empty() && first_is_coming) {
        return Decision::wait(
            Phase::Bootstrapping,
            format!(
                "{} of {needed} servers are up that a first primary needs",
                up.len()
            ),
        );
    }
    match most_advanced(&up) {
        Ok(target) => {
            let quorum = quorum::quorum_of(&target.name, up.iter().map(|(i, _)| i.name.clone()));
            Decision {
                record: Some(Record {
                    current: None,
                    target: Some(target.name.clone()),
                    quorum: Some(QuorumRecord::begun(quorum)),
                    operation: Some(Operation {
                        kind: OperationKind::Failover,
                        step: format!("opening {} as the first primary", target.name),
                        started_at: now.wall.to_string(),
                        reason: "Bootstrap".into(),
                    }),
                    ..record.clone()
                }),
                ..Decision::default()
            }
        }
        Err(difference) => diverged(Phase::Bootstrapping, &difference),
    }
}
