//! What a child is, and what all children have.

use serde_json::{Map, Value, json};

use super::names::{CLUSTER_LABEL, INSTANCE_LABEL};
use crate::api::MYSQL_CLUSTER;
use crate::client::Resource;
use crate::operator::kinds::Cluster;

/// A child as it should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Child {
    /// What it is.
    pub resource: Resource,
    /// Namespace, that of its cluster.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// The complete body of a server-side apply: apiVersion, kind, metadata with labels (and owner
    /// reference where it is owned), spec or data.
    pub body: Value,
}

/// What the builders need.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The cluster whose children are built.
    pub cluster: &'a Cluster,
    /// Image of this operator, which pods copy the instance manager from.
    pub operator_image: &'a str,
}

impl Context<'_> {
    /// The cluster's name.
    pub(super) fn name(&self) -> &str {
        &self.cluster.metadata.name
    }

    /// The cluster's namespace.
    pub(super) fn namespace(&self) -> &str {
        &self.cluster.metadata.namespace
    }
}

/// Whether a child goes with its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ownership {
    /// Collected once the cluster is gone.
    Owned,
    /// Stays, for a cluster of the same name to adopt.
    Survives,
}

/// A child of this name with `fields` (spec, data) beside its metadata.
pub(super) fn child(
    context: &Context<'_>,
    resource: Resource,
    name: &str,
    ownership: Ownership,
    fields: Value,
) -> Child {
    let mut metadata = json!({
        "name": name,
        "namespace": context.namespace(),
        "labels": labels(context.name()),
    });
    if ownership == Ownership::Owned {
        metadata["ownerReferences"] = json!([{
            "apiVersion": MYSQL_CLUSTER.api_version(),
            "kind": MYSQL_CLUSTER.kind,
            "name": context.name(),
            "uid": context.cluster.metadata.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }]);
    }
    let mut body = Map::new();
    body.insert("apiVersion".to_owned(), resource.api_version().into());
    body.insert("kind".to_owned(), resource.kind.into());
    body.insert("metadata".to_owned(), metadata);
    if let Value::Object(fields) = fields {
        body.extend(fields);
    }
    Child {
        resource,
        namespace: context.namespace().to_owned(),
        name: name.to_owned(),
        body: Value::Object(body),
    }
}

impl Child {
    /// The same child with the label that names its instance.
    pub(super) fn of_instance(mut self, instance: &str) -> Self {
        self.body["metadata"]["labels"][INSTANCE_LABEL] = instance.into();
        self
    }
}

/// Labels of every child.
pub(super) fn labels(cluster: &str) -> Value {
    json!({
        "app.kubernetes.io/name": "mysql",
        "app.kubernetes.io/instance": cluster,
        "app.kubernetes.io/managed-by": "mainstay",
        CLUSTER_LABEL: cluster,
    })
}
