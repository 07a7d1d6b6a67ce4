//! Events as JSON.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{EventType, ObjectRef, Published};
use crate::client::EVENT;
use crate::runtime::time::micro_time;

/// Limits of the API server's validation (pkg/apis/core/validation/events.go).
const REASON_LIMIT: usize = 128;
const ACTION_LIMIT: usize = 128;
const NOTE_LIMIT: usize = 1024;
/// A name may have 253 characters; ours ends with a dot and 16 digits.
const NAME_LIMIT: usize = 253 - 17;

/// Who writes Events.
#[derive(Clone, Debug)]
pub(super) struct Reporter {
    controller: String,
    instance: String,
}

impl Reporter {
    pub(super) fn new(controller: &str, instance: &str) -> Self {
        Self {
            controller: controller.to_owned(),
            // Same limit as the action's.
            instance: clip(instance, ACTION_LIMIT).to_owned(),
        }
    }
}

/// A unique name, which says what it is about.
pub(super) fn name(about: &str, unique: u64) -> String {
    format!("{}.{unique:016x}", clip(about, NAME_LIMIT))
}

/// Where the Event is kept: Events about cluster-scoped objects are in `default`.
pub(super) fn namespace(about: &ObjectRef) -> &str {
    if about.namespace.is_empty() {
        "default"
    } else {
        &about.namespace
    }
}

pub(super) fn event(event: &Published, name: &str, reporter: &Reporter, now: Timestamp) -> Value {
    let about = &event.about;
    let mut regarding = json!({
        "apiVersion": about.resource.api_version(),
        "kind": about.resource.kind,
        "name": about.name,
        "uid": about.uid,
    });
    if !about.namespace.is_empty() {
        regarding["namespace"] = about.namespace.as_str().into();
    }
    json!({
        "apiVersion": EVENT.api_version(),
        "kind": EVENT.kind,
        "metadata": { "name": name, "namespace": namespace(about) },
        "eventTime": micro_time(now),
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance,
        "action": clip(&event.action, ACTION_LIMIT),
        "reason": clip(&event.reason, REASON_LIMIT),
        "note": clip(&event.note, NOTE_LIMIT),
        "type": match event.kind {
            EventType::Normal => "Normal",
            EventType::Warning => "Warning",
        },
        "regarding": regarding,
    })
}

/// The patch that makes an Event a series of `count`.
pub(super) fn series(count: u32, now: Timestamp) -> Value {
    json!({ "series": { "count": count, "lastObservedTime": micro_time(now) } })
}

/// The first bytes of a text, whole characters only.
fn clip(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{POD, Resource};

    #[test]
    fn an_event_passes_the_api_servers_validation() {
        let mut published = Published {
            about: ObjectRef {
                resource: POD,
                namespace: "ns".to_owned(),
                name: "n".repeat(253),
                uid: "u".to_owned(),
            },
            kind: EventType::Warning,
            reason: "R".repeat(200),
            action: "A".repeat(200),
            note: "ü".repeat(1000),
        };
        let name = name(&published.about.name, 7);
        assert!(name.len() <= 253 && name.ends_with(".0000000000000007"));
        let body = event(
            &published,
            &name,
            &Reporter::new("c", "i"),
            Timestamp::UNIX_EPOCH,
        );
        let length = |field: &str| body[field].as_str().unwrap().len();
        assert_eq!(
            (length("reason"), length("action"), length("note")),
            (128, 128, 1024)
        );
        assert_eq!(
            body["metadata"]["namespace"],
            body["regarding"]["namespace"]
        );
        assert_eq!(body["type"], "Warning");

        published.about.resource = Resource {
            namespaced: false,
            ..POD
        };
        published.about.namespace = String::new();
        let body = event(
            &published,
            &name,
            &Reporter::new("c", "i"),
            Timestamp::UNIX_EPOCH,
        );
        assert_eq!(body["metadata"]["namespace"], "default");
        assert_eq!(body["regarding"].get("namespace"), None);
    }
}
