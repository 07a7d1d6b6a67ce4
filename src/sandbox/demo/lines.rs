//! Without a terminal: what changed from one snapshot to the next, a line each.

use std::time::Duration;

use super::snapshot::{InstanceView, Rates, ReplicaView, Snapshot};
use super::text::{count, seconds};

/// Writes that pause for longer are worth a line.
const PAUSE: Duration = Duration::from_millis(500);

/// What is told of the way from `before` to `after`.
#[must_use]
pub(super) fn changes(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let mut told = Vec::new();
    if before.message != after.message && !after.message.is_empty() {
        told.push(format!("» {}", after.message));
    }
    for fault in after
        .faults
        .iter()
        .filter(|fault| !before.faults.contains(fault))
    {
        told.push(format!("fault: {fault}"));
    }
    for fault in before
        .faults
        .iter()
        .filter(|fault| !after.faults.contains(fault))
    {
        told.push(format!("healed: {fault}"));
    }
    told.extend(replicas(before, after));
    told.extend(cluster(before, after));
    told.extend(instances(before, after));
    told.extend(writes(&before.rates, &after.rates));
    // Events come latest first, and are told in the order in which they happened.
    let seen = |key: &str| before.events.iter().any(|event| event.key == key);
    for event in after.events.iter().rev().filter(|event| !seen(&event.key)) {
        let kind = if event.warning { "warning" } else { "event" };
        told.push(format!(
            "{kind}: {} {}: {}",
            event.about, event.reason, event.note
        ));
    }
    let at = format!("{:7.2}s  ", after.age.as_secs_f64());
    told.into_iter()
        .map(|line| at.clone() + &line.replace(char::is_control, " "))
        .collect()
}

fn cluster(before: &Snapshot, after: &Snapshot) -> Option<String> {
    let words = |snapshot: &Snapshot| {
        let cluster = &snapshot.cluster;
        let primary = match (cluster.primary.as_str(), cluster.target.as_str()) {
            ("", "") => String::new(),
            (primary, "") => format!(", primary {primary}"),
            ("", target) => format!(", first primary {target}"),
            (primary, target) => format!(", primary {primary} → {target}"),
        };
        let phase = format!("{} {}", cluster.phase, cluster.ready);
        format!("cluster {}: {}{primary}", cluster.name, phase.trim_end())
    };
    let known = !after.cluster.name.is_empty();
    let same = words(before) == words(after) && before.cluster.reason == after.cluster.reason;
    let reason = match after.cluster.reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    };
    (known && !same).then(|| words(after) + &reason)
}

fn instances(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let words = |instance: &InstanceView| {
        let role = match instance.role.as_str() {
            "" => "no role",
            role => role,
        };
        let ready = if instance.ready { "ready" } else { "not ready" };
        let heard = if instance.heard { "" } else { ", not heard" };
        format!("{}: {role}, {ready}{heard}", instance.pod)
    };
    let mut told = Vec::new();
    for instance in &after.instances {
        let now = words(instance);
        if before.instance(&instance.pod).map(words).as_ref() != Some(&now) {
            told.push(now);
        }
    }
    for instance in &before.instances {
        if after.instance(&instance.pod).is_none() {
            told.push(format!("{}: gone", instance.pod));
        }
    }
    told
}

fn replicas(before: &Snapshot, after: &Snapshot) -> Vec<String> {
    let words = |replica: &ReplicaView| match (replica.pid, replica.leads, replica.term) {
        (None, _, _) => format!("operator {}: down: {}", replica.name, replica.why),
        (Some(pid), true, Some(term)) => {
            format!(
                "operator {}: leads, term {term}, process {pid}",
                replica.name
            )
        }
        (Some(pid), ..) => format!("operator {}: standby, process {pid}", replica.name),
    };
    let mut told = Vec::new();
    let started = |replica: &&ReplicaView| !replica.identity.is_empty();
    for replica in after.replicas.iter().filter(started) {
        let was = before.replicas.iter().find(|r| r.name == replica.name);
        let now = words(replica);
        if was.map(words).as_ref() != Some(&now) {
            told.push(now);
        }
    }
    told
}

