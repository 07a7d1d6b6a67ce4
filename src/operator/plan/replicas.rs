//! Keeps replicas replicating, members acknowledging, and labels true.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::quorum;
use super::seeding::{Need, donor, need};
use super::view::{Instance, Up, View};
use super::{Note, Record};
use crate::api::QuorumRecord;
use crate::instance::{Command, Follow, InstancePhase};
use crate::mysql::GtidSet;
use crate::operator::observe::Now;

/// A replica whose threads stop is told again to follow at most this often.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(5);
/// A clone that failed is tried again at most this often: each attempt keeps binary logs aside.
const CLONE_INTERVAL: Duration = Duration::from_secs(20);
/// A replica further behind than this (seconds) is no use to readers, nor as a new member.
const LAG_LIMIT: f64 = 60.0;

/// What keeps replicas in order.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    pub(super) record: Option<Record>,
    pub(super) commands: Vec<(u32, Command)>,
    pub(super) notes: Vec<Note>,
}

pub(super) fn upkeep(view: &View<'_>, record: &Record, now: Now) -> Upkeep {
    let mut upkeep = Upkeep::default();
    // While the primary moves, replicas are the promotion's business.
    let (None, Some(current), Some(quorum)) = (&record.target, &record.current, &record.quorum)
    else {
        return upkeep;
    };
    let Some((primary, source)) = view.named(current).and_then(|i| Some((i, i.up.as_ref()?)))
    else {
        return upkeep;
    };
    let members = &quorum.change().unwrap_or(&quorum.current).members;
    let host = view.host(current);
    for (replica, up) in view.up().filter(|(i, _)| i.name != *current) {
        if up.writable() {
            continue; // told to stop first
        }
        let acknowledge = members.contains(&replica.name);
        match need(replica, up, source, &host, acknowledge) {
            Need::Follow => {
                let told = replica.sight.and_then(|s| s.told_to_follow);
                let recently = is_recent(told, FOLLOW_INTERVAL, now);
                let same = up.replication().is_some_and(|r| r.source_host == host);
                if !(recently && same && up.server.semi_sync_replica == acknowledge) {
                    upkeep
                        .commands
                        .push((replica.ordinal, follow(&host, acknowledge)));
                }
            }
            // A member's data is proof of acknowledged writes: it leaves the quorum first.
            Need::Reseed(_) if is_member(quorum, &replica.name) => {
                if acknowledge || up.server.semi_sync_replica {
                    upkeep
                        .commands
                        .push((replica.ordinal, follow(&host, false)));
                }
            }
            Need::Reseed(why)
                if source.writable()
                    && !replica.leaving()
                    && !is_recent(
                        replica.sight.and_then(|s| s.told_to_clone),
                        CLONE_INTERVAL,
                        now,
                    ) =>
            {
                let donor = donor(view, record, up).map_or(host.clone(), |d| view.host(&d.name));
                upkeep.notes.push(Note::warning(
                    "Reseeding",
                    format!("{} is seeded anew by clone: {why}", replica.name),
                ));
                upkeep.commands.push((
                    replica.ordinal,
                    Command::Clone(Follow {
                        source_host: donor,
                        acknowledge: false,
                    }),
                ));
            }
            Need::Nothing | Need::Reseed(_) => {}
        }
    }
    if source.writable() {
        change_quorum(view, record, quorum, primary, source, &mut upkeep);
    }
    upkeep
}

/// Whether what it was told at `told` was so recently.
fn is_recent(told: Option<Instant>, interval: Duration, now: Now) -> bool {
    told.is_some_and(|told| now.instant.duration_since(told) < interval)
}

fn follow(host: &str, acknowledge: bool) -> Command {
    Command::Follow(Follow {
        source_host: host.to_owned(),
        acknowledge,
    })
}

fn is_member(quorum: &QuorumRecord, name: &str) -> bool {
    quorum::holders(quorum).contains(name)
}

