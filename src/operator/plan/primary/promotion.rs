//! Carries out a promotion that is on record, from whatever point it stands at.

use std::time::Duration;

use jiff::Timestamp;

use super::super::quorum;
use super::super::view::{Instance, Up, View};
use super::super::{Note, Record};
use super::failover::stop_receivers;
use super::{Decision, is_promoted, lost_data};
use crate::api::{Operation, OperationKind, Phase, Quorum, QuorumRecord};
use crate::instance::{Command, Promote};
use crate::mysql::{GtidSet, ThreadState};
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

/// The phase while a promotion is on record.
pub(in crate::operator::plan) fn phase(record: &Record) -> Phase {
    match &record.current {
        None => Phase::Bootstrapping,
        Some(_) if is_switchover(record) => Phase::SwitchingOver,
        Some(_) => Phase::FailingOver,
    }
}

fn is_switchover(record: &Record) -> bool {
    let operation = record.operation.as_ref();
    operation.is_some_and(|o| o.kind == OperationKind::Switchover)
}

/// A promotion is on record.
pub(super) fn moving(view: &View<'_>, record: &Record, target: &str, now: Now) -> Decision {
    let promotion = Promotion {
        view,
        record,
        target,
        now,
    };
    promotion
        .step()
        .unwrap_or_else(|why| promotion.abandon(&why))
}

struct Promotion<'p, 'a> {
    view: &'p View<'a>,
    record: &'p Record,
    target: &'p str,
    now: Now,
}

/// What is known of the old primary's writes.
enum Old {
    /// They stand still, and the target needs all of these.
    Closed(GtidSet),
    /// This must be done first.
    Open(Box<Decision>),
}

impl Promotion<'_, '_> {
    /// The next step, or why there is none and the promotion is given up.
    fn step(&self) -> Result<Decision, String> {
        let Self { target, .. } = *self;
        let instance = self.view.named(target);
        let Some((instance, up)) = instance.and_then(|i| Some((i, i.up.as_ref()?))) else {
            let unheard = instance.and_then(|i| i.unheard_for(self.now.instant));
            if instance.is_none_or(Instance::not_serving)
                || unheard.is_some_and(|unheard| unheard >= TARGET_PATIENCE)
            {
                return Err("it is down".into());
            }
            return Ok(self.wait(format!("waiting for {target} to answer")));
        };
        let required = match self.close_old(up)? {
            Old::Closed(required) => required,
            Old::Open(first) => return Ok(*first),
        };
        // What is still on its way from the closed old primary, the promotion itself waits for.
        let missing = required.subtract(&up.held);
        if !missing.is_empty() && (up.receiver_stopped() || self.overdue()) {
            return Err(format!("it lacks {missing}"));
        }
        let next = self.record.quorum.as_ref().and_then(|q| q.next.clone());
        let next = next.unwrap_or_else(|| quorum::quorum_of(target, []));
        if is_promoted(up, next.acks) {
            return Ok(self.complete(next));
        }
        if self.overdue() {
            return Err("it was not ready in time".into());
        }
        if let Some(ThreadState::Failed(error)) = up.replication().map(|r| &r.applier)
            && self.old_is_back()
        {
            return Err(format!("its applier can't go on: {error}"));
        }
        let promote = Command::Promote(Promote {
            required: required.to_string(),
            acks: next.acks,
        });
        Ok(Decision {
            commands: vec![(instance.ordinal, promote)],
            ..self.wait(format!("{target} applies what it received"))
        })
    }

    /// Whether the old primary stands ready to be opened again.
    fn old_is_back(&self) -> bool {
        let old = self.record.current.as_deref();
        let old = old.filter(|old| *old != self.target);
        old.and_then(|old| self.view.named(old)).is_some_and(|old| {
            let intact = |up| lost_data(self.view, self.record, old, up).is_none();
            !old.leaving() && old.up.as_ref().is_some_and(intact)
        })
    }

