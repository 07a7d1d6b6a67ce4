//! What is refused of built-in kinds: what is missing, what makes no sense, what can't be changed. It is
//! what an operator or a person can run into, in the words of a real server; it is not all of them.

mod access;
mod config;
mod event;
mod pod;
mod service;
mod storage;
mod workload;

use serde_json::Value;

use crate::apiserver::Cause;

/// What is wrong with an object (`old` for an update).
pub(in crate::apiserver::state) fn validate(
    storage: &str,
    new: &Value,
    old: Option<&Value>,
) -> Vec<Cause> {
    let mut causes = Vec::new();
    match storage {
        "pods" => pod::pod(new, old, &mut causes),
        "configmaps" => config::config_map(new, old, &mut causes),
        "secrets" => config::secret(new, old, &mut causes),
        "services" => service::service(new, old, &mut causes),
        "persistentvolumeclaims" => storage::claim(new, old, &mut causes),
        "persistentvolumes" => storage::volume(new, &mut causes),
        "storageclasses.storage.k8s.io" => storage::class(new, old, &mut causes),
        "deployments.apps" | "replicasets.apps" | "statefulsets.apps" | "daemonsets.apps" => {
            workload::workload(storage, new, old, &mut causes);
        }
        "jobs.batch" => workload::job(new, old, &mut causes),
        "poddisruptionbudgets.policy" => workload::budget(new, &mut causes),
        "leases.coordination.k8s.io" => workload::lease(new, &mut causes),
        "events" => event::event(new, old, &mut causes),
        "roles.rbac.authorization.k8s.io" => access::rules(new, true, &mut causes),
        "clusterroles.rbac.authorization.k8s.io" => access::rules(new, false, &mut causes),
        "rolebindings.rbac.authorization.k8s.io"
        | "clusterrolebindings.rbac.authorization.k8s.io" => access::binding(new, old, &mut causes),
        _ => {}
    }
    causes
}

/// What is wrong with a write of `status`.
pub(in crate::apiserver::state) fn validate_status(storage: &str, new: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    if storage == "services" {
        service::status(new, &mut causes);
    }
    causes
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

fn list<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = (usize, &'a Value)> {
    value[field].as_array().into_iter().flatten().enumerate()
}

fn duplicate(field: String, value: &Value) -> Cause {
    Cause {
        reason: "FieldValueDuplicate",
        field,
        message: format!("Duplicate value: {value}"),
    }
}

/// Refuses a text that is none of those that are known.
fn one_of(value: &Value, field: &str, path: &str, known: &[&str], causes: &mut Vec<Cause>) {
    if !known.contains(&text(value, field)) {
        causes.push(Cause::not_supported(
            format!("{path}.{field}"),
            &value[field],
            known,
        ));
    }
}

/// Refuses a number below zero.
fn not_negative(value: &Value, field: &str, path: &str, causes: &mut Vec<Cause>) {
    if value[field].as_i64().is_some_and(|number| number < 0) {
        causes.push(Cause::invalid(
            format!("{path}.{field}"),
            &value[field],
            "must be greater than or equal to 0",
        ));
    }
}

/// Refuses a port that is none.
fn port_number(value: &Value, path: String, causes: &mut Vec<Cause>) {
    let number = value.as_i64().unwrap_or_default();
    if !(1..=65535).contains(&number) {
        causes.push(Cause::invalid(
            path,
            &number.into(),
            "must be between 1 and 65535, inclusive",
        ));
    }
}

/// Refuses a change of fields that stay as they were.
fn immutable(new: &Value, old: &Value, fields: &[&str], path: &str, causes: &mut Vec<Cause>) {
    for field in fields {
        if new[*field] != old[*field] {
            causes.push(Cause::invalid(
                format!("{path}{field}"),
                &new[*field],
                "field is immutable",
            ));
        }
    }
}

#[cfg(test)]
mod tests;
