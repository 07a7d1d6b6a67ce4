//! Signatures that the kube helper replaces with the real thing.
#![allow(missing_docs, unused_variables, clippy::all, clippy::pedantic)]
use crate::{
    client::Resource,
    operator::kinds::{Cluster, Secret},
};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A child as it should be: the complete body of a server-side apply (apiVersion, kind, metadata with labels and owner reference where owned, spec/data).
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    pub resource: Resource,
    pub namespace: String,
    pub name: String,
    pub body: Value,
}

/// What the builders need beside the cluster.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    pub cluster: &'a Cluster,
    pub operator_image: &'a str,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum InvalidSpec {
    /// A config variable the operator must decide itself, a bad name, ...
    #[error("spec.config.{variable}: {why}")]
    Config { variable: String, why: String },
    #[error("spec.{field}: {why}")]
    Field { field: &'static str, why: String },
}

// names.rs
pub fn instance_name(cluster: &str, ordinal: u32) -> String {
    format!("{cluster}-{ordinal}")
}
/// ordinal of an instance of that cluster: `demo-2` -> 2
pub fn ordinal(cluster: &str, instance: &str) -> Option<u32> {
    instance
        .strip_prefix(cluster)?
        .strip_prefix("-")?
        .parse()
        .ok()
}
/// DNS name of an instance: NAME-0.NAME-instances.NS.svc
pub fn host(cluster: &str, namespace: &str, instance: &str) -> String {
    format!("{instance}.{cluster}-instances.{namespace}.svc")
}
pub fn volume_claim_name(instance: &str) -> String {
    todo!()
}
pub fn pod_selector(cluster: &str) -> String {
    String::new()
}
pub const ROLE_LABEL: &str = "mysql.mainstay.dev/role";
pub const INSTANCE_LABEL: &str = "mysql.mainstay.dev/instance";
pub const CLUSTER_LABEL: &str = "mysql.mainstay.dev/cluster";
/// Selects everything of Mainstay's: the label selector of the child caches
pub const MANAGED_SELECTOR: &str = "app.kubernetes.io/managed-by=mainstay";
/// Annotation of a pod: hash of all that needs a new pod when it changes (pod template + rendered my.cnf)
pub const TEMPLATE_HASH_ANNOTATION: &str = "mysql.mainstay.dev/template-hash";

/// Services (-instances, -rw, -ro), ConfigMap, PodDisruptionBudget: everything that needs no look-up.
pub fn plain_children(context: &Context<'_>) -> Result<Vec<Child>, InvalidSpec> {
    todo!()
}
pub fn volume_claim(context: &Context<'_>, ordinal: u32) -> Child {
    todo!()
}
/// The pod, with its TEMPLATE_HASH_ANNOTATION. No role label.
pub fn pod(context: &Context<'_>, ordinal: u32) -> Result<Child, InvalidSpec> {
    todo!()
}
/// Secrets of a cluster that are missing or broken (given those that exist, by name): NAME-app, NAME-root, NAME-internal (random), NAME-ca and NAME-tls (signed; renewed when < 1/3 of the lifetime is left at `now`, unix seconds).
/// Existing good entries are never changed; a missing key of an existing Secret is filled in.
pub fn secrets(
    context: &Context<'_>,
    existing: &BTreeMap<String, std::sync::Arc<Secret>>,
    now: i64,
) -> Vec<Child> {
    todo!()
}

// drift.rs
/// Whether `live` (metadata slice as labels/annotations/owners, and the body) lacks anything of `desired`: every field of `desired` must be in `live`, quantities compared by value,
/// lists of named things by name/port key, selectors exactly. Defaults that the API server adds are no difference.
pub fn differs(
    desired: &Value,
    live_meta: &crate::runtime::Meta,
    live_body: &Map<String, Value>,
) -> bool {
    todo!()
}
