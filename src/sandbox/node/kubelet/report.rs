//! Tells the API server of a pod: its status whenever that changed, and at last that it may go.

use std::sync::Arc;
use std::time::Duration;

use crate::sync::watch;
use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::worker::View;
use crate::client::{DeleteOptions, Error, POD, Patch};
use crate::runtime::{Kind as _, Store};
use crate::sandbox::node::kinds::Pod;
use crate::sandbox::node::writer::Writer;

/// After a write that failed it is tried again after this time, or when something changes.
const RETRY: Duration = Duration::from_secs(1);
/// The status's fields that a kubelet writes, besides conditions.
const FIELDS: [&str; 12] = [
    "phase",
    "message",
    "reason",
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "startTime",
    "initContainerStatuses",
    "containerStatuses",
    "qosClass",
    "observedGeneration",
];

/// What is to be told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Report {
    /// The status; none before the first.
    pub(super) status: Option<PodStatus>,
    /// Nothing of the pod is left: it may be removed.
    pub(super) finished: bool,
}

/// Writes what is reported of one pod.
pub(super) struct Reporter {
    pub(super) writer: Writer,
    pub(super) store: Store<Pod>,
    pub(super) report: watch::Receiver<Report>,
    pub(super) view: watch::Receiver<View>,
}

impl Reporter {
    /// Runs until the pod is gone, or nobody reports any more.
    pub(super) async fn run(mut self) {
        loop {
            let report = self.report.borrow_and_update().clone();
            let view = self.view.borrow_and_update().clone();
            if view.gone {
                return;
            }
            let changed = async {
                tokio::select! {
                    biased;
                    changed = self.report.changed() => changed.is_ok(),
                    changed = self.view.changed() => changed.is_ok(),
                }
            };
            match tell(&self.writer, &self.store, &report, &view.pod).await {
                Ok(()) => {
                    if !changed.await {
                        return;
                    }
                }
                Err(error) => {
                    tracing::debug!(pod = %view.pod.meta().key(), %error, "the status was not written");
                    if timeout(RETRY, changed).await == Ok(false) {
                        return;
                    }
                }
            }
        }
    }
}

async fn tell(
    writer: &Writer,
    store: &Store<Pod>,
    report: &Report,
    pod: &Arc<Pod>,
) -> Result<(), Error> {
    let key = pod.meta().key();
    // What the cache has by now may be newer, after an own write for one.
    let cached = store.get(&key).ok().flatten();
    let pod = cached.filter(|newer| newer.meta().uid == pod.meta().uid);
    let Some(pod) = pod else {
        return Ok(());
    };
    let meta = pod.meta();
    if let Some(status) = &report.status
        && let Some(patch) = patch(&pod.status, status, &meta.uid)
    {
        // What is not as it was decided on is looked at again once the cache shows it.
        let patch = Patch::Strategic(&patch);
        writer.patch(store, &key, Some("status"), patch).await?;
    }
    if report.finished {
        let options = DeleteOptions {
            uid: Some(meta.uid.to_string()),
            grace_period: Some(Duration::ZERO),
            ..DeleteOptions::default()
        };
        let removed = writer
            .client
            .delete(POD, Some(&key.namespace), &key.name, &options);
        match removed.await {
            // Another pod has its name.
            Err(error) if error.is_not_found() || error.is_conflict() => {}
            done => done?,
        }
    }
    Ok(())
}

/// The strategic merge patch that makes the live status the desired one, as far as a kubelet writes it:
/// others' conditions stay. `None` where there is nothing to change.
fn patch(live: &PodStatus, desired: &PodStatus, uid: &str) -> Option<Value> {
    let (old, new) = (json!(live), json!(desired));
    let mut changes = Map::new();
    for field in FIELDS {
        let (old, new) = (&old[field], &new[field]);
        if old != new {
            changes.insert(field.to_owned(), new.clone());
        }
    }
    let live = live.conditions.as_deref().unwrap_or_default();
    let desired = desired.conditions.iter().flatten();
    let conditions: Vec<_> = desired.filter_map(|new| condition(live, new)).collect();
    if !conditions.is_empty() {
        changes.insert("conditions".to_owned(), conditions.into());
    }
    (!changes.is_empty()).then(|| json!({ "metadata": { "uid": uid }, "status": changes }))
}

/// What of a condition is to be written.
fn condition(live: &[PodCondition], new: &PodCondition) -> Option<Value> {
    let old = live.iter().find(|old| old.type_ == new.type_);
    if old == Some(new) {
        return None;
    }
    let mut body = json!(new);
    // Merged by type, so what it does not have any more is to be named.
    let old = json!(old);
    for field in ["reason", "message"] {
        if body.get(field).is_none() && !old[field].is_null() {
            body[field] = Value::Null;
        }
    }
    Some(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_changed_is_written_and_others_conditions_stay() {
        let live = status(json!({
            "phase": "Pending",
            "qosClass": "Burstable",
            "conditions": [
                { "type": "PodScheduled", "status": "True" },
                { "type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "x" },
                { "type": "Initialized", "status": "True" },
            ],
        }));
        let desired = status(json!({
            "phase": "Running",
            "qosClass": "Burstable",
            "conditions": [
                { "type": "Initialized", "status": "True" },
                { "type": "Ready", "status": "True" },
            ],
        }));
        assert_eq!(
            patch(&live, &desired, "u"),
            Some(json!({
                "metadata": { "uid": "u" },
                "status": {
                    "phase": "Running",
                    "conditions": [
                        { "type": "Ready", "status": "True", "reason": null, "message": null,
                          "lastTransitionTime": null, "lastProbeTime": null },
                    ],
                },
            }))
            .map(without_nulls_of_times)
        );
        assert_eq!(patch(&desired, &desired, "u"), None);
    }

    /// Times that are not there are not named.
    fn without_nulls_of_times(mut patch: Value) -> Value {
        let condition = patch["status"]["conditions"][0].as_object_mut().unwrap();
        condition.remove("lastTransitionTime");
        condition.remove("lastProbeTime");
        patch
    }
}