/// Moves the quorum towards the replicas that do their part, one change at a time: on record
/// first, then into effect, then proved for what was committed before.
fn change_quorum(
    view: &View<'_>,
    record: &Record,
    quorum: &QuorumRecord,
    primary: &Instance<'_>,
    source: &Up<'_>,
    upkeep: &mut Upkeep,
) {
    let host = view.host(&primary.name);
    let in_effect = if source.server.semi_sync_source {
        source.server.semi_sync_wait_for
    } else {
        0
    };
    let Some(next) = quorum.change() else {
        if in_effect != quorum.current.acks {
            let acks = quorum.current.acks;
            upkeep
                .commands
                .push((primary.ordinal, Command::SetAcks { acks }));
        }
        let wanted = wanted_members(view, quorum, source, &host);
        let works = |m: &str| view.named(m).is_some_and(|i| i.up.is_some());
        if let Some(step) = quorum::step(&quorum.current, &wanted, works) {
            let changed = QuorumRecord::changing(quorum.current.clone(), step);
            upkeep.record = Some(with_quorum(record, changed));
        }
        return;
    };
    // Proven by the primary alone, so the choice of who shares the proof is still free: not one whose
    // data is of no use, which is to be seeded anew, as no member is.
    let unusable = |m: &String| {
        let instance = view.named(m).and_then(|i| Some((i, i.up.as_ref()?)));
        instance.is_some_and(|(i, up)| matches!(need(i, up, source, &host, true), Need::Reseed(_)))
    };
    if quorum.current.acks == 0 && next.members.iter().any(unusable) {
        let usable = next.members.iter().filter(|m| !unusable(m)).cloned();
        let chosen = QuorumRecord::begun(quorum::quorum_of(&primary.name, usable));
        upkeep.record = Some(with_quorum(record, chosen));
        return;
    }
    let members = || {
        next.members
            .iter()
            .filter_map(|m| view.named(m)?.up.as_ref())
    };
    let acks = next.acks as usize;
    if let Some(barrier) = &quorum.barrier {
        let Ok(barrier) = barrier.parse::<GtidSet>() else {
            return; // not ours: a person wrote it, and can mend it
        };
        if members()
            .filter(|up| barrier.is_subset_of(&up.held))
            .count()
            >= acks
        {
            upkeep.record = Some(with_quorum(record, QuorumRecord::settled(next.clone())));
        }
        return;
    }
    let acknowledging = members()
        .filter(|up| up.replicates_from(&host) && up.server.semi_sync_replica)
        .count();
    let set_acks = (primary.ordinal, Command::SetAcks { acks: next.acks });
    // Fewer at once; more only when they can be given, or every commit would stall. One that was
    // promoted under the rule waits for that many already.
    if in_effect > next.acks || (in_effect < next.acks && acknowledging >= acks) {
        upkeep.commands.push(set_acks);
        return;
    }
    let mut leavers = quorum
        .current
        .members
        .iter()
        .filter(|m| !next.members.contains(m));
    if in_effect == next.acks && leavers.clone().all(|m| certainly_silent(view, m)) {
        // The primary must have been read after those who leave fell silent: nothing that it commits
        // from that reading on can have been acknowledged by them alone. What it says by itself may
        // be older than it looks, so it is asked; the rule that it has already changes nothing.
        let asked_at = primary.sight.and_then(|sight| sight.asked_at);
        let read_at = |m: &String| view.named(m)?.sight?.read_at;
        if leavers.any(|m| asked_at.is_none() || read_at(m) > asked_at) {
            upkeep.commands.push(set_acks);
            return;
        }
        let mut changed = quorum.clone();
        changed.barrier = Some(source.executed.to_string());
        upkeep.record = Some(with_quorum(record, changed));
    }
}

fn with_quorum(record: &Record, quorum: QuorumRecord) -> Record {
    Record {
        quorum: Some(quorum),
        ..record.clone()
    }
}

/// Whether an instance acknowledges nothing, and will not before it is told to: mysqld starts
/// without replicating, so one that does not run is silent; one that is merely not heard is not.
fn certainly_silent(view: &View<'_>, name: &str) -> bool {
    let Some(instance) = view.named(name) else {
        return true; // no name of this cluster's: all that are on record are in the view
    };
    match (&instance.up, instance.phase()) {
        (Some(up), _) => !up.server.semi_sync_replica,
        (None, Some(phase)) => phase != InstancePhase::Running,
        (None, None) => instance.pod.is_none() && instance.ordinal >= view.wanted,
    }
}

