//! The kinds that the operator caches, each a projection of what it reads.

mod pod;

use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::api::{MYSQL_CLUSTER, MySQLClusterSpec, MySQLClusterStatus};
use crate::client::{self, Resource};
use crate::runtime::{Annotations, Kind, Meta, kind};
pub use pod::{
    ContainerState, ContainerStatus, Pod, PodConditions, PodSpec, PodStatus, StateReason,
};

/// The annotations that the operator reads: its own.
pub struct Ours;

impl Annotations for Ours {
    fn keeps(key: &str) -> bool {
        key.starts_with("mysql.mainstay.dev/")
    }
}

/// A MySQLCluster.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Cluster {
    /// Metadata.
    #[serde(deserialize_with = "Meta::with_annotations::<Ours, _>")]
    pub metadata: Meta,
    /// What is asked for.
    #[serde(default)]
    pub spec: MySQLClusterSpec,
    /// What was last written of it.
    #[serde(default)]
    pub status: MySQLClusterStatus,
}

/// A Secret, decoded.
#[derive(Clone, Default, Deserialize)]
pub struct Secret {
    /// Metadata.
    #[serde(deserialize_with = "Meta::with_annotations::<Ours, _>")]
    pub metadata: Meta,
    /// Content.
    #[serde(default, deserialize_with = "base64_map")]
    pub data: BTreeMap<String, Vec<u8>>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("metadata", &self.metadata)
            .field("keys", &self.data.keys().collect::<Vec<_>>())
            .finish()
    }
}

impl Secret {
    /// An entry as text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        self.data.get(key).and_then(|v| std::str::from_utf8(v).ok())
    }
}

fn base64_map<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, Vec<u8>>, D::Error> {
    Option::<BTreeMap<String, String>>::deserialize(from)?
        .unwrap_or_default()
        .into_iter()
        .map(|(key, value)| {
            let value = STANDARD
                .decode(&value)
                .map_err(|e| serde::de::Error::custom(format!("data.{key}: {e}")))?;
            Ok((key, value))
        })
        .collect()
}

/// A child that is compared as a whole with what it should be.
pub trait Whole: Kind {
    /// All fields but `metadata` and `status`.
    fn body(&self) -> &Map<String, Value>;
}

macro_rules! whole {
    ($(#[$doc:meta])* $name:ident, $resource:path) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize)]
        pub struct $name {
            /// Metadata.
            #[serde(deserialize_with = "Meta::with_annotations::<Ours, _>")]
            pub metadata: Meta,
            /// All fields but `metadata`; `status` is dropped.
            #[serde(flatten, deserialize_with = "without_status")]
            pub body: Map<String, Value>,
        }

        impl Kind for $name {
            const RESOURCE: Resource = $resource;

            fn meta(&self) -> &Meta {
                &self.metadata
            }

            fn held_bytes(&self) -> usize {
                size_of::<Self>() + self.metadata.heap_bytes() + fields(&self.body)
            }
        }

        impl Whole for $name {
            fn body(&self) -> &Map<String, Value> {
                &self.body
            }
        }
    };
}

/// Bytes of a JSON object on the heap, about: an entry of a map is a key and a value, and maps are a
/// third empty.
fn fields(object: &Map<String, Value>) -> usize {
    let entry = |(key, value): (&String, &Value)| {
        key.capacity() + (size_of::<String>() + size_of::<Value>()) * 3 / 2 + content(value)
    };
    object.iter().map(entry).sum()
}

fn content(value: &Value) -> usize {
    match value {
        Value::String(text) => text.capacity(),
        Value::Array(items) => {
            items.capacity() * size_of::<Value>() + items.iter().map(content).sum::<usize>()
        }
        Value::Object(object) => fields(object),
        _ => 0,
    }
}

fn without_status<'de, D: Deserializer<'de>>(from: D) -> Result<Map<String, Value>, D::Error> {
    let mut body = Map::deserialize(from)?;
    body.remove("status");
    Ok(body)
}

whole!(
    /// A Service.
    Service,
    client::SERVICE
);
whole!(
    /// A ConfigMap.
    ConfigMap,
    client::CONFIG_MAP
);
whole!(
    /// A PodDisruptionBudget.
    PodDisruptionBudget,
    client::POD_DISRUPTION_BUDGET
);
whole!(
    /// A PersistentVolumeClaim.
    VolumeClaim,
    client::PERSISTENT_VOLUME_CLAIM
);

kind!(Cluster, MYSQL_CLUSTER);

impl Kind for Secret {
    const RESOURCE: Resource = client::SECRET;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn held_bytes(&self) -> usize {
        let entries = self.data.iter();
        let entry = size_of::<(String, Vec<u8>)>() * 3 / 2;
        size_of::<Self>()
            + self.metadata.heap_bytes()
            + entries
                .map(|(key, value)| entry + key.capacity() + value.capacity())
                .sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_decoded_and_never_printed() {
        let secret: Secret = serde_json::from_str(
            r#"{"metadata":{"name":"a"},"data":{"password":"czNjcmV0"},"type":"Opaque"}"#,
        )
        .unwrap();
        assert_eq!(secret.text("password"), Some("s3cret"));
        assert!(!format!("{secret:?}").contains("s3cret"));
    }

    #[test]
    fn a_whole_child_keeps_its_body_but_not_its_status() {
        let service: Service = serde_json::from_str(
            r#"{"kind":"Service","metadata":{"name":"a"},"spec":{"x":1},"status":{"y":2}}"#,
        )
        .unwrap();
        assert_eq!(service.body["spec"]["x"], 1);
        assert!(!service.body.contains_key("status"));
    }
}
