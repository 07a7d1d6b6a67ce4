//! Claims and volumes, as kube-controller-manager and a provisioner keep them. Pure: what there is
//! gives what is to be written. Each write is a step that the next pass goes on from, whoever died.
//!
//! A claim of a class of ours gets a volume `pvc-UID` once a pod that uses it was given a node (or at
//! once, where the class says so); it may grow; it stays as long as a pod uses it. A volume whose claim
//! is gone is deleted with its data.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use serde_json::{Map, Value, json};

use super::kinds::{Claim, Pod, StorageClass, Volume};
use crate::runtime::{Kind as _, Meta, ObjectKey};

/// The provisioner of our classes, and the driver of our volumes.
pub(super) const PROVISIONER: &str = "sandbox.mainstay.dev";
/// Written by the scheduler: the node of the first pod that uses the claim.
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const VOLUME_PROTECTION: &str = "kubernetes.io/pv-protection";

/// One write that is due. Patches are merge patches that hold the version they were made for.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Write {
    /// Create a volume.
    Create(Value),
    /// Patch a claim.
    Claim(ObjectKey, Value),
    /// Patch a claim's status.
    ClaimStatus(ObjectKey, Value),
    /// Patch a volume.
    Volume(String, Value),
    /// Patch a volume's status.
    VolumeStatus(String, Value),
    /// Delete a volume, of this UID.
    Delete(String, String),
    /// Delete the volume's data, then patch the volume.
    Reclaim(String, Value),
}

/// What there is.
pub(super) struct World<'a> {
    pub(super) claims: &'a [&'a Claim],
    pub(super) volumes: &'a [&'a Volume],
    pub(super) classes: &'a [&'a StorageClass],
    pub(super) pods: &'a [&'a Pod],
}

/// What is to be written next.
pub(super) fn decide(world: &World<'_>) -> Vec<Write> {
    let claims = world.claims.iter().filter_map(|claim| world.claim(claim));
    let volumes = world
        .volumes
        .iter()
        .filter_map(|volume| world.volume(volume));
    claims.chain(volumes).collect()
}

/// Whether the class gives a volume only to a claim whose pod has a node.
pub(super) fn waits_for_consumer(class: &StorageClass) -> bool {
    class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer")
}

/// Whether the claim has its volume.
pub(super) fn is_bound(claim: &Claim) -> bool {
    claim.status.phase.as_deref() == Some("Bound")
}

impl World<'_> {
    fn claim(&self, claim: &Claim) -> Option<Write> {
        let (meta, key) = (claim.meta(), claim.meta().key());
        if meta.is_terminating() {
            let uses = |pod: &&&Pod| {
                pod.meta().namespace == meta.namespace
                    && !pod.node().is_empty()
                    && !pod.is_over()
                    && pod.claims().any(|name| name == meta.name)
            };
            let free = !self.pods.iter().any(|pod| uses(&pod));
            let patch = without_finalizer(meta, CLAIM_PROTECTION).filter(|_| free)?;
            return Some(Write::Claim(key, patch));
        }
        if let Some(patch) = with_finalizer(meta, CLAIM_PROTECTION) {
            return Some(Write::Claim(key, patch));
        }
        let Some(class) = &claim.spec.storage_class_name else {
            let default = self.classes.iter().find(|class| is_default(class))?;
            let spec = json!({ "storageClassName": default.meta().name });
            return Some(Write::Claim(key, patch(meta, json!({ "spec": spec }))));
        };
        let pending = || match claim.status.phase {
            None => Some(Write::ClaimStatus(
                key.clone(),
                patch(meta, json!({ "status": { "phase": "Pending" } })),
            )),
            Some(_) => None,
        };
        let class = self.classes.iter().find(|c| c.meta().name == *class);
        match claim.spec.volume_name.as_deref() {
            None | Some("") => {
                let Some(class) = class.filter(|class| class.provisioner == PROVISIONER) else {
                    return pending();
                };
                if waits_for_consumer(class) && !meta.annotations.contains_key(SELECTED_NODE) {
                    return pending();
                }
                let name = volume_name(claim);
                if self.volumes.iter().any(|volume| volume.meta().name == name) {
                    let bound = json!({
                        "metadata": { "annotations": {
                            "pv.kubernetes.io/bind-completed": "yes",
                            "pv.kubernetes.io/bound-by-controller": "yes",
                        } },
                        "spec": { "volumeName": name },
                    });
                    Some(Write::Claim(key, patch(meta, bound)))
                } else {
                    Some(Write::Create(volume(claim, class)))
                }
            }
            Some(name) => {
                let found = self
                    .volumes
                    .iter()
                    .find(|volume| volume.meta().name == name);
                let status =
                    match found.filter(|volume| claim_uid(volume) == Some(meta.uid.as_str())) {
                        Some(volume) => json!({
                            "phase": "Bound",
                            "accessModes": volume.spec.access_modes,
                            "capacity": volume.spec.capacity,
                        }),
                        // A volume that was there and is not any more.
                        None if is_bound(claim) => json!({ "phase": "Lost" }),
                        None => return pending(),
                    };
                let live = json!(claim.status);
                let same = status
                    .as_object()?
                    .iter()
                    .all(|(key, value)| live.get(key) == Some(value));
                (!same).then(|| Write::ClaimStatus(key, patch(meta, json!({ "status": status }))))
            }
        }
    }

    fn volume(&self, volume: &Volume) -> Option<Write> {
        let meta = volume.meta();
        if volume
            .spec
            .csi
            .as_ref()
            .is_none_or(|csi| csi.driver != PROVISIONER)
        {
            return None;
        }
        let name = meta.name.to_string();
        let uid = claim_uid(volume);
        let claim = self
            .claims
            .iter()
            .find(|claim| uid.is_some_and(|uid| claim.meta().uid == uid));
        if meta.is_terminating() {
            if claim.is_some() {
                return None;
            }
            let patch = without_finalizer(meta, VOLUME_PROTECTION)?;
            return Some(Write::Reclaim(name, patch));
        }
        if let Some(patch) = with_finalizer(meta, VOLUME_PROTECTION) {
            return Some(Write::Volume(name, patch));
        }
        let phase = if claim.is_some() { "Bound" } else { "Released" };
        if volume.status.phase.as_deref() != Some(phase) {
            let status = patch(meta, json!({ "status": { "phase": phase } }));
            return Some(Write::VolumeStatus(name, status));
        }
        let Some(claim) = claim else {
            let delete = volume.spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete");
            return delete.then(|| Write::Delete(name, meta.uid.to_string()));
        };
        let asked = requested(claim)?;
        let has = volume
            .spec
            .capacity
            .as_ref()
            .and_then(|capacity| capacity.get("storage"));
        if has.is_some_and(|has| size(has) < size(asked)) {
            let grown = json!({ "spec": { "capacity": { "storage": asked } } });
            return Some(Write::Volume(name, patch(meta, grown)));
        }
        None
    }
}

