//! Decides what to do about one cluster: a pure function from what is asked for, what is on record
//! and what is seen, to the next step.
//!
//! A plan is one step. What must survive a crash (who is the primary, who may acknowledge, what is
//! under way) is a [`Record`]; when a plan changes it, the plan holds nothing else that depends on
//! it, so it is written before it is acted on. After a step the caller looks again.

mod pods;
mod primary;
mod quorum;
mod replicas;
mod seeding;
mod status;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) use self::status::stall;

use self::primary::Handover;
use self::view::View;
use super::kinds::Cluster;
use super::observe::{Now, Observed};
use crate::api::{MySQLClusterStatus, Operation, PROMOTE_ANNOTATION, Phase, QuorumRecord};
use crate::instance::{AppAccount, Command};
use crate::runtime::EventType;

/// The part of the status that decisions rest on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The primary, or the last one.
    pub current: Option<String>,
    /// The instance that is being promoted.
    pub target: Option<String>,
    /// Who may acknowledge commits.
    pub quorum: Option<QuorumRecord>,
    /// What is under way, for a person and the next operator.
    pub operation: Option<Operation>,
    /// Whether the database was ever written to by us: an empty primary is then a loss.
    pub written: bool,
}

impl Record {
    fn of(status: &MySQLClusterStatus) -> Self {
        Self {
            current: status.current_primary.clone(),
            target: status.target_primary.clone(),
            quorum: status.quorum.clone(),
            operation: status.operation.clone(),
            written: status.app_account_hash.is_some(),
        }
    }
}

impl Record {
    /// The primary, the target and all who may acknowledge: whose data may be needed.
    fn holders(&self) -> BTreeSet<&str> {
        let mut holders = self
            .quorum
            .as_ref()
            .map(quorum::holders)
            .unwrap_or_default();
        holders.extend(self.current.as_deref());
        holders.extend(self.target.as_deref());
        holders
    }
}

/// Something a person wants to know: becomes an Event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Normal or Warning.
    pub kind: EventType,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub text: String,
}

impl Note {
    fn normal(reason: &'static str, text: String) -> Self {
        Self {
            kind: EventType::Normal,
            reason,
            text,
        }
    }

    fn warning(reason: &'static str, text: String) -> Self {
        Self {
            kind: EventType::Warning,
            reason,
            text,
        }
    }
}

/// One step.
#[derive(Debug, Default)]
pub struct Plan {
    /// The status as it should be now. When its record differs from the one on file, it is written
    /// before all else and the rest of the plan is made anew.
    pub status: MySQLClusterStatus,
    /// Whether the record changed.
    pub record_changed: bool,
    /// Role labels that are wrong, by ordinal: `None` removes the label.
    pub labels: BTreeMap<u32, Option<&'static str>>,
    /// Commands to instances; those of different instances may run side by side.
    pub commands: Vec<(u32, Command)>,
    /// The primary to open for writes, after the labels are right.
    pub open: Option<u32>,
    /// Accounts to ensure on the primary.
    pub ensure_app: Option<(u32, AppAccount)>,
    /// Volume claims to create, or to bring to what the spec asks.
    pub apply_volumes: Vec<u32>,
    /// Volume claims to delete: never bound, and asking for what can't be changed in place.
    pub delete_volumes: Vec<u32>,
    /// Pods to create.
    pub create_pods: Vec<u32>,
    /// Pods to delete gracefully.
    pub delete_pods: Vec<u32>,
    /// The promote annotation has done its work.
    pub clear_promote: bool,
    /// What a person wants to know.
    pub notes: Vec<Note>,
    /// Look again after this, even if nothing is seen to change.
    pub look_again: Option<Duration>,
}

