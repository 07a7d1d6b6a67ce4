//! Which instance is the primary: bootstrap, failover, switchover, and opening it for writes.
//!
//! Each pass yields either a change of the durable record, which is written before anything else
//! happens, or commands that the record already allows. So any operator can go on from any point.

mod bootstrap;
mod failover;
mod promotion;
mod switchover;

pub(super) use promotion::phase as promotion_phase;

use std::collections::BTreeSet;
use std::time::Duration;

use super::quorum;
use super::view::{Instance, Up, View};
use super::{Note, Record};
use crate::api::Phase;
use crate::instance::{Command, Promote};
use crate::mysql::ThreadState;
use crate::operator::observe::Now;

/// How long a primary may be unheard of before its replicas are asked: three missed reports.
pub(super) const UNHEARD_LIMIT: Duration = Duration::from_secs(3);
/// A replica that heard of its source within this bears witness that it lives. Three heartbeats of
/// replication.
const SILENCE_LIMIT_MS: u64 = 3000;

/// What is to be done about the primary.
#[derive(Debug, Default)]
pub(super) struct Decision {
    /// The record, when it must change. Nothing else may be done in the same pass.
    pub(super) record: Option<Record>,
    /// Commands by ordinal.
    pub(super) commands: Vec<(u32, Command)>,
    /// The command that makes the primary writable: after the labels.
    pub(super) open: Option<u32>,
    /// Phase and reason while writes are not served.
    pub(super) waiting: Option<(Phase, String)>,
    /// The request for a handover is answered: it was tried and given up.
    pub(super) drop_request: bool,
    /// What a person wants to know.
    pub(super) notes: Vec<Note>,
}

impl Decision {
    fn wait(phase: Phase, reason: impl Into<String>) -> Self {
        Self {
            waiting: Some((phase, reason.into())),
            ..Self::default()
        }
    }
}

/// Why the primary should move although it serves.
#[derive(Debug)]
pub(super) struct Handover<'a> {
    /// The instance it must move to; `None` for the best.
    pub(super) to: Option<&'a str>,
    /// Why.
    pub(super) reason: String,
}

pub(super) fn decide(
    view: &View<'_>,
    record: &Record,
    adopted: &BTreeSet<u32>,
    handover: Option<&Handover<'_>>,
    now: Now,
) -> Decision {
    let mut decision = match (&record.target, &record.current) {
        (Some(target), _) => promotion::moving(view, record, target, now),
        (None, None) => bootstrap::bootstrap(view, record, adopted, now),
        (None, Some(current)) => settled(view, record, current, handover, now),
    };
    if decision.record.is_none() {
        // mariadb#1719: whoever accepts writes without being the primary is told to stop, always.
        for (instance, up) in view.up() {
            let known = decision
                .commands
                .iter()
                .any(|(o, _)| *o == instance.ordinal);
            if up.writable() && record.current.as_deref() != Some(&instance.name) && !known {
                decision.commands.push((instance.ordinal, Command::Demote));
            }
        }
    }
    decision
}

/// A primary is recorded and none is being promoted.
fn settled(
    view: &View<'_>,
    record: &Record,
    current: &str,
    handover: Option<&Handover<'_>>,
    now: Now,
) -> Decision {
    let Some(primary) = view.named(current) else {
        return failover::failover(view, record, current, format!("{current} has no pod"), now);
    };
    if let Some(up) = &primary.up {
        if up.writable() {
            return match handover {
                Some(handover) => switchover::switchover(view, record, primary, handover, now),
                None => Decision::default(),
            };
        }
        if primary.leaving() {
            return failover::failover(
                view,
                record,
                current,
                format!("{current} is stopping"),
                now,
            );
        }
        return match lost_data(view, record, primary, up) {
            None => open(primary, up, record),
            Some(why) => failover::failover(view, record, current, why, now),
        };
    }
    if primary.not_serving() {
        let why = match primary.phase() {
            _ if primary.pod.is_none() => format!("the pod of {current} is gone"),
            Some(phase) => format!("mysqld of {current} is down ({phase:?})"),
            None => format!("the pod of {current} was replaced or has ended"),
        };
        return failover::failover(view, record, current, why, now);
    }
    match primary.unheard_for(now.instant) {
        Some(unheard) if unheard >= UNHEARD_LIMIT => {
            // Not heard of by us is not down: the replicas must have lost it too.
            let holders = holders(record);
            let witness = view
                .up()
                .filter(|(i, _)| holders.contains(i.name.as_str()))
                .find(|(_, up)| {
                    up.replication().is_some_and(|r| {
                        r.receiver.state == ThreadState::On && r.source_silent_ms < SILENCE_LIMIT_MS
                    })
                });
            if let Some((replica, _)) = witness {
                return Decision::wait(
                    Phase::Degraded,
                    format!(
                        "the operator does not reach {current}, but {} still hears of it: no failover",
                        replica.name
                    ),
                );
            }
            let why = format!("{current} is not heard of by the operator or its replicas");
            failover::failover(view, record, current, why, now)
        }
        _ => Decision::wait(
            Phase::Degraded,
            format!("{current} is not heard of just now"),
        ),
    }
}

fn holders(record: &Record) -> BTreeSet<&str> {
    record
        .quorum
        .as_ref()
        .map(quorum::holders)
        .unwrap_or_default()
}

/// Whether a read-only primary runs on another (emptier, older) volume than it did: it is empty where
/// others are not, or lacks transactions that it wrote itself. Then it must not be opened. What
/// others have from elsewhere is no sign: a write that a former primary never acknowledged may have
/// reached them.
fn lost_data(
    view: &View<'_>,
    record: &Record,
    primary: &Instance<'_>,
    up: &Up<'_>,
) -> Option<String> {
    let holders = holders(record);
    let name = &primary.name;
    for (replica, theirs) in view.up() {
        if replica.ordinal == primary.ordinal || !holders.contains(replica.name.as_str()) {
            continue;
        }
        if up.executed.is_empty() && !theirs.executed.is_empty() {
            return Some(format!("{name} is empty and {} is not", replica.name));
        }
        let surplus = theirs.held.subtract(&up.executed);
        let lost = surplus.of(&up.server.server_uuid);
        if !lost.is_empty() {
            return Some(format!(
                "{name} lacks transactions that it wrote and {} has: {lost}",
                replica.name
            ));
        }
    }
    (record.written && up.executed.is_empty())
        .then(|| format!("{name} is empty although the cluster was written to"))
}

/// A primary that restarted, or was just promoted: set the rules, then open it.
fn open(primary: &Instance<'_>, up: &Up<'_>, record: &Record) -> Decision {
    let acks = record
        .quorum
        .as_ref()
        .map_or(0, crate::api::QuorumRecord::waits);
    let mut decision = Decision::wait(
        Phase::Degraded,
        format!("{} is being opened for writes", primary.name),
    );
    if is_promoted(up, acks) {
        decision.open = Some(primary.ordinal);
    } else {
        decision.commands.push((
            primary.ordinal,
            Command::Promote(Promote {
                required: up.executed.to_string(),
                acks,
            }),
        ));
    }
    decision
}

fn is_promoted(up: &Up<'_>, acks: u32) -> bool {
    let rules = if acks == 0 {
        !up.server.semi_sync_source
    } else {
        up.server.semi_sync_source && up.server.semi_sync_wait_for == acks
    };
    up.status.promoted && up.server.replication.is_none() && rules
}
