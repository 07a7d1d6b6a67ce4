//! What every cached object has: a key, slim metadata, and the type it is decoded as.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::client::Resource;

/// `namespace/name`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// Name.
    pub name: Arc<str>,
}

impl ObjectKey {
    /// A key of its parts.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// The slice of `metadata` that the runtime and operators read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Meta {
    /// Name.
    pub name: String,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: String,
    /// Identity of this incarnation.
    pub uid: String,
    /// Version of this state; opaque.
    pub resource_version: String,
    /// Counts changes of the spec.
    pub generation: i64,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Owners.
    #[serde(deserialize_with = "exact")]
    pub owner_references: Vec<OwnerReference>,
    /// What must still happen before the object may go.
    #[serde(deserialize_with = "exact")]
    pub finalizers: Vec<String>,
    /// Set once deletion was asked for (RFC 3339).
    pub deletion_timestamp: Option<String>,
    /// When the object was created (RFC 3339).
    pub creation_timestamp: Option<String>,
}

impl Meta {
    /// The object's key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.name)
    }

    /// Whether deletion was asked for.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The owner that is marked as controller.
    #[must_use]
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.controller)
    }
}

/// Decodes a list into no more memory than it needs: a `Vec` grows to four elements at least, and a
/// cache holds a list for each object. For `#[serde(deserialize_with = "exact")]`.
///
/// # Errors
/// When it is no list of `T`.
pub fn exact<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(from)?;
    list.shrink_to_fit();
    Ok(list)
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether this owner is the managing controller.
    pub controller: bool,
}

/// A type that a store can hold: the projection of one resource that an operator reads.
pub trait Kind: DeserializeOwned + Send + Sync + 'static {
    /// The resource it is listed and watched as.
    const RESOURCE: Resource;

    /// The object's metadata.
    fn meta(&self) -> &Meta;
}

/// Makes a projection with a field `metadata` a [`Kind`].
macro_rules! kind {
    ($name:ident, $resource:path) => {
        impl $crate::runtime::Kind for $name {
            const RESOURCE: $crate::client::Resource = $resource;

            fn meta(&self) -> &$crate::runtime::Meta {
                &self.metadata
            }
        }
    };
}
pub(crate) use kind;
