//! Which pods and volume claims must come and go.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::view::{Instance, View};
use super::{Note, Plan, Record, replicas};
use crate::operator::kinds::Cluster;
use crate::operator::observe::Observed;
use crate::operator::resources::{ClaimChange, TEMPLATE_HASH_ANNOTATION};
use crate::runtime::Text;

/// Until there is a first primary: instances whose volume is older than the cluster object. They hold
/// what a cluster of the same name left behind, and any of them may hold the newest of it, those
/// beyond the wanted count too.
pub(super) fn adopted(cluster: &Cluster, observed: &Observed, record: &Record) -> BTreeSet<u32> {
    if record.current.is_some() || cluster.spec.offline {
        return BTreeSet::new();
    }
    let parse = |text: &Option<Text>| text.as_ref()?.parse::<Timestamp>().ok();
    let Some(born) = parse(&cluster.metadata.creation_timestamp) else {
        return BTreeSet::new();
    };
    observed
        .volumes
        .iter()
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
            pod.metadata.annotations.get(TEMPLATE_HASH_ANNOTATION) != Some(wanted.as_str())
        })
        .map(|i| i.ordinal)
        .collect()
}

pub(super) fn upkeep(
    view: &View<'_>,
    observed: &Observed,
    record: &Record,
    outdated: &BTreeSet<u32>,
    plan: &mut Plan,
) {
    for instance in view.instances.values().filter(|i| view.needs(i, record)) {
        let ordinal = instance.ordinal;
        match (
            observed.volumes.get(&ordinal),
            observed.claims.get(&ordinal),
        ) {
            (None, _) | (_, Some(ClaimChange::Apply)) => plan.apply_volumes.push(ordinal),
            (Some(volume), Some(ClaimChange::Replace)) => {
                if !volume.metadata.is_terminating() {
                    plan.delete_volumes.push(ordinal);
                    plan.delete_pods.extend(instance.pod.map(|_| ordinal));
                }
            }
            (Some(_), Some(ClaimChange::Refused(why))) => {
                plan.notes.push(Note::warning("VolumeKept", why.clone()));
            }
            (Some(_), _) => {}
        }
        match instance.pod {
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
    for instance in view.instances.values().filter(|i| !view.needs(i, record)) {
        let Some(pod) = instance.pod.filter(|pod| !pod.metadata.is_terminating()) else {
            continue;
        };
        plan.notes.push(Note::normal(
            "ScaledIn",
            format!("{} is removed; its volume stays", pod.metadata.name),
        ));
        plan.delete_pods.push(instance.ordinal);
    }
}
