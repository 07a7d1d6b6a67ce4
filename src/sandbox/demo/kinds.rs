//! Kinds that the demo shows and the operator does not cache.

use jiff::Timestamp;
use serde::Deserialize;

use crate::client::{EVENT, LEASE};
use crate::runtime::{Meta, kind};

/// The operators' Lease.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Lease {
    /// Metadata.
    pub(super) metadata: Meta,
    /// Who leads.
    #[serde(default)]
    pub(super) spec: LeaseSpec,
}

/// The slice of a Lease that is read.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct LeaseSpec {
    /// The leader's identity; absent or empty while there is none.
    pub(super) holder_identity: Option<String>,
    /// How often it changed hands: the term less one.
    pub(super) lease_transitions: Option<u64>,
}

/// An Event.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Event {
    /// Metadata.
    pub(super) metadata: Meta,
    /// Normal or Warning.
    #[serde(rename = "type", default)]
    pub(super) kind: String,
    /// One word.
    #[serde(default)]
    pub(super) reason: String,
    /// A sentence.
    #[serde(default)]
    pub(super) note: String,
    /// What it is about.
    #[serde(default)]
    pub(super) regarding: Regarding,
    /// When it happened first.
    #[serde(rename = "eventTime", default)]
    pub(super) first: Option<Timestamp>,
    /// Its repetitions.
    #[serde(default)]
    pub(super) series: Option<Series>,
}

/// What an Event is about.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Regarding {
    /// Name.
    pub(super) name: String,
}

/// Repetitions of an Event.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Series {
    /// How often it happened.
    pub(super) count: u32,
    /// When it happened last.
    pub(super) last_observed_time: Timestamp,
}

impl Event {
    /// When it happened last.
    pub(super) fn last(&self) -> Option<Timestamp> {
        let series = self.series.as_ref().map(|series| series.last_observed_time);
        let created = self.metadata.creation_timestamp.as_deref();
        series
            .or(self.first)
            .or_else(|| created.and_then(|text| text.parse().ok()))
    }
}

kind!(Lease, LEASE);
kind!(Event, EVENT);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_as_old_as_its_last_repetition() {
        let event = |extra: &str| -> Event {
            let meta = r#"{"name":"e","creationTimestamp":"2026-11-30T10:00:00Z"}"#;
            serde_json::from_str(&format!(r#"{{"metadata":{meta}{extra}}}"#)).unwrap()
        };
        let last = |extra: &str| event(extra).last().unwrap().to_string();
        assert_eq!(last(""), "2026-11-30T10:00:00Z");
        let once = r#","eventTime":"2026-11-30T10:00:01.000000Z","type":"Warning""#;
        assert_eq!(last(once), "2026-11-30T10:00:01Z");
        let series = r#","series":{"count":3,"lastObservedTime":"2026-11-30T10:00:09.5Z"}"#;
        assert_eq!(last(&format!("{once}{series}")), "2026-11-30T10:00:09.5Z");
    }
}
