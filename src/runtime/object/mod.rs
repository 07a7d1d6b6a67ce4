//! What every cached object has: a key, slim metadata, and the type it is decoded as.

mod pairs;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

use crate::client::Resource;
pub use pairs::{Iter as PairsIter, Pairs};

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

/// Text that a cache holds: in place up to 24 bytes, which most names and words are.
pub use compact_str::CompactString as Text;

/// The slice of `metadata` that the runtime and operators read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
// In this order: a look-up compares the first two, which so are in one line of the processor's cache
// with the count of references (16 + 2 · 24 = 64 bytes) where a kind begins with its metadata.
#[repr(C)]
pub struct Meta {
    /// Name.
    pub name: Text,
    /// Namespace; empty for cluster-scoped objects.
    pub namespace: Text,
    /// Identity of this incarnation.
    pub uid: Text,
    /// Version of this state; opaque.
    pub resource_version: Text,
    /// Counts changes of the spec.
    pub generation: i64,
    /// Labels.
    pub labels: Pairs,
    /// Annotations, or those that the kind asks for: see [`Meta::with_annotations`].
    pub annotations: Pairs,
    /// Owners.
    pub owner_references: Box<[OwnerReference]>,
    /// What must still happen before the object may go.
    pub finalizers: Box<[Text]>,
    /// Set once deletion was asked for (RFC 3339).
    pub deletion_timestamp: Option<Text>,
    /// When the object was created (RFC 3339).
    pub creation_timestamp: Option<Text>,
}

/// Which annotations a kind reads; see [`Meta::with_annotations`].
pub trait Annotations {
    /// Whether the annotation of that key is held.
    fn keeps(key: &str) -> bool;
}

impl Meta {
    /// Decodes metadata without the annotations that `A` does not keep. A cache has no use for them,
    /// and they may be large: `kubectl apply` puts the whole object into one. For
    /// `#[serde(deserialize_with = "Meta::with_annotations::<A, _>")]` on a kind's `metadata`.
    ///
    /// # Errors
    /// When it is no metadata.
    pub fn with_annotations<'de, A: Annotations, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Self, D::Error> {
        Ok(Decoded::<A>::deserialize(from)?.into())
    }

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

    /// Bytes that it holds on the heap, without what the allocator adds.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let own = [
            &self.name,
            &self.namespace,
            &self.uid,
            &self.resource_version,
        ];
        let owners = self
            .owner_references
            .iter()
            .flat_map(|owner| [&owner.kind, &owner.name, &owner.uid]);
        let texts = own
            .into_iter()
            .chain(owners)
            .chain(&self.finalizers)
            .chain(&self.deletion_timestamp)
            .chain(&self.creation_timestamp);
        texts.map(heap_bytes).sum::<usize>()
            + size_of_val(&*self.owner_references)
            + size_of_val(&*self.finalizers)
            + self.labels.heap_bytes()
            + self.annotations.heap_bytes()
    }
}

/// Bytes that a text holds on the heap.
#[must_use]
pub fn heap_bytes(text: &Text) -> usize {
    if text.is_heap_allocated() {
        text.capacity()
    } else {
        0
    }
}

/// All annotations.
struct All;

impl Annotations for All {
    fn keeps(_: &str) -> bool {
        true
    }
}

impl<'de> Deserialize<'de> for Meta {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::with_annotations::<All, D>(from)
    }
}

/// [`Meta`] as it is read, with the annotations that `A` keeps.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound = "A: Annotations")]
struct Decoded<A> {
    #[serde(default)]
    name: Text,
    #[serde(default)]
    namespace: Text,
    #[serde(default)]
    uid: Text,
    #[serde(default)]
    resource_version: Text,
    #[serde(default)]
    generation: i64,
    #[serde(default)]
    labels: Pairs,
    #[serde(default)]
    annotations: Kept<A>,
    #[serde(default)]
    owner_references: Box<[OwnerReference]>,
    #[serde(default)]
    finalizers: Box<[Text]>,
    deletion_timestamp: Option<Text>,
    creation_timestamp: Option<Text>,
}

struct Kept<A>(Pairs, PhantomData<A>);

impl<A> Default for Kept<A> {
    fn default() -> Self {
        Self(Pairs::default(), PhantomData)
    }
}

impl<'de, A: Annotations> Deserialize<'de> for Kept<A> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(Pairs::some(from, A::keeps)?, PhantomData))
    }
}

impl<A> From<Decoded<A>> for Meta {
    fn from(from: Decoded<A>) -> Self {
        Self {
            name: from.name,
            namespace: from.namespace,
            uid: from.uid,
            resource_version: from.resource_version,
            generation: from.generation,
            labels: from.labels,
            annotations: from.annotations.0,
            owner_references: from.owner_references,
            finalizers: from.finalizers,
            deletion_timestamp: from.deletion_timestamp,
            creation_timestamp: from.creation_timestamp,
        }
    }
}

/// An owner of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// Kind of the owner.
    pub kind: Text,
    /// Name of the owner.
    pub name: Text,
    /// UID of the owner.
    pub uid: Text,
    /// Whether this owner is the managing controller.
    pub controller: bool,
}

/// A type that a store can hold: the projection of one resource that an operator reads.
pub trait Kind: DeserializeOwned + Send + Sync + 'static {
    /// The resource it is listed and watched as.
    const RESOURCE: Resource;

    /// The object's metadata.
    fn meta(&self) -> &Meta;

    /// Bytes that the object takes in a cache, about: itself and what it holds on the heap. For the
    /// gauge `mainstay_store_bytes`; a kind that holds much beside its metadata adds that.
    fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.meta().heap_bytes()
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Ours;

    impl Annotations for Ours {
        fn keeps(key: &str) -> bool {
            key.starts_with("ours/")
        }
    }

    const JSON: &str = r#"{"name":"a","uid":"00000000-0000-4000-8000-000000000000",
        "labels":{"b":"c"},"annotations":{"ours/x":"1","theirs":"2"},
        "ownerReferences":[{"apiVersion":"v1","kind":"Owner","uid":"o","controller":true}],
        "managedFields":[{"manager":"x","fieldsV1":{"f:metadata":{}}}],
        "deletionTimestamp":null}"#;

    #[test]
    fn only_the_annotations_that_a_kind_reads_are_held() {
        let all: Meta = serde_json::from_str(JSON).unwrap();
        assert_eq!(all.annotations.len(), 2);
        let mut json = serde_json::Deserializer::from_str(JSON);
        let ours = Meta::with_annotations::<Ours, _>(&mut json).unwrap();
        assert_eq!(ours.annotations, Pairs::from([("ours/x", "1")]));
        let annotations = all.annotations.clone();
        assert_eq!(
            Meta {
                annotations,
                ..ours
            },
            all
        );
        assert_eq!(all.controller().unwrap().uid, "o");
        assert!(!all.is_terminating());
    }

    #[test]
    fn bytes_on_the_heap_are_the_uid_and_the_lists() {
        let meta: Meta = serde_json::from_str(JSON).unwrap();
        let pairs = "..bc..ours/x1..theirs2".len();
        assert_eq!(meta.heap_bytes(), 36 + size_of::<OwnerReference>() + pairs);
        assert_eq!(Meta::default().heap_bytes(), 0);
    }
}
