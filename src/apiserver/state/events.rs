//! The two faces of an Event: core `v1`, in which it is stored, and `events.k8s.io/v1`.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::{Reply, State};

/// How long an Event is kept after its last write, as a real server has it.
const LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Fields by their names in `v1` and in `events.k8s.io/v1`.
const FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// From the stored form.
pub(crate) fn to_events_group(event: &mut Value) {
    rename(event, |(core, group)| (core, group));
    if let Some(event) = event.as_object_mut() {
        for field in ["reportingController", "reportingInstance"] {
            if event.get(field).is_some_and(|text| text == "") {
                event.remove(field);
            }
        }
    }
}

/// Into the stored form.
pub(crate) fn to_core(event: &mut Value) {
    rename(event, |(core, group)| (group, core));
}

fn rename(
    event: &mut Value,
    direction: impl Fn((&'static str, &'static str)) -> (&'static str, &'static str),
) {
    let Some(event) = event.as_object_mut() else {
        return;
    };
    for pair in FIELDS {
        let (from, to) = direction(*pair);
        if let Some(value) = event.remove(from) {
            event.insert(to.to_owned(), value);
        }
    }
}

/// What a typed server writes even where nobody set it.
pub(crate) fn zeroes(event: &mut Value) {
    for (field, zero) in [
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("eventTime", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
        ("involvedObject", json!({})),
    ] {
        if event[field].is_null() {
            event[field] = zero;
        }
    }
}

/// The field of `v1` that a field selector of `events.k8s.io/v1` means.
pub(crate) fn selectable(field: &str) -> Option<String> {
    match field {
        "reason" | "type" => Some(field.to_owned()),
        "reportingController" => Some("reportingComponent".to_owned()),
        _ => field
            .strip_prefix("regarding.")
            .map(|rest| format!("involvedObject.{rest}")),
    }
}

impl State {
    /// Notes when an Event that was written goes, and lets those go whose time has come.
    pub(super) fn expire_events(&mut self, written: &Reply, now: Timestamp) {
        if let (Reply::Object { entry, .. }, Ok(end)) = (written, now.checked_add(LIFE)) {
            self.expiring.push_back((end, Arc::clone(entry)));
        }
        while self.expiring.front().is_some_and(|(end, _)| *end <= now) {
            let Some((_, entry)) = self.expiring.pop_front() else {
                return;
            };
            let events: Arc<str> = "events".into();
            let latest = self.storages[&events]
                .get(&entry.key)
                .is_some_and(|there| there.rv == entry.rv);
            if latest {
                self.remove(&events, &entry.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_faces_hold_the_same() {
        let core = json!({"metadata": {"name": "a"}, "involvedObject": {"name": "p"}, "message": "m",
            "count": 2, "reportingComponent": "c", "reason": "R"});
        let mut event = core.clone();
        to_events_group(&mut event);
        assert_eq!(event["regarding"]["name"], "p");
        assert_eq!(
            (&event["note"], &event["deprecatedCount"]),
            (&json!("m"), &json!(2))
        );
        to_core(&mut event);
        assert_eq!(event, core);
        assert_eq!(
            selectable("regarding.name").as_deref(),
            Some("involvedObject.name")
        );
    }
}
