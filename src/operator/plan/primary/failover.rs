//! The primary is lost: fence it, choose, promote.

use std::collections::BTreeSet;

use super::super::quorum;
use super::super::view::{Instance, Up, View};
use super::super::{Note, Record};
use super::Decision;
use super::promotion::begin;
use crate::api::{OperationKind, Phase};
use crate::instance::Command;
use crate::mysql::GtidSet;
use crate::operator::observe::Now;

/// The primary does not serve: fence it by its replicas, then choose.
pub(super) fn failover(
    view: &View<'_>,
    record: &Record,
    current: &str,
    why: String,
    now: Now,
) -> Decision {
    let Some(quorum) = &record.quorum else {
        return Decision::wait(Phase::Unavailable, format!("{why}; no quorum is on record"));
    };
    let holders = quorum::holders(quorum);
    let visible: Vec<(&Instance<'_>, &Up<'_>)> = view
        .up()
        .filter(|(i, _)| i.name != current && holders.contains(i.name.as_str()))
        .collect();
    let seen: BTreeSet<&str> = visible.iter().map(|(i, _)| i.name.as_str()).collect();
    if !quorum::covers(quorum, &seen) {
        let (needed, unseen) = quorum::missing(quorum, &seen);
        let reason = if quorum.rule().acks == 0 {
            format!("{why}; it alone is proven to have every write: waiting for it to return")
        } else {
            format!(
                "{why}; every acknowledged write is proven to be on the visible replicas only with {needed} more of: {}; waiting for them or for {current}",
                unseen.join(", ")
            )
        };
        return Decision::wait(Phase::Unavailable, reason);
    }
    if let Some(stop) = stop_receivers(&visible) {
        return Decision {
            waiting: Some((Phase::FailingOver, why)),
            ..stop
        };
    }
    match most_advanced(&visible) {
        Err(difference) => diverged(Phase::Unavailable, &difference),
        Ok(target) => Decision {
            notes: vec![Note::warning(
                "FailoverStarted",
                format!("{why}: promoting {}", target.name),
            )],
            record: Some(begin(
                view,
                record,
                target,
                OperationKind::Failover,
                &why,
                now,
            )),
            ..Decision::default()
        },
    }
}

pub(super) fn stop_receivers(replicas: &[(&Instance<'_>, &Up<'_>)]) -> Option<Decision> {
    let commands: Vec<(u32, Command)> = replicas
        .iter()
        .filter(|(_, up)| !up.receiver_stopped())
        .map(|(i, _)| (i.ordinal, Command::StopReceiver))
        .collect();
    (!commands.is_empty()).then(|| Decision {
        commands,
        ..Decision::default()
    })
}

/// The instance whose transactions include everyone's; the lowest ordinal among equals, an instance
/// that stays before one that is leaving, one with less left to apply before others.
pub(super) fn most_advanced<'v, 'a>(
    among: &[(&'v Instance<'a>, &'v Up<'a>)],
) -> Result<&'v Instance<'a>, String> {
    let everything = among
        .iter()
        .fold(GtidSet::default(), |all, (_, up)| all.union(&up.held));
    let complete = among
        .iter()
        .filter(|(_, up)| everything.is_subset_of(&up.held))
        .min_by_key(|(i, up)| {
            (
                i.leaving(),
                std::cmp::Reverse(up.executed.count()),
                i.ordinal,
            )
        });
    if let Some((instance, _)) = complete {
        return Ok(instance);
    }
    let lacking: Vec<String> = among
        .iter()
        .map(|(i, up)| format!("{} lacks {}", i.name, everything.subtract(&up.held)))
        .collect();
    Err(lacking.join("; "))
}

pub(super) fn diverged(phase: Phase, difference: &str) -> Decision {
    Decision {
        notes: vec![Note::warning(
            "Diverged",
            format!("no instance has all transactions: {difference}"),
        )],
        ..Decision::wait(
            phase,
            format!(
                "no instance has all transactions, so none is promoted; a person must choose: {difference}"
            ),
        )
    }
}
