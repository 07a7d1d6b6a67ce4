//! The lock that replicas of a former version hold: an annotation of a ConfigMap or of Endpoints, as
//! client-go wrote it before there were Leases. It is read, so that nobody leads beside them. Pure.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::client::{CONFIG_MAP, ENDPOINTS, Resource};

/// Where client-go's `ConfigMapLock` and `EndpointsLock` kept the record.
const ANNOTATION: &str = "control-plane.alpha.kubernetes.io/leader";

/// A ConfigMap or Endpoints in the namespace of the Lease: `configmaps/NAME` or `endpoints/NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LegacyLock {
    /// Its type.
    pub resource: Resource,
    /// Its name.
    pub name: String,
}

impl FromStr for LegacyLock {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, name) = text.split_once('/').unwrap_or((text, ""));
        let resource = match kind {
            "configmaps" => CONFIG_MAP,
            "endpoints" => ENDPOINTS,
            _ => {
                return Err(format!(
                    "{text:?} is neither configmaps/NAME nor endpoints/NAME"
                ));
            }
        };
        if name.is_empty() || name.contains('/') {
            return Err(format!("{text:?} names no object, as {kind}/NAME does"));
        }
        Ok(Self {
            resource,
            name: name.to_owned(),
        })
    }
}

impl fmt::Display for LegacyLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.resource.plural, self.name)
    }
}

/// What was seen of such a lock.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// The record that was seen last, and since when.
    record: Option<(String, Instant)>,
}

impl Seen {
    /// Who holds the lock, now that its object was read (`None`: it does not exist); nobody once its
    /// record has not changed for its own duration, or `default`, on our clock.
    pub(super) fn holder(
        &mut self,
        now: Instant,
        object: Option<&Value>,
        default: Duration,
    ) -> Option<String> {
        let text = object.and_then(|object| object["metadata"]["annotations"][ANNOTATION].as_str());
        let Some(text) = text else {
            self.record = None;
            return None;
        };
        let since = match &self.record {
            Some((seen, since)) if seen == text => *since,
            _ => {
                self.record = Some((text.to_owned(), now));
                now
            }
        };
        // A record that can't be read may be of somebody who leads.
        let record: Value = serde_json::from_str(text).unwrap_or_default();
        let holder = record["holderIdentity"]
            .as_str()
            .unwrap_or("nobody who can be read");
        let duration = record["leaseDurationSeconds"].as_u64().filter(|s| *s > 0);
        let duration = duration.map_or(default, Duration::from_secs);
        (!holder.is_empty() && now < since + duration).then(|| holder.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SECOND: Duration = Duration::from_secs(1);

    fn lock(record: &str) -> Value {
        json!({"metadata": {"name": "a", "annotations": {ANNOTATION: record}}})
    }

    #[test]
    fn locks_are_named_by_type_and_name() {
        let lock: LegacyLock = "configmaps/mainstay".parse().unwrap();
        assert_eq!(
            (lock.resource, lock.name.as_str()),
            (CONFIG_MAP, "mainstay")
        );
        assert_eq!(lock.to_string(), "configmaps/mainstay");
        assert!("endpoints/mainstay".parse::<LegacyLock>().is_ok());
        for wrong in [
            "",
            "configmaps",
            "configmaps/",
            "leases/a",
            "configmaps/a/b",
        ] {
            assert!(wrong.parse::<LegacyLock>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn who_renews_holds_it_and_who_does_not_holds_it_for_its_own_time_on_our_clock() {
        let (mut seen, now) = (Seen::default(), Instant::now());
        let record = |renewed: u32| {
            lock(&format!(
                r#"{{"holderIdentity": "old", "leaseDurationSeconds": 7, "renewTime": "1999-01-01T00:00:{renewed:02}Z"}}"#
            ))
        };
        for second in 0..20 {
            let holder = seen.holder(now + second * SECOND, Some(&record(second)), SECOND);
            assert_eq!(holder.as_deref(), Some("old"), "however old its time is");
        }
        let last = now + 19 * SECOND;
        let at = |seen: &mut Seen, second| {
            seen.holder(last + second * SECOND, Some(&record(19)), SECOND)
        };
        assert!(at(&mut seen, 6).is_some());
        assert!(at(&mut seen, 7).is_none(), "its holder has ended");

        assert!(seen.holder(last, None, SECOND).is_none(), "no such object");
        let released = lock(r#"{"holderIdentity": "", "leaseDurationSeconds": 1}"#);
        assert!(seen.holder(last, Some(&released), SECOND).is_none());
        assert!(seen.holder(last, Some(&json!({})), SECOND).is_none());
        let odd = lock("not JSON");
        assert!(seen.holder(last, Some(&odd), SECOND).is_some());
        assert!(seen.holder(last + SECOND, Some(&odd), SECOND).is_none());
    }
}