fn volume_name(claim: &Claim) -> String {
    format!("pvc-{}", claim.meta().uid)
}

fn volume(claim: &Claim, class: &StorageClass) -> Value {
    let meta = claim.meta();
    let name = volume_name(claim);
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": { "pv.kubernetes.io/provisioned-by": PROVISIONER },
            "finalizers": [VOLUME_PROTECTION],
        },
        "spec": {
            "capacity": { "storage": requested(claim) },
            "accessModes": claim.spec.access_modes,
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": meta.namespace,
                "name": meta.name,
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
            },
            "persistentVolumeReclaimPolicy": class.reclaim_policy.as_deref().unwrap_or("Delete"),
            "storageClassName": class.meta().name,
            "volumeMode": "Filesystem",
            "csi": { "driver": PROVISIONER, "volumeHandle": name },
        },
    })
}

fn is_default(class: &StorageClass) -> bool {
    class.meta().annotations.get(DEFAULT_CLASS) == Some("true")
}

fn requested(claim: &Claim) -> Option<&Quantity> {
    claim
        .spec
        .resources
        .as_ref()?
        .requests
        .as_ref()?
        .get("storage")
}

fn size(quantity: &Quantity) -> Option<crate::api::Quantity> {
    quantity.0.parse().ok()
}

fn claim_uid(volume: &Volume) -> Option<&str> {
    volume.spec.claim_ref.as_ref()?.uid.as_deref()
}

/// A merge patch of the object as it was read.
fn patch(meta: &Meta, mut changes: Value) -> Value {
    let guard = json!({ "uid": meta.uid, "resourceVersion": meta.resource_version });
    let mut all: Map<String, Value> = guard.as_object().cloned().unwrap_or_default();
    if let Some(Value::Object(metadata)) = changes.get("metadata").cloned() {
        all.extend(metadata);
    }
    changes["metadata"] = Value::Object(all);
    changes
}

fn with_finalizer(meta: &Meta, name: &str) -> Option<Value> {
    if meta.finalizers.iter().any(|finalizer| finalizer == name) {
        return None;
    }
    let mut finalizers: Vec<&str> = meta.finalizers.iter().map(AsRef::as_ref).collect();
    finalizers.push(name);
    Some(patch(
        meta,
        json!({ "metadata": { "finalizers": finalizers } }),
    ))
}

fn without_finalizer(meta: &Meta, name: &str) -> Option<Value> {
    let others: Vec<_> = meta
        .finalizers
        .iter()
        .filter(|finalizer| *finalizer != name)
        .collect();
    (others.len() < meta.finalizers.len())
        .then(|| patch(meta, json!({ "metadata": { "finalizers": others } })))
}

/// The class that is there from the start, and the default.
pub(super) fn standard_class() -> Value {
    let annotations = BTreeMap::from([(DEFAULT_CLASS, "true")]);
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": { "name": "standard", "annotations": annotations },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowVolumeExpansion": true,
    })
}

#[cfg(test)]
#[path = "volumes_tests.rs"]
mod tests;
