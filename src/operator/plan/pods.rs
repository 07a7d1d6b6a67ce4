//! Which pods and volume claims must come and go.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::view::{Instance, View};
use super::{Note, Plan, Record, quorum, replicas};
use crate::operator::kinds::{Cluster, VolumeClaim};
use crate::operator::observe::Observed;
use crate::operator::resources::TEMPLATE_HASH_ANNOTATION;

/// Instances whose volume is older than the cluster object: they hold another cluster's life.
pub(super) fn adopted(cluster: &Cluster, observed: &Observed) -> BTreeSet<u32> {
    let parse = |text: &Option<String>| text.as_ref()?.parse::<Timestamp>().ok();
    let Some(born) = parse(&cluster.metadata.creation_timestamp) else {
        return BTreeSet::new();
    };
    observed
        .volumes
        .iter()
        .filter(|(o, _)| **o < cluster.spec.instances)
        .filter(|(_, v)| parse(&v.metadata.creation_timestamp).is_some_and(|t| t < born))
        .map(|(o, _)| *o)
        .collect()
}

/// Wanted instances whose pod is not of the template that the spec asks for.
pub(super) fn outdated(view: &View<'_>, observed: &Observed) -> BTreeSet<u32> {
    view.instances
        .values()
        .filter(|i| i.ordinal < view.wanted)
        .filter(|i| {
            let (Some(pod), Some(wanted)) = (i.pod, observed.templates.get(&i.ordinal)) else {
                return false;
            };
            pod.metadata.annotations.get(TEMPLATE_HASH_ANNOTATION) != Some(wanted)
        })
        .map(|i| i.ordinal)
        .collect()
}

pub(super) fn upkeep(
    cluster: &Cluster,
    view: &View<'_>,
    observed: &Observed,
    record: &Record,
    outdated: &BTreeSet<u32>,
    plan: &mut Plan,
) {
    for ordinal in 0..view.wanted {
        match observed.volumes.get(&ordinal) {
            None => plan.create_volumes.push(ordinal),
            Some(volume) if is_misfit(cluster, volume) => plan.delete_volumes.push(ordinal),
            Some(_) => {}
        }
        match view.instances.get(&ordinal).and_then(|i| i.pod) {
            None => plan.create_pods.push(ordinal),
            // Evicted or ended for good: its name is free again once it is deleted.
            Some(pod) if matches!(pod.status.phase.as_str(), "Failed" | "Succeeded") => {
                if !pod.metadata.is_terminating() {
                    plan.delete_pods.push(ordinal);
                    plan.notes.push(Note::warning(
                        "PodEnded",
                        format!(
                            "{} ended ({}) and is created again",
                            pod.metadata.name, pod.status.reason
                        ),
                    ));
                }
            }
            Some(_) => {}
        }
    }
    update(view, record, outdated, plan);
    shrink(view, record, plan);
}

/// A claim that was never bound and asks for another class than the spec does now.
fn is_misfit(cluster: &Cluster, volume: &VolumeClaim) -> bool {
    let text = |field: &str| {
        volume
            .body
            .get("spec")
            .and_then(|s| s.get(field))
            .and_then(|v| v.as_str())
    };
    let bound = text("volumeName").is_some_and(|name| !name.is_empty());
    let Some(wanted) = &cluster.spec.storage.storage_class_name else {
        return false; // the API server filled in the default
    };
    !bound && !volume.metadata.is_terminating() && text("storageClassName") != Some(wanted)
}

/// Brings pods to the present template: those that do not work at once, for a fix must reach them;
/// then, while all is well, one at a time, replicas before the primary, highest first.
fn update(view: &View<'_>, record: &Record, outdated: &BTreeSet<u32>, plan: &mut Plan) {
    if outdated.is_empty() || record.target.is_some() {
        return;
    }
    let going = |i: &Instance<'_>| i.pod.is_none_or(|pod| pod.metadata.is_terminating());
    let broken: Vec<u32> = outdated
        .iter()
        .filter_map(|o| view.instances.get(o))
        .filter(|i| i.up.is_none() && i.not_serving() && !going(i))
        .map(|i| i.ordinal)
        .collect();
    if !broken.is_empty() {
        plan.delete_pods.extend(broken);
        return;
    }
    if !replicas::all_ready(view, record) || !plan.create_pods.is_empty() {
        return;
    }
    let is_primary = |o: &u32| view.instances.get(o).map(|i| &i.name) == record.current.as_ref();
    // With one instance there is nobody to hand over to; else the handover is planned elsewhere.
    let next = outdated
        .iter()
        .rev()
        .find(|o| !is_primary(o) || view.wanted == 1);
    if let Some(&ordinal) = next {
        plan.notes.push(Note::normal(
            "Updating",
            format!("the pod of instance {ordinal} is replaced: its template changed"),
        ));
        plan.delete_pods.push(ordinal);
    }
}

/// Instances beyond the wanted count go once nothing rests on them.
fn shrink(view: &View<'_>, record: &Record, plan: &mut Plan) {
    if record.target.is_some() {
        return;
    }
    for instance in view.instances.values().filter(|i| i.ordinal >= view.wanted) {
        let Some(pod) = instance.pod.filter(|pod| !pod.metadata.is_terminating()) else {
            continue;
        };
        let primary = record.current.as_ref() == Some(&instance.name);
        // While a member it holds acknowledged writes. Once `next` is without it, its going is what
        // the change waits for; the count of acknowledgements was lowered before (see `replicas`).
        let needed = record.quorum.as_ref().is_some_and(|q| match &q.next {
            Some(next) => {
                next.members.contains(&instance.name)
                    || (q.current.members.contains(&instance.name)
                        && !acks_lowered(view, record, next.acks))
            }
            None => quorum::holders(q).contains(instance.name.as_str()),
        });
        if !primary && !needed {
            plan.notes.push(Note::normal(
                "ScaledIn",
                format!("{} is removed; its volume stays", pod.metadata.name),
            ));
            plan.delete_pods.push(instance.ordinal);
        }
    }
}

fn acks_lowered(view: &View<'_>, record: &Record, acks: u32) -> bool {
    record
        .current
        .as_deref()
        .and_then(|c| view.named(c)?.up.as_ref())
        .is_some_and(|up| !up.server.semi_sync_source || up.server.semi_sync_wait_for <= acks)
}