impl Plan {
    /// Whether carrying it out changes anything but the status.
    #[must_use]
    pub fn acts(&self) -> bool {
        !self.labels.is_empty()
            || !self.commands.is_empty()
            || self.open.is_some()
            || self.ensure_app.is_some()
            || !self.apply_volumes.is_empty()
            || !self.delete_volumes.is_empty()
            || !self.create_pods.is_empty()
            || !self.delete_pods.is_empty()
            || self.clear_promote
    }
}

/// How soon an unsettled cluster is looked at again, should nothing be seen to change before.
const UNSETTLED: Duration = Duration::from_secs(1);

/// The next step for `cluster`.
///
/// `invalid` is why the spec can't be worked with although the schema let it pass, or which child is
/// refused. Where no pod can be made of the spec, what runs is kept running as it is.
///
/// The first step of each term that is not nothing only puts the term on record. That the API server
/// takes it proves that the record at hand is the newest, and no leader before can change it any more. A
/// new leader's cache may be as old as it likes; acted on, an old record opens a primary that is none.
/// Where all is as it should be nothing is written: a takeover of clusters at rest costs no request.
#[must_use]
pub fn plan(
    cluster: &Cluster,
    observed: &Observed,
    invalid: Option<&str>,
    term: u64,
    now: Now,
) -> Plan {
    let step = next(cluster, observed, invalid, term, now);
    if step.record_changed || cluster.status.term == term {
        return step;
    }
    let idle = !step.acts() && step.notes.is_empty();
    let mut status = step.status;
    status.term = cluster.status.term;
    if idle && status == cluster.status {
        return Plan {
            status,
            look_again: step.look_again,
            ..Plan::default()
        };
    }
    status.term = term;
    Plan {
        status,
        record_changed: true,
        look_again: Some(UNSETTLED),
        ..Plan::default()
    }
}

fn next(
    cluster: &Cluster,
    observed: &Observed,
    invalid: Option<&str>,
    term: u64,
    now: Now,
) -> Plan {
    let record = Record::of(&cluster.status);
    let adopted = pods::adopted(cluster, observed, &record);
    let view = View::new(cluster, observed, &record, &adopted);
    let mut plan = Plan::default();

    if cluster.spec.paused {
        let situation = status::Situation {
            waiting: Some((
                Phase::Paused,
                "spec.paused is set: nothing is changed".into(),
            )),
            invalid,
        };
        plan.status = status::status(cluster, &view, &record, &situation, term, now);
        return plan;
    }

    // The picture is about to be whole: nothing is judged by half of it, as when an operator takes
    // the lead and has heard of the replicas only.
    if view
        .instances
        .values()
        .any(|i| i.about_to_speak(now.instant))
    {
        plan.status = cluster.status.clone();
        plan.look_again = Some(view::FIRST_WORD);
        return plan;
    }

    let outdated = pods::outdated(&view, observed);
    let request = cluster.metadata.annotations.get(PROMOTE_ANNOTATION);
    let fulfilled = request.is_some() && request == record.current.as_deref();
    let handover = handover(&view, &record, request, &outdated);
    let decision = primary::decide(&view, &record, &adopted, handover.as_ref(), now);

    let mut situation = status::Situation {
        waiting: decision.waiting.clone(),
        invalid,
    };
    if cluster.spec.offline {
        offline(&view, &record, &mut plan);
        situation.waiting = Some((Phase::Offline, "spec.offline is set".into()));
    } else if let Some(changed) = decision.record {
        plan.notes = decision.notes;
        plan.record_changed = true;
        plan.clear_promote = decision.drop_request && request.is_some();
        plan.status = status::status(cluster, &view, &changed, &situation, term, now);
        plan.look_again = Some(UNSETTLED);
        return plan;
    } else {
        plan.commands = decision.commands;
        plan.open = decision.open;
        plan.notes = decision.notes;
        let upkeep = replicas::upkeep(&view, &record, now);
        if let Some(changed) = upkeep.record {
            plan.record_changed = true;
            plan.status = status::status(cluster, &view, &changed, &situation, term, now);
            return Plan {
                status: plan.status,
                record_changed: true,
                notes: upkeep.notes,
                look_again: Some(UNSETTLED),
                ..Plan::default()
            };
        }
        let busy: BTreeSet<u32> = plan.commands.iter().map(|(o, _)| *o).collect();
        plan.commands.extend(
            upkeep
                .commands
                .into_iter()
                .filter(|(o, _)| !busy.contains(o)),
        );
        plan.notes.extend(upkeep.notes);
        plan.labels = replicas::labels(&view, &record);
        if !observed.templates.is_empty() {
            pods::upkeep(&view, observed, &record, &outdated, &mut plan);
        }
        plan.ensure_app = ensure_app(cluster, &view, &record, observed);
        plan.clear_promote = fulfilled && record.target.is_none();
    }
    plan.status = status::status(cluster, &view, &record, &situation, term, now);
    let changing = record.quorum.as_ref().is_some_and(|q| q.next.is_some());
    let settled = matches!(plan.status.phase, Phase::Running | Phase::Offline) && !changing;
    plan.look_again = (!settled || plan.acts()).then_some(UNSETTLED);
    plan
}

