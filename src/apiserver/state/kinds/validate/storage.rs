//! Volumes, claims and classes.

use serde_json::Value;

use super::{immutable, list, text};
use super::pod::amount;
use crate::apiserver::Cause;

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

pub(super) fn claim(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &new["spec"];
    if list(spec, "accessModes").next().is_none() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    access_modes(spec, causes);
    let asked = &spec["resources"]["requests"]["storage"];
    match asked.as_str().map(amount) {
        None => causes.push(Cause::required("spec.resources[storage]", "")),
        Some(size) if size.is_none_or(|size| size <= 0.0) => {
            causes.push(Cause::invalid("spec.resources[storage]", asked, "must be greater than zero"));
        }
        Some(_) => {}
    }
    let Some(old) = old else {
        return;
    };
    let mut before = fixed(&old["spec"]);
    // Whoever binds a claim names the volume, and the class where none was asked for, once.
    for field in ["volumeName", "storageClassName"] {
        if before[field].is_null() && !spec[field].is_null() {
            before[field] = spec[field].clone();
        }
    }
    let bound = old["status"]["phase"] == "Bound";
    let was = &old["spec"]["resources"]["requests"]["storage"];
    if fixed(spec) != before || asked != was && !bound {
        causes.push(Cause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    } else if asked != was {
        let size = |value: &Value| value.as_str().and_then(amount).unwrap_or_default();
        if size(asked) < size(was) && size(asked) <= size(&old["status"]["capacity"]["storage"]) {
            causes.push(Cause::forbidden(
                "spec.resources.requests.storage",
                "field can not be less than status.capacity",
            ));
        }
    }
}

/// What of a claim's spec stays as it is.
fn fixed(spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(resources) = spec["resources"].as_object_mut() {
        resources.remove("requests");
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.remove("volumeAttributesClassName");
    }
    spec
}

fn access_modes(spec: &Value, causes: &mut Vec<Cause>) {
    for (_, mode) in list(spec, "accessModes") {
        if !ACCESS_MODES.contains(&mode.as_str().unwrap_or_default()) {
            causes.push(Cause::not_supported("spec.accessModes", mode, ACCESS_MODES));
        }
    }
}

pub(super) fn volume(new: &Value, causes: &mut Vec<Cause>) {
    /// Fields of the spec that say where the volume is.
    const SOURCES: &[&str] = &[
        "awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "csi", "fc", "flexVolume",
        "flocker", "gcePersistentDisk", "glusterfs", "hostPath", "iscsi", "local", "nfs",
        "photonPersistentDisk", "portworxVolume", "quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume",
    ];
    let spec = &new["spec"];
    if list(spec, "accessModes").next().is_none() {
        causes.push(Cause::required("spec.accessModes", ""));
    }
    access_modes(spec, causes);
    let capacity = &spec["capacity"];
    if capacity.as_object().is_none_or(serde_json::Map::is_empty) {
        causes.push(Cause::required("spec.capacity", ""));
    }
    if capacity.get("storage").is_none() {
        causes.push(Cause::not_supported("spec.capacity", capacity, &["storage"]));
    }
    if !SOURCES.iter().any(|source| spec.get(*source).is_some()) {
        causes.push(Cause::required("spec", "must specify a volume type"));
    }
}

pub(super) fn class(new: &Value, old: Option<&Value>, causes: &mut Vec<Cause>) {
    if text(new, "provisioner").is_empty() {
        causes.push(Cause::required("provisioner", ""));
    }
    let Some(old) = old else {
        return;
    };
    if new["parameters"] != old["parameters"] {
        causes.push(Cause::forbidden("parameters", "updates to parameters are forbidden."));
    }
    immutable(new, old, &["reclaimPolicy", "volumeBindingMode"], "", causes);
    if new["provisioner"] != old["provisioner"] {
        causes.push(Cause::invalid("provisioner", &Value::Null, "field is immutable"));
    }
}