    /// Sees to it that the old primary can't acknowledge another write: it is closed, or cut off
    /// from enough of those whose acknowledgements it needs.
    fn close_old(&self, up: &Up<'_>) -> Result<Old, String> {
        let Self { view, target, .. } = *self;
        let mut required = up.held.clone();
        let (Some(current), Some(quorum)) = (&self.record.current, &self.record.quorum) else {
            return Ok(Old::Closed(required));
        };
        if current == target {
            return Ok(Old::Closed(required));
        }
        if let Some((old, theirs)) = view.named(current).and_then(|i| Some((i, i.up.as_ref()?))) {
            if theirs.writable() {
                if self.overdue() {
                    return Err(format!("{current} did not stop writing in time"));
                }
                return Ok(Old::Open(Box::new(Decision {
                    commands: vec![(old.ordinal, Command::Demote)],
                    ..self.wait(format!("{current} stops accepting writes"))
                })));
            }
            // It is seen and closed: what it has is all there is, unless it came back on another
            // volume, which proves nothing.
            if lost_data(view, self.record, old, theirs).is_none() {
                return Ok(Old::Closed(required.union(&theirs.executed)));
            }
        }
        let holders = quorum::holders(quorum);
        let visible: Vec<_> = view
            .up()
            .filter(|(i, _)| holders.contains(i.name.as_str()))
            .collect();
        let seen = visible.iter().map(|(i, _)| i.name.as_str()).collect();
        if !quorum::covers(quorum, &seen) {
            return Err("too few of those that may hold acknowledged writes are visible".into());
        }
        // A replica already pointed at the target receives nothing from the old primary.
        let host = view.host(target);
        let receiving: Vec<_> = visible
            .iter()
            .filter(|(i, theirs)| {
                i.name == target || theirs.replication().is_some_and(|r| r.source_host != host)
            })
            .copied()
            .collect();
        if let Some(stop) = stop_receivers(&receiving) {
            return Ok(Old::Open(Box::new(Decision {
                commands: stop.commands,
                ..self.wait(format!("{current} is cut off from its replicas"))
            })));
        }
        for (_, theirs) in &visible {
            required = required.union(&theirs.held);
        }
        Ok(Old::Closed(required))
    }

    /// The target holds everything and waits for the acknowledgements of its own rule: it is the
    /// primary from here on.
    fn complete(&self, next: Quorum) -> Decision {
        let reason = match self.phase() {
            Phase::Bootstrapping => "Bootstrapped",
            Phase::SwitchingOver => "SwitchoverCompleted",
            _ => "FailoverCompleted",
        };
        Decision {
            notes: vec![Note::normal(
                reason,
                format!("{} is the primary", self.target),
            )],
            record: Some(Record {
                current: Some(self.target.to_owned()),
                target: None,
                quorum: Some(QuorumRecord::begun(next)),
                operation: None,
                ..self.record.clone()
            }),
            ..self.wait(format!("{} is being opened for writes", self.target))
        }
    }

    /// Back to the old primary, or to another choice.
    fn abandon(&self, why: &str) -> Decision {
        let quorum = self
            .record
            .quorum
            .as_ref()
            .filter(|_| self.record.current.is_some());
        Decision {
            notes: vec![Note::warning(
                "PromotionAbandoned",
                format!("{} is not promoted: {why}", self.target),
            )],
            // Else it would be tried again at once, with writes stopped each time.
            drop_request: self.is_switchover(),
            record: Some(Record {
                target: None,
                operation: None,
                quorum: quorum.map(|q| QuorumRecord::resumed(q.current.clone())),
                ..self.record.clone()
            }),
            ..Decision::default()
        }
    }

    fn wait(&self, reason: String) -> Decision {
        Decision::wait(self.phase(), reason)
    }

    fn phase(&self) -> Phase {
        phase(self.record)
    }

    fn is_switchover(&self) -> bool {
        is_switchover(self.record)
    }

    /// Whether a handover takes too long; a failover has no way back and takes what it takes.
    fn overdue(&self) -> bool {
        let operation = self
            .record
            .operation
            .as_ref()
            .filter(|_| self.is_switchover());
        operation
            .and_then(|o| o.started_at.parse::<Timestamp>().ok())
            .is_some_and(|started| {
                self.now.wall.duration_since(started)
                    > SWITCHOVER_DEADLINE.try_into().unwrap_or_default()
            })
    }
}
