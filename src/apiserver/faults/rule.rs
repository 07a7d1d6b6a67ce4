//! Whom a fault hits, and what it does.

use serde::{Deserialize, Serialize};

use super::Subject;

/// Whose requests suffer what. Fields that are left out match everything.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Rule {
    /// Name of the client: its token's, else its user agent. Its beginning is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`; `write` for
    /// all that write, `read` for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verb: Option<String>,
    /// Such as `pods`, `pods/status`, `deployments.apps`. Without a subresource it means the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// One namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// One object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// How large a part of the matching requests is hit, from 0 to 1.
    #[serde(default = "whole")]
    pub share: f64,
    /// After so many hits it is over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// What happens.
    #[serde(flatten)]
    pub fault: Fault,
}

fn whole() -> f64 {
    1.0
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    tag = "fault",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum Fault {
    /// It is carried out late.
    Delay {
        /// How late.
        milliseconds: u64,
    },
    /// It is carried out at once, and answered late.
    DelayAnswer {
        /// How late.
        milliseconds: u64,
    },
    /// The connection breaks before anything is done.
    DropBefore,
    /// The connection breaks once it is done: the answer is lost.
    DropAfter,
    /// The connection breaks in the middle of the answer.
    Reset {
        /// Bytes of the body that still arrive. In a watch it is the first event past that many.
        after_bytes: u64,
    },
    /// It is refused.
    Status {
        /// 429, 500, 503, 504, …
        code: u16,
        /// `Retry-After` in seconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after: Option<u32>,
    },
    /// A read is answered from the past, as by a server whose cache lags.
    Stale {
        /// How many versions back, as far as the history goes.
        versions: u64,
    },
    /// 410: the version that it asks for is too old. In a watch as an event.
    Gone,
    /// A watch that is open and says nothing.
    Silent,
    /// A watch that never marks the end of its initial events.
    NoBookmark,
    /// A watch that sends many bookmarks at once, over and over.
    BookmarkStorm {
        /// How many at a time.
        count: u32,
    },
    /// A watch's event that stops in the middle, and the stream with it.
    HalfFrame,
    /// A compressed answer that nobody asked for.
    Gzip,
    /// A watch's first event is followed by a line that is not JSON.
    Garbage,
    /// A watch's events come twice.
    Repeat,
    /// The body of the answer comes in small pieces.
    Slow {
        /// Size of a piece.
        bytes: u32,
        /// Pause before each.
        milliseconds: u64,
    },
    /// The connection is wound down, as by a server that stops: HTTP/2's GOAWAY.
    #[serde(rename = "goaway")]
    GoAway,
}

impl Fault {
    /// As it is counted.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Delay { .. } => "delay",
            Self::DelayAnswer { .. } => "delayAnswer",
            Self::DropBefore => "dropBefore",
            Self::DropAfter => "dropAfter",
            Self::Reset { .. } => "reset",
            Self::Status { .. } => "status",
            Self::Stale { .. } => "stale",
            Self::Gone => "gone",
            Self::Silent => "silent",
            Self::NoBookmark => "noBookmark",
            Self::BookmarkStorm { .. } => "bookmarkStorm",
            Self::HalfFrame => "halfFrame",
            Self::Gzip => "gzip",
            Self::Garbage => "garbage",
            Self::Repeat => "repeat",
            Self::Slow { .. } => "slow",
            Self::GoAway => "goaway",
        }
    }
}

impl Rule {
    /// Reads a rule from JSON.
    ///
    /// # Errors
    /// What is wrong with it, members that mean nothing included.
    pub fn from_json(value: &serde_json::Value) -> Result<Self, String> {
        let rule: Self =
            serde_json::from_value(value.clone()).map_err(|error| error.to_string())?;
        let known = serde_json::to_value(&rule).map_err(|error| error.to_string())?;
        let members = value.as_object().into_iter().flatten();
        match members
            .into_iter()
            .find(|(name, value)| !value.is_null() && known.get(*name).is_none())
        {
            Some((unknown, _)) => Err(format!("unknown member {unknown:?}")),
            None => Ok(rule),
        }
    }

    /// Every request suffers `fault`.
    #[must_use]
    pub fn always(fault: Fault) -> Self {
        Self {
            client: None,
            verb: None,
            resource: None,
            namespace: None,
            name: None,
            share: 1.0,
            times: None,
            fault,
        }
    }

    /// The same, for one verb.
    #[must_use]
    pub fn on(self, verb: &str) -> Self {
        Self {
            verb: Some(verb.to_owned()),
            ..self
        }
    }

    /// The same, for one resource.
    #[must_use]
    pub fn of(self, resource: &str) -> Self {
        Self {
            resource: Some(resource.to_owned()),
            ..self
        }
    }

    /// The same, for one client.
    #[must_use]
    pub fn by(self, client: &str) -> Self {
        Self {
            client: Some(client.to_owned()),
            ..self
        }
    }

    /// The same, at most so many times.
    #[must_use]
    pub fn times(self, times: u64) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// The same, for a share of the requests.
    #[must_use]
    pub fn share(self, share: f64) -> Self {
        Self { share, ..self }
    }

    pub(super) fn matches(&self, subject: Subject<'_>) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let reads = matches!(subject.verb, "get" | "list" | "watch");
        let verb = match self.verb.as_deref() {
            Some("read") => reads,
            Some("write") => !reads,
            _ => is(&self.verb, subject.verb),
        };
        verb && self
            .client
            .as_deref()
            .is_none_or(|client| subject.client.starts_with(client))
            && is(&self.resource, subject.resource)
            && is(&self.namespace, subject.namespace)
            && is(&self.name, subject.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_are_plain_json() {
        let rule = Rule::from_json(&json!({
            "verb": "write", "resource": "leases.coordination.k8s.io", "share": 0.5,
            "fault": "status", "code": 429, "retryAfter": 1
        }))
        .unwrap();
        assert_eq!(
            rule.fault,
            Fault::Status {
                code: 429,
                retry_after: Some(1)
            }
        );
        let subject = |verb, resource| Subject {
            client: "c",
            verb,
            resource,
            namespace: "",
            name: "",
        };
        assert!(rule.matches(subject("patch", "leases.coordination.k8s.io")));
        assert!(!rule.matches(subject("get", "leases.coordination.k8s.io")));
        assert!(!rule.matches(subject("patch", "pods")));
        let back = Rule::from_json(&serde_json::to_value(&rule).unwrap()).unwrap();
        assert_eq!(back, rule);
        assert!(Rule::from_json(&json!({"fault": "what"})).is_err());
        let typo = Rule::from_json(&json!({"fault": "gone", "verbs": "get"}));
        assert_eq!(typo.unwrap_err(), "unknown member \"verbs\"");
    }
}