fn writes(before: &Rates, after: &Rates) -> Option<String> {
    let stuck = |rates: &Rates| rates.pause.is_some_and(|pause| pause >= PAUSE);
    match (before.writing, after.writing) {
        (false, true) => Some("writes: on".to_owned()),
        (true, false) => Some(format!(
            "writes: off, {} acknowledged",
            count(after.acknowledged)
        )),
        _ if before.lost != after.lost => after.lost.filter(|lost| *lost > 0).map(|lost| {
            format!(
                "LOST: {} acknowledged rows are not on the primary",
                count(lost)
            )
        }),
        _ => match (stuck(before), stuck(after)) {
            (false, true) => Some("writes: none is acknowledged".to_owned()),
            (true, false) => {
                let pause = before.pause.unwrap_or_default();
                Some(format!(
                    "writes: acknowledged again, after about {}",
                    seconds(pause)
                ))
            }
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::{ClusterView, EventView};
    use super::*;

    fn instance(pod: &str, role: &str, ready: bool) -> InstanceView {
        InstanceView {
            pod: pod.into(),
            role: role.into(),
            ready,
            heard: true,
            ..InstanceView::default()
        }
    }

    fn event(key: &str, reason: &str) -> EventView {
        EventView {
            key: key.into(),
            reason: reason.into(),
            about: "demo".into(),
            note: "a\u{1b}b".into(),
            ..EventView::default()
        }
    }

    #[test]
    fn only_changes_are_told_and_without_control_characters() {
        let before = Snapshot {
            age: Duration::from_secs(2),
            cluster: ClusterView {
                name: "demo".into(),
                phase: "Running".into(),
                ready: "2/2".into(),
                primary: "demo-0".into(),
                ..ClusterView::default()
            },
            instances: vec![
                instance("demo-0", "primary", true),
                instance("demo-1", "", false),
            ],
            events: vec![event("2", "Second"), event("1", "First")],
            ..Snapshot::default()
        };
        let later = Duration::from_secs(1);
        let mut after = before.clone();
        after.age += later;
        assert!(changes(&before, &after).is_empty());
        after.cluster.target = "demo-1".into();
        after.cluster.reason = "demo-0 is lost".into();
        after.instances[1] = instance("demo-1", "replica", true);
        after.events = vec![
            event("4", "Fourth"),
            event("3", "Third"),
            event("2", "Second"),
        ];
        after.faults = vec!["demo-0 is cut off".into()];
        after.replicas = vec![ReplicaView {
            name: "mainstay-1".into(),
            identity: "mainstay-1_u".into(),
            pid: Some(7),
            leads: true,
            term: Some(2),
            ..ReplicaView::default()
        }];
        assert_eq!(
            changes(&before, &after),
            [
                "   3.00s  fault: demo-0 is cut off",
                "   3.00s  operator mainstay-1: leads, term 2, process 7",
                "   3.00s  cluster demo: Running 2/2, primary demo-0 → demo-1: demo-0 is lost",
                "   3.00s  demo-1: replica, ready",
                "   3.00s  event: demo Third: a b",
                "   3.00s  event: demo Fourth: a b",
            ]
        );
        let back = changes(&after, &before);
        assert!(
            back.contains(&"   2.00s  healed: demo-0 is cut off".to_owned()),
            "{back:?}"
        );
    }

    #[test]
    fn a_pause_is_told_when_it_begins_and_when_it_ends() {
        let at = |millis: u64| Rates {
            writing: true,
            pause: Some(Duration::from_millis(millis)),
            ..Rates::default()
        };
        assert_eq!(writes(&at(2), &at(499)), None);
        let begun = writes(&at(499), &at(600)).unwrap();
        assert_eq!(begun, "writes: none is acknowledged");
        assert_eq!(writes(&at(600), &at(1900)), None);
        let ended = writes(&at(1900), &at(3)).unwrap();
        assert_eq!(ended, "writes: acknowledged again, after about 1.90 s");
        let lost = Rates {
            lost: Some(2),
            ..at(1)
        };
        assert!(writes(&at(1), &lost).unwrap().starts_with("LOST: 2 "));
    }
}
