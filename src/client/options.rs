//! What a caller can say about a client and its requests.

use std::time::Duration;

use super::{BreakerLimits, ConfigError, Environment};

/// Limits of a client.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// Requests per second, on average. Watches and retries count too.
    pub qps: f64,
    /// Requests that may be sent at once after a quiet time.
    pub burst: u32,
    /// Requests under way at a time; watches do not count.
    pub max_in_flight: usize,
    /// Longest time of a call, waiting and retries included; for watches and raw requests until the
    /// head of the response.
    pub deadline: Duration,
    /// When the circuit breaker opens, and for how long.
    pub breaker: BreakerLimits,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// Clock and chance, for the client and those who use it.
    pub environment: Environment,
}

impl Default for ClientOptions {
    /// 50 requests a second, 100 at once, 64 in flight, 15 s each.
    fn default() -> Self {
        Self {
            qps: 50.0,
            burst: 100,
            max_in_flight: 64,
            deadline: Duration::from_secs(15),
            breaker: BreakerLimits::DEFAULT,
            user_agent: concat!("mainstay/", env!("CARGO_PKG_VERSION")).to_owned(),
            environment: Environment::system(),
        }
    }
}

impl ClientOptions {
    /// The first thing that is wrong.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let first = self.problems().into_iter().next();
        first.map_or(Ok(()), |(option, problem)| {
            Err(ConfigError::Option { option, problem })
        })
    }

    /// Everything that is wrong: which option, and what. Nothing for options that will do.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let mut wrong = Vec::new();
        let mut refuse = |option, problem: &str| wrong.push((option, problem.to_owned()));
        if !(self.qps.is_finite() && self.qps >= 0.01) {
            refuse("qps", "must be at least 0.01");
        }
        if self.burst == 0 {
            refuse(
                "burst",
                "must be at least 1, or no request could ever be sent",
            );
        }
        if self.max_in_flight == 0 {
            refuse("max-in-flight", "must be at least 1");
        }
        if self.deadline.is_zero() {
            refuse("deadline", "must be longer than 0");
        }
        if self.breaker.calls == 0 {
            refuse("breaker-calls", "must be at least 1");
        }
        if self.breaker.connections == 0 {
            refuse("breaker-connections", "must be at least 1");
        }
        if self.breaker.pause.is_zero() || self.breaker.pause > self.breaker.pause_max {
            refuse(
                "breaker-pause",
                "must be longer than 0 and no longer than breaker-pause-max",
            );
        }
        if http::HeaderValue::from_str(&self.user_agent).is_err() {
            refuse(
                "user-agent",
                "holds characters that no HTTP header can carry",
            );
        }
        wrong
    }
}

/// Which objects, and which page of them, [`Client::list`](super::Client::list) asks for.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    /// Such as `app.kubernetes.io/name=mysql`.
    pub label_selector: Option<String>,
    /// Such as `metadata.name=demo`.
    pub field_selector: Option<String>,
    /// Most items in a page.
    pub limit: Option<u32>,
    /// [`ListPage::continue_token`](super::ListPage::continue_token) of the page before.
    pub continue_token: Option<String>,
    /// `0` for any version (served from the watch cache), a version for that or a later one, `None`
    /// for the most recent.
    pub resource_version: Option<String>,
}

/// What [`Client::watch`](super::Client::watch) follows, and from where. Bookmarks are always asked
/// for.
#[derive(Clone, Debug, Default)]
pub struct WatchOptions {
    /// Such as `app.kubernetes.io/name=mysql`.
    pub label_selector: Option<String>,
    /// Such as `metadata.name=demo`.
    pub field_selector: Option<String>,
    /// Only what comes after this version.
    pub resource_version: Option<String>,
    /// First send what exists, as ADDED, then a bookmark annotated `k8s.io/initial-events-end`.
    pub send_initial_events: bool,
    /// Time after which the server ends the watch cleanly.
    pub timeout: Option<Duration>,
}

/// The body of a PATCH.
#[derive(Clone, Copy, Debug)]
pub enum Patch<'a> {
    /// Server-side apply with field manager `mainstay`.
    Apply {
        /// The fields we own, with `apiVersion` and `kind`.
        body: &'a serde_json::Value,
        /// Whether to take over fields that others manage.
        force: bool,
    },
    /// JSON merge patch (RFC 7386).
    Merge(&'a serde_json::Value),
    /// Strategic merge patch: lists are merged by key as the built-in types say.
    Strategic(&'a serde_json::Value),
    /// JSON patch (RFC 6902): a list of operations.
    Json(&'a serde_json::Value),
}

/// How [`Client::delete`](super::Client::delete) deletes.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Only the object with this UID, not a later one of the same name.
    pub uid: Option<String>,
    /// Only the object as it was at this version.
    pub resource_version: Option<String>,
    /// Time a pod gets to stop; zero removes the object without waiting for its kubelet.
    pub grace_period: Option<Duration>,
    /// `Background`, `Foreground` or `Orphan`.
    pub propagation: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_could_never_send_are_refused_by_name() {
        assert!(ClientOptions::default().check().is_ok());
        let defaults = ClientOptions::default;
        for (options, name) in [
            (
                ClientOptions {
                    qps: 0.0,
                    ..defaults()
                },
                "qps",
            ),
            (
                ClientOptions {
                    qps: f64::NAN,
                    ..defaults()
                },
                "qps",
            ),
            (
                ClientOptions {
                    burst: 0,
                    ..defaults()
                },
                "burst",
            ),
            (
                ClientOptions {
                    max_in_flight: 0,
                    ..defaults()
                },
                "max-in-flight",
            ),
            (
                ClientOptions {
                    deadline: Duration::ZERO,
                    ..defaults()
                },
                "deadline",
            ),
            (
                ClientOptions {
                    user_agent: "\n".to_owned(),
                    ..defaults()
                },
                "user-agent",
            ),
        ] {
            let error = options.check().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("client option {name}: ")),
                "{error}"
            );
        }
    }
}
