//! Objects out of raw JSON, and what can be said of one that does not fit.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::client::{SECRET, Undecoded};
use crate::runtime::{Kind, Meta, ObjectKey};

/// An object that could not be decoded.
#[derive(Debug)]
pub(super) struct Undecodable {
    /// Its metadata, if at least that could be read.
    pub(super) meta: Option<Box<Meta>>,
    /// The parser's words with the position in the object.
    pub(super) message: String,
}

impl Undecodable {
    pub(super) fn key(&self) -> Option<ObjectKey> {
        self.meta.as_ref().map(|meta| meta.key())
    }

    pub(super) fn resource_version(&self) -> &str {
        self.meta.as_ref().map_or("", |meta| &meta.resource_version)
    }
}

/// What can be said of an object that is no `K`.
pub(super) fn undecodable<K: Kind>(undecoded: &Undecoded) -> Undecodable {
    Undecodable {
        meta: metadata(&undecoded.raw).map(Box::new),
        message: describe::<K>(&undecoded.error),
    }
}

/// Only the metadata of an object, whatever the rest is.
pub(super) fn metadata(raw: &RawValue) -> Option<Meta> {
    #[derive(Deserialize)]
    struct Envelope {
        metadata: Meta,
    }
    let envelope: Envelope = serde_json::from_str(raw.get()).ok()?;
    Some(envelope.metadata)
}

/// The version at which a watch that begins with all objects has given them, if this bookmark says so.
pub(super) fn end_of_objects(bookmark: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Envelope {
        metadata: Bookmark,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Bookmark {
        resource_version: String,
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    let Envelope { metadata } = serde_json::from_str(bookmark.get()).ok()?;
    // metav1.InitialEventsAnnotationKey.
    let said = metadata.annotations.get("k8s.io/initial-events-end")?;
    (said == "true").then_some(metadata.resource_version)
}

/// A parser's message quotes the value that it did not expect: not for Secrets.
fn describe<K: Kind>(error: &serde_json::Error) -> String {
    if K::RESOURCE == SECRET {
        format!(
            "{:?} error at line {} column {}",
            error.classify(),
            error.line(),
            error.column()
        )
    } else {
        error.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Resource;
    use crate::client::read_object;
    use crate::runtime::testing::{Thing, raw_with};

    fn refused<K: Kind + std::fmt::Debug>(raw: &RawValue) -> Undecodable {
        undecodable::<K>(&read_object::<K>(raw).unwrap_err())
    }

    #[test]
    fn kube_2061_what_does_not_fit_is_described() {
        let error = refused::<Thing>(&raw_with("ns", "a", "u", 4, "four"));
        assert_eq!(error.key(), Some(ObjectKey::new("ns", "a")));
        assert_eq!(error.resource_version(), "4");
        assert!(error.message.contains("column"), "{}", error.message);
        let hopeless = RawValue::from_string("[1]".to_owned()).unwrap();
        assert_eq!(refused::<Thing>(&hopeless).key(), None);
    }

    #[test]
    fn a_secrets_value_is_not_quoted() {
        #[derive(Debug, Deserialize)]
        struct Secret {
            metadata: Meta,
            #[serde(rename = "value")]
            _value: u64,
        }
        impl Kind for Secret {
            const RESOURCE: Resource = SECRET;
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        }
        let error = refused::<Secret>(&raw_with("ns", "a", "u", 4, "hunter2"));
        assert!(!error.message.contains("hunter2"), "{}", error.message);
    }
}
