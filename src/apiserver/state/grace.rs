//! Grace periods of deletions, which pods alone have, and the marks that a deletion leaves.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::Served;
use super::delete::Deletion;
use super::object::metadata;

/// What becomes of a grace period.
pub(super) enum Grace {
    /// The kind knows none.
    None,
    /// It ends so many seconds after now, or after what it was before.
    Given(i64),
    /// It runs already, and ends no later than was asked for.
    Pending,
}

pub(super) fn grace(served: &Served, object: &Value, deletion: &Deletion) -> Grace {
    if served.storage.as_ref() != "pods" {
        return Grace::None;
    }
    let asked = deletion
        .grace
        .map(|seconds| if seconds < 0 { 1 } else { seconds });
    if !object["metadata"]["deletionTimestamp"].is_null() {
        let running = object["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or_default();
        return match asked {
            _ if running == 0 => Grace::None,
            Some(asked) if asked < running => Grace::Given(asked),
            _ => Grace::Pending,
        };
    }
    let ended = matches!(
        object["status"]["phase"].as_str(),
        Some("Failed" | "Succeeded")
    );
    let unscheduled = object["spec"]["nodeName"]
        .as_str()
        .unwrap_or_default()
        .is_empty();
    if ended || unscheduled {
        return Grace::Given(0);
    }
    let own = object["spec"]["terminationGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default();
    Grace::Given(asked.unwrap_or(own))
}

/// Moves the end of a grace period forward.
pub(super) fn shorten(object: &mut Value, seconds: i64, now: Timestamp) {
    let running = object["metadata"]["deletionGracePeriodSeconds"]
        .as_i64()
        .unwrap_or_default();
    let end = object["metadata"]["deletionTimestamp"]
        .as_str()
        .and_then(|text| text.parse::<Timestamp>().ok())
        .unwrap_or(now);
    let earlier = end
        .saturating_add(SignedDuration::from_secs(seconds - running))
        .unwrap_or(now);
    let (end, seconds) = if earlier < now {
        (now, seconds.min(1))
    } else {
        (earlier, seconds)
    };
    let metadata = metadata(object);
    metadata.insert("deletionTimestamp".to_owned(), format!("{end:.0}").into());
    metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
}

/// Marks what waits for its finalizers.
pub(super) fn mark(object: &mut Value, deleting: bool, now: Timestamp) {
    if !deleting {
        bump_generation(object);
        metadata(object).insert("deletionTimestamp".to_owned(), format!("{now:.0}").into());
    }
    metadata(object).insert("deletionGracePeriodSeconds".to_owned(), 0.into());
}

pub(super) fn bump_generation(object: &mut Value) {
    if let Some(generation) = object["metadata"]["generation"].as_i64() {
        object["metadata"]["generation"] = (generation + 1).into();
    }
}

pub(super) fn later(now: Timestamp, seconds: i64) -> String {
    let end = now
        .saturating_add(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MAX);
    format!("{end:.0}")
}