/// Replicas that should acknowledge: those that do their part, and members that are away for now.
fn wanted_members(
    view: &View<'_>,
    quorum: &QuorumRecord,
    source: &Up<'_>,
    host: &str,
) -> BTreeSet<String> {
    view.instances
        .values()
        .filter(|i| i.ordinal < view.wanted && i.name != quorum.current.primary)
        .filter(|i| !i.is_errant() && i.phase() != Some(InstancePhase::Cloning))
        .filter(|i| {
            let member = quorum.current.members.contains(&i.name);
            match &i.up {
                Some(up) if up.replicates_from(host) => {
                    member || (keeps_up(up) && i.suspicion().is_none())
                }
                // Not replicating yet is no reason to leave, unless its data is of no more use.
                Some(up) => member && !matches!(need(i, up, source, host, true), Need::Reseed(_)),
                None => member,
            }
        })
        .map(|i| i.name.clone())
        .collect()
}

fn keeps_up(up: &Up<'_>) -> bool {
    up.replication()
        .and_then(|r| r.lag_seconds)
        .is_none_or(|lag| lag < LAG_LIMIT)
}

/// Whether an instance does its part: the primary accepts writes, a replica replicates from it.
pub(super) fn is_ready(view: &View<'_>, record: &Record, instance: &Instance<'_>) -> bool {
    let (Some(up), Some(current)) = (&instance.up, &record.current) else {
        return false;
    };
    if instance.leaving() {
        false
    } else if instance.name == *current {
        up.writable() && record.target.is_none()
    } else {
        !up.writable()
            && up.replicates_from(&view.host(current))
            && keeps_up(up)
            && instance.suspicion().is_none()
    }
}

/// Whether every wanted instance is ready and nothing is under way.
pub(super) fn all_ready(view: &View<'_>, record: &Record) -> bool {
    let settled = record.quorum.as_ref().is_some_and(|q| q.next.is_none());
    settled
        && (0..view.wanted).all(|o| {
            view.instances
                .get(&o)
                .is_some_and(|i| is_ready(view, record, i))
        })
}

/// Role labels that are wrong. Services select by them, so: the old role goes before the new one
/// comes, and an instance with transactions of its own is in no service (moco#801).
pub(super) fn labels(view: &View<'_>, record: &Record) -> BTreeMap<u32, Option<&'static str>> {
    let serving = record.target.is_none()
        && record
            .current
            .as_deref()
            .and_then(|c| view.named(c)?.up.as_ref())
            .is_some_and(Up::writable);
    view.instances
        .values()
        .filter_map(|instance| {
            let pod = instance.pod?;
            let is = pod
                .metadata
                .labels
                .get(crate::operator::resources::ROLE_LABEL);
            let current = record.current.as_deref() == Some(&instance.name);
            let should = match (current, &instance.up) {
                (true, Some(up)) => {
                    let opening = record.target.is_none() && up.replication().is_none();
                    opening.then_some("primary")
                }
                // It may be back in a moment, and nobody else has the role.
                (true, None) => is
                    .filter(|role| *role == "primary" && record.target.is_none())
                    .map(|_| "primary"),
                (false, _) if instance.is_errant() => None,
                (false, Some(_)) if is_ready(view, record, instance) => Some("replica"),
                // Without a primary nothing replicates; what readers see is as good as before.
                (false, Some(up)) => {
                    let keep =
                        is == Some("replica") && !up.writable() && instance.suspicion().is_none();
                    let elsewhere = up.replication().is_none_or(|r| {
                        r.source_host != view.host(record.current.as_deref().unwrap_or_default())
                    });
                    (keep && (!serving || elsewhere)).then_some("replica")
                }
                (false, None) => is
                    .filter(|role| *role == "replica" && instance.phase().is_none())
                    .map(|_| "replica"),
            };
            (is != should).then_some((instance.ordinal, should))
        })
        .collect()
}
