//! One served version of a resource: how stored objects become its objects.

use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::object::Entry;
use crate::apiserver::patch::MergeSchema;
use crate::apiserver::registry::Traits;
use crate::apiserver::schema::Structural;
use crate::apiserver::{ApiError, ResourceInfo};

/// How the stored form and the served form of an object differ, beside `apiVersion` and `kind`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// Not at all.
    Same,
    /// `events.k8s.io/v1` over objects of `v1`.
    Events,
    /// As a webhook says: from and to the storage version. Holds the `clientConfig`.
    Webhook {
        storage_api_version: String,
        webhook: Arc<Value>,
    },
}

/// What a custom resource has beside a built-in one.
#[derive(Clone, Debug)]
pub(crate) struct Custom {
    pub(crate) schema: Arc<Structural>,
    pub(crate) raw_schema: Value,
    /// Number of this schema: objects that were last held to another one are looked at when they are
    /// read.
    pub(crate) shape: u32,
    /// Fields that this version selects by, as paths without the first dot.
    pub(crate) selectable: Vec<String>,
    /// The warning that goes with each answer.
    pub(crate) deprecation: Option<String>,
}

/// One version of one resource that is served.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) info: ResourceInfo,
    pub(crate) traits: Traits,
    /// Name of the storage that its objects are in.
    pub(crate) storage: Arc<str>,
    pub(crate) form: Form,
    pub(crate) custom: Option<Custom>,
    merge: OnceLock<Arc<MergeSchema>>,
    /// `{"kind":"Pod","apiVersion":"v1",`: what goes before a stored body without its brace.
    head: String,
}

impl Served {
    pub(crate) fn new(
        info: ResourceInfo,
        traits: Traits,
        storage: Arc<str>,
        form: Form,
        custom: Option<Custom>,
    ) -> Self {
        let mut served = Self {
            info,
            traits,
            storage,
            form,
            custom,
            merge: OnceLock::new(),
            head: String::new(),
        };
        served.head = format!(
            r#"{{"kind":"{}","apiVersion":"{}","#,
            served.info.kind,
            served.api_version()
        );
        served
    }

    /// `v1`, `apps/v1`.
    pub(crate) fn api_version(&self) -> String {
        if self.info.group.is_empty() {
            self.info.version.clone()
        } else {
            format!("{}/{}", self.info.group, self.info.version)
        }
    }

    /// The warning that goes with each answer, where this version is deprecated.
    pub(crate) fn deprecation(&self) -> Option<String> {
        match &self.custom {
            Some(custom) => custom.deprecation.clone(),
            None => super::kinds::deprecation(&self.storage).map(str::to_owned),
        }
    }

    /// Number of its schema; 0 for built-in kinds.
    pub(crate) fn shape(&self) -> u32 {
        self.custom.as_ref().map_or(0, |custom| custom.shape)
    }

    /// Holds an object that was last held to another schema to this one: what it does not know goes,
    /// defaults come.
    pub(super) fn reshape(&self, entry: &Entry, object: &mut Value) {
        if let Some(custom) = self.custom.as_ref().filter(|custom| custom.shape != entry.shape) {
            custom.schema.prune(object);
            custom.schema.default(object);
        }
    }

    /// How its fields merge.
    pub(crate) fn merge(&self) -> &MergeSchema {
        self.merge.get_or_init(|| match &self.custom {
            Some(custom) => MergeSchema::of_crd(&custom.raw_schema),
            None => MergeSchema::builtin(&self.info.group, &self.info.kind),
        })
    }

    /// Whether its list items carry `apiVersion` and `kind`. Typed ones do not.
    pub(crate) fn typed_items(&self) -> bool {
        self.custom.is_none()
    }

    /// 404 for an object.
    pub(crate) fn not_found(&self, name: &str) -> ApiError {
        ApiError::not_found(&self.info.group, &self.info.plural, name)
    }

    /// 409 with the reason of optimistic concurrency.
    pub(crate) fn modified(&self, name: &str) -> ApiError {
        self.conflict(
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 for an update.
    pub(crate) fn conflict(&self, name: &str, why: &str) -> ApiError {
        ApiError::conflict(&self.info.group, &self.info.plural, name, why)
    }

    /// 403 for an object.
    pub(crate) fn forbidden(&self, name: &str, why: &str) -> ApiError {
        ApiError::forbidden(&self.info.group, &self.info.plural, name, why)
    }

    /// Writes a stored object as it is served, where no webhook is needed for that. `typed` leaves
    /// out `apiVersion` and `kind`.
    pub(crate) fn write(&self, entry: &Entry, out: &mut Vec<u8>, typed: bool) {
        match &self.form {
            Form::Events => {
                let mut event = entry.value();
                super::events::to_events_group(&mut event);
                if !typed {
                    self.name_type(&mut event);
                }
                serde_json::to_writer(&mut *out, &event).expect("a value serialises into memory");
            }
            Form::Same if entry.shape != self.shape() => {
                let mut object = entry.value();
                self.name_type(&mut object);
                self.reshape(entry, &mut object);
                serde_json::to_writer(&mut *out, &object).expect("a value serialises into memory");
            }
            _ if typed => out.extend_from_slice(&entry.body),
            _ => {
                out.extend_from_slice(self.head.as_bytes());
                out.extend_from_slice(&entry.body[1..]);
            }
        }
    }

    /// Sets `apiVersion` and `kind`.
    pub(crate) fn name_type(&self, object: &mut Value) {
        object["kind"] = self.info.kind.as_str().into();
        object["apiVersion"] = self.api_version().into();
    }
}
