//! Volumes, claims and classes.

use serde_json::{Value, json};

use super::{Printed, age, list, str_of};

/// Access modes in short, in the order of a real server.
fn access_modes(modes: &Value) -> String {
    const MODES: [(&str, &str); 4] = [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ];
    let has = |mode: &str| list(modes).iter().any(|own| *own == mode);
    let short = MODES
        .iter()
        .filter(|(mode, _)| has(mode))
        .map(|(_, short)| *short);
    short.collect::<Vec<_>>().join(",")
}

/// The storage class, from the annotation that it was once in or from the spec.
fn class(it: Printed<'_>) -> Value {
    match it.at("/metadata/annotations/volume.beta.kubernetes.io~1storage-class") {
        Value::Null => it.text("/spec/storageClassName"),
        old => old.clone(),
    }
}

fn phase(it: Printed<'_>) -> Value {
    if it.deleted() {
        return json!("Terminating");
    }
    it.text("/status/phase")
}

pub(super) fn persistent_volume(it: Printed<'_>) -> Vec<Value> {
    let claim = it.at("/spec/claimRef");
    let claim = if claim.is_object() {
        format!("{}/{}", str_of(claim, "namespace"), str_of(claim, "name"))
    } else {
        String::new()
    };
    vec![
        it.name(),
        it.text_or("/spec/capacity/storage", "0"),
        json!(access_modes(it.at("/spec/accessModes"))),
        it.text("/spec/persistentVolumeReclaimPolicy"),
        phase(it),
        json!(claim),
        class(it),
        it.text_or("/spec/volumeAttributesClassName", "<unset>"),
        it.text("/status/reason"),
        it.age(),
        it.text_or("/spec/volumeMode", "<unset>"),
    ]
}

pub(super) fn persistent_volume_claim(it: Printed<'_>) -> Vec<Value> {
    let bound = !it.str("/spec/volumeName").is_empty();
    let (capacity, modes) = if bound {
        let modes = access_modes(it.at("/status/accessModes"));
        (it.text_or("/status/capacity/storage", "0"), modes)
    } else {
        (json!(""), String::new())
    };
    vec![
        it.name(),
        phase(it),
        it.text("/spec/volumeName"),
        capacity,
        json!(modes),
        class(it),
        it.text_or("/spec/volumeAttributesClassName", "<unset>"),
        it.age(),
        it.text_or("/spec/volumeMode", "<unset>"),
    ]
}

/// Of the classes that say they are the default, the one that was made last.
fn default_class(it: Printed<'_>) -> Option<&Value> {
    let says = |class: &&&Value| {
        let annotations = &class["metadata"]["annotations"];
        annotations["storageclass.kubernetes.io/is-default-class"] == "true"
            || annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true"
    };
    let made = |class: &&&Value| age::read(&class["metadata"]["creationTimestamp"]);
    it.all.iter().filter(says).max_by_key(made).copied()
}

pub(super) fn storage_class(it: Printed<'_>) -> Vec<Value> {
    let name = it.str("/metadata/name");
    let default = default_class(it).is_some_and(|default| std::ptr::eq(default, it.object));
    let name = if default {
        format!("{name} (default)")
    } else {
        name.to_owned()
    };
    vec![
        json!(name),
        it.text("/provisioner"),
        it.text_or("/reclaimPolicy", "Delete"),
        it.text_or("/volumeBindingMode", "Immediate"),
        it.flag("/allowVolumeExpansion", false),
        it.age(),
    ]
}

pub(super) fn driver(it: Printed<'_>) -> Vec<Value> {
    let modes: Vec<&str> = it
        .list("/spec/volumeLifecycleModes")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let modes = if modes.is_empty() {
        "<none>".to_owned()
    } else {
        modes.join(",")
    };
    let tokens = it.at("/spec/tokenRequests");
    let tokens = if tokens.is_array() {
        let audiences = list(tokens)
            .iter()
            .map(|request| str_of(request, "audience"));
        audiences.collect::<Vec<_>>().join(",")
    } else {
        "<unset>".to_owned()
    };
    vec![
        it.name(),
        it.flag("/spec/attachRequired", true),
        it.flag("/spec/podInfoOnMount", false),
        it.flag("/spec/storageCapacity", false),
        json!(tokens),
        it.flag("/spec/requiresRepublish", false),
        json!(modes),
        it.age(),
    ]
}

pub(super) fn attachment(it: Printed<'_>) -> Vec<Value> {
    vec![
        it.name(),
        it.text("/spec/attacher"),
        it.text("/spec/source/persistentVolumeName"),
        it.text("/spec/nodeName"),
        it.flag("/status/attached", false),
        it.age(),
    ]
}
