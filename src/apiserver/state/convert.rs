//! Between the stored form of an object and the forms in which it is served.

use std::collections::BTreeMap;

use serde_json::Value;

use super::served::{Form, Served};
use super::{Entry, Halt, events};

/// What webhooks have answered: by what was asked, as `desired apiVersion` and the object's JSON.
#[derive(Debug, Default)]
pub(crate) struct Conversions(BTreeMap<(String, String), Value>);

/// An object that a webhook has to convert.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Need {
    /// Complete, with its `apiVersion`.
    pub(crate) object: Value,
    pub(crate) desired: String,
    /// `clientConfig` of the webhook.
    pub(crate) webhook: std::sync::Arc<Value>,
}

impl Conversions {
    /// Remembers an answer.
    pub(crate) fn learn(&mut self, need: &Need, converted: Value) {
        self.0
            .insert((need.desired.clone(), need.object.to_string()), converted);
    }

    fn find(&self, object: &Value, desired: &str) -> Option<&Value> {
        self.0.get(&(desired.to_owned(), object.to_string()))
    }
}

/// A stored object as `served` has it, complete.
pub(crate) fn to_served(
    served: &Served,
    entry: &Entry,
    known: &Conversions,
) -> Result<Value, Halt> {
    let mut object = entry.value();
    served.name_type(&mut object);
    match &served.form {
        Form::Same => served.reshape(entry, &mut object),
        Form::Events => events::to_events_group(&mut object),
        Form::Webhook {
            storage_api_version,
            webhook,
        } => {
            let desired = served.api_version();
            if *storage_api_version != desired {
                object["apiVersion"] = storage_api_version.as_str().into();
                return by_webhook(object, desired, webhook, known);
            }
        }
    }
    Ok(object)
}

/// What `served` has as it is to be stored.
pub(crate) fn to_stored(
    served: &Served,
    mut object: Value,
    known: &Conversions,
) -> Result<Value, Halt> {
    match &served.form {
        Form::Same => {}
        Form::Events => events::to_core(&mut object),
        Form::Webhook {
            storage_api_version,
            webhook,
        } => {
            if *storage_api_version != served.api_version() {
                return by_webhook(object, storage_api_version.clone(), webhook, known);
            }
        }
    }
    if served.storage.as_ref() == "events" {
        events::zeroes(&mut object);
    }
    Ok(object)
}

fn by_webhook(
    object: Value,
    desired: String,
    webhook: &std::sync::Arc<Value>,
    known: &Conversions,
) -> Result<Value, Halt> {
    match known.find(&object, &desired) {
        Some(converted) => Ok(converted.clone()),
        None => Err(Halt::Convert(Need {
            object,
            desired,
            webhook: std::sync::Arc::clone(webhook),
        })),
    }
}
