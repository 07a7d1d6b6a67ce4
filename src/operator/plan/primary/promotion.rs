//! Carries out a promotion that is on record, from whatever point it stands at.

use std::time::Duration;

use jiff::Timestamp;

use super::super::quorum;
use super::super::view::{Instance, View};
use super::super::{Note, Record};
use super::failover::stop_receivers;
use super::{Decision, is_promoted};
use crate::api::{Operation, OperationKind, Phase, QuorumRecord};
use crate::instance::{Command, Promote};
use crate::operator::observe::Now;

/// How long a target may be away before another is chosen.
const TARGET_PATIENCE: Duration = Duration::from_secs(5);
/// How long a handover may take before the old primary is opened again.
const SWITCHOVER_DEADLINE: Duration = Duration::from_secs(30);

/// The record of a promotion that begins.
pub(super) fn begin(
    view: &View<'_>,
    record: &Record,
    target: &Instance<'_>,
    kind: OperationKind,
    reason: &str,
    now: Now,
) -> Record {
    let members = view
        .up()
        .filter(|(i, _)| i.ordinal < view.wanted && i.suspicion().is_none())
        .map(|(i, _)| i.name.clone());
    let next = quorum::quorum_of(&target.name, members);
    let quorum = match &record.quorum {
        // A change of members that was under way stays part of the old rule.
        Some(quorum) => QuorumRecord::changing(quorum.rule(), next),
        None => QuorumRecord::begun(next),
    };
    Record {
        current: record.current.clone(),
        target: Some(target.name.clone()),
        quorum: Some(quorum),
        operation: Some(Operation {
            kind,
            step: format!("promoting {}", target.name),
            started_at: now.wall.to_string(),
            reason: reason.to_owned(),
        }),
        ..record.clone()
    }
}

/// A promotion is on record.
pub(super) fn moving(view: &View<'_>, record: &Record, target: &str, now: Now) -> Decision {
    let operation = record.operation.as_ref();
    let switchover = operation.is_some_and(|o| o.kind == OperationKind::Switchover);
    let phase = match (&record.current, switchover) {
        (None, _) => Phase::Bootstrapping,
        (_, true) => Phase::SwitchingOver,
        (_, false) => Phase::FailingOver,
    };
    let abandon = |why: String| Decision {
        notes: vec![Note::warning(
            "PromotionAbandoned",
            format!("{target} is not promoted: {why}"),
        )],
        record: Some(Record {
            target: None,
            operation: None,
            quorum: record
                .quorum
                .as_ref()
                .filter(|_| record.current.is_some())
                .map(|quorum| QuorumRecord::resumed(quorum.current.clone())),
            ..record.clone()
        }),
        ..Decision::default()
    };
    let Some((instance, up)) = view.named(target).and_then(|i| Some((i, i.up.as_ref()?))) else {
        let gone = view.named(target).is_none_or(|i| i.not_serving());
        let patience = view.named(target).and_then(|i| i.unheard_for(now.instant));
        if gone || patience.is_some_and(|p| p >= TARGET_PATIENCE) {
            return abandon("it is down".into());
        }
        return Decision::wait(phase, format!("waiting for {target} to answer"));
    };
    let overdue = switchover
        && operation
            .and_then(|o| o.started_at.parse::<Timestamp>().ok())
            .is_some_and(|started| {
                let age = now.wall.duration_since(started);
                age > SWITCHOVER_DEADLINE.try_into().unwrap_or_default()
            });
    let mut required = up.held.clone();
    if let (Some(current), Some(quorum)) = (&record.current, &record.quorum)
        && current != target
    {
        let old = view.named(current).and_then(|i| Some((i, i.up.as_ref()?)));
        if let Some((old, theirs)) = old {
            if theirs.writable() {
                if overdue {
                    return abandon(format!("{current} did not stop writing in time"));
                }
                return Decision {
                    commands: vec![(old.ordinal, Command::Demote)],
                    ..Decision::wait(phase, format!("{current} stops accepting writes"))
                };
            }
            // The old primary is seen and closed: what it has is all there is.
            required = required.union(&theirs.executed);
        } else {
            let holders = quorum::holders(quorum);
            let visible: Vec<_> = view
                .up()
                .filter(|(i, _)| holders.contains(i.name.as_str()))
                .collect();
            let seen = visible.iter().map(|(i, _)| i.name.as_str()).collect();
            if !quorum::covers(quorum, &seen) {
                return abandon(
                    "too few of the replicas that may hold acknowledged writes are visible".into(),
                );
            }
            // A replica already pointed at the target receives nothing from the old primary.
            let to_stop: Vec<_> = visible
                .iter()
                .filter(|(i, theirs)| {
                    i.name == target
                        || theirs
                            .replication()
                            .is_some_and(|r| r.source_host != view.host(target))
                })
                .copied()
                .collect();
            if let Some(stop) = stop_receivers(&to_stop) {
                return Decision {
                    waiting: Some((phase, "stopping receivers".into())),
                    ..stop
                };
            }
            for (_, theirs) in &visible {
                required = required.union(&theirs.held);
            }
        }
    }
    let missing = required.subtract(&up.held);
    // What is still on its way from the closed old primary, the promotion itself waits for.
    if !missing.is_empty() && (up.receiver_stopped() || overdue) {
        return abandon(format!("it lacks {missing}"));
    }
    let next = record.quorum.as_ref().and_then(|q| q.next.clone());
    let next = next.unwrap_or_else(|| quorum::quorum_of(target, []));
    if !is_promoted(up, next.acks) {
        if overdue {
            return abandon("it was not ready in time".into());
        }
        return Decision {
            commands: vec![(
                instance.ordinal,
                Command::Promote(Promote {
                    required: required.to_string(),
                    acks: next.acks,
                }),
            )],
            ..Decision::wait(phase, format!("{target} applies what it received"))
        };
    }
    let reason = match phase {
        Phase::Bootstrapping => "Bootstrapped",
        Phase::SwitchingOver => "SwitchoverCompleted",
        _ => "FailoverCompleted",
    };
    Decision {
        notes: vec![Note::normal(reason, format!("{target} is the primary"))],
        record: Some(Record {
            current: Some(target.to_owned()),
            target: None,
            quorum: Some(QuorumRecord::begun(next)),
            operation: None,
            ..record.clone()
        }),
        ..Decision::default()
    }
}