/// Stops accepting writes, then lets the pods go.
fn offline(view: &View<'_>, record: &Record, plan: &mut Plan) {
    let writable: Vec<u32> = view
        .up()
        .filter(|(_, up)| up.writable())
        .map(|(i, _)| i.ordinal)
        .collect();
    if writable.is_empty() {
        plan.delete_pods = view
            .instances
            .values()
            .filter(|i| i.pod.is_some_and(|pod| !pod.metadata.is_terminating()))
            .map(|i| i.ordinal)
            .collect();
        return;
    }
    if record.target.is_none() {
        plan.labels = writable.iter().map(|o| (*o, None)).collect();
    }
    plan.commands = writable.into_iter().map(|o| (o, Command::Demote)).collect();
}

/// Why the primary should move although it serves, the most pressing reason first.
fn handover<'r>(
    view: &View<'_>,
    record: &Record,
    request: Option<&'r str>,
    outdated: &BTreeSet<u32>,
) -> Option<Handover<'r>> {
    let current = view.named(record.current.as_deref()?)?;
    let to_any = |reason: String| Some(Handover { to: None, reason });
    if view.wanted == 0 {
        return None;
    }
    if current.leaving() {
        return to_any(format!("{} is being stopped", current.name));
    }
    if current.ordinal >= view.wanted {
        return to_any(format!("{} is to be removed", current.name));
    }
    // Last of all instances, and only when another that is up to date can take over.
    let settled = replicas::all_ready(view, record);
    let only_primary = outdated.contains(&current.ordinal) && outdated.len() == 1;
    let updating = settled && only_primary && view.wanted > 1;
    // A request that can't be met must not hold up the update.
    let exists = |to: &str| view.named(to).is_some_and(|i| i.ordinal < view.wanted);
    if let Some(to) = request.filter(|to| *to != current.name && (exists(to) || !updating)) {
        return Some(Handover {
            to: Some(to),
            reason: format!("annotation {PROMOTE_ANNOTATION}"),
        });
    }
    if updating {
        return to_any(format!("{} is to be updated", current.name));
    }
    None
}

fn ensure_app(
    cluster: &Cluster,
    view: &View<'_>,
    record: &Record,
    observed: &Observed,
) -> Option<(u32, AppAccount)> {
    let app = observed.app.as_ref()?;
    if cluster.status.app_account_hash.as_ref() == Some(&app.hash) || record.target.is_some() {
        return None;
    }
    let primary = view.named(record.current.as_deref()?)?;
    let up = primary.up.as_ref()?;
    // A commit without a replica to acknowledge it would hang.
    let quorum = record.quorum.as_ref()?;
    let can_commit = up.writable() && up.server.semi_sync_clients >= quorum.waits();
    can_commit.then(|| (primary.ordinal, app.clone()))
}
