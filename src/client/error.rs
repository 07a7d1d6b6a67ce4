//! What can go wrong with one API request, in terms a caller can act on.

use std::time::Duration;

/// An API request that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// 404: the object (or the resource type) does not exist.
    #[error("{what} not found")]
    NotFound {
        /// Verb and path of the request.
        what: String,
    },
    /// 409 with reason Conflict: the object changed since it was read, or a precondition failed.
    #[error("{what}: conflict: {message}")]
    Conflict {
        /// Verb and path of the request.
        what: String,
        /// The server's words.
        message: String,
    },
    /// 409 with reason AlreadyExists.
    #[error("{what}: already exists")]
    AlreadyExists {
        /// Verb and path of the request.
        what: String,
    },
    /// 400, 413, 415, 422 and other 4xx: sending the same again can't succeed.
    #[error("{what}: refused as invalid ({code}): {message}")]
    Invalid {
        /// Verb and path of the request.
        what: String,
        /// HTTP status.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// 401 after the credential was refreshed once.
    #[error("{what}: the API server does not accept our credentials: {message}")]
    Unauthorized {
        /// Verb and path of the request.
        what: String,
        /// The server's words.
        message: String,
    },
    /// There is no credential to send: a token file or a credential plugin failed. Nothing was sent.
    #[error("{what}: no credentials: {message}")]
    Credentials {
        /// Verb and path of the request.
        what: String,
        /// Cause, without secrets.
        message: String,
    },
    /// 403: RBAC (or admission) does not allow it.
    #[error("not allowed to {verb} {resource} in {}: {message}", namespace.as_deref().unwrap_or("all namespaces"))]
    Forbidden {
        /// Kubernetes verb, such as `list`.
        verb: &'static str,
        /// `plural.group`.
        resource: String,
        /// Namespace, or `None` for a request across all of them.
        namespace: Option<String>,
        /// The server's words.
        message: String,
    },
    /// 410, or a status whose reason is Expired or Gone: the resource version is too old.
    #[error("{what}: resource version expired")]
    Gone {
        /// Verb and path of the request.
        what: String,
    },
    /// 429.
    #[error("{what}: too many requests")]
    TooManyRequests {
        /// Verb and path of the request.
        what: String,
        /// The server's Retry-After, capped.
        retry_after: Option<Duration>,
    },
    /// The request's deadline passed. It may or may not have been carried out.
    #[error("{what}: no answer within {after:?}")]
    Timeout {
        /// Verb and path of the request.
        what: String,
        /// The deadline that passed.
        after: Duration,
    },
    /// Connection refused, reset or not to be made, or a 5xx answer.
    #[error("{what}: the API server is unavailable: {message}")]
    Unavailable {
        /// Verb and path of the request.
        what: String,
        /// HTTP status where there was an answer.
        code: Option<u16>,
        /// Whether it is certain that the server never saw the request.
        unsent: bool,
        /// Cause.
        message: String,
    },
    /// The circuit breaker is open; nothing was sent.
    #[error("{what}: not sent, the circuit breaker is open")]
    BreakerOpen {
        /// Verb and path of the request.
        what: String,
    },
    /// Leadership is not held (any more); nothing was sent, or what was in flight was abandoned.
    #[error("{what}: not sent, this replica does not hold the lease")]
    Fenced {
        /// Verb and path of the request.
        what: String,
    },
    /// The answer is not what it should be.
    #[error("{what}: can't decode {gvk} {key} at resource version {resource_version}: {message}")]
    Decode {
        /// Verb and path of the request.
        what: String,
        /// Group, version and kind that were expected.
        gvk: String,
        /// namespace/name where known.
        key: String,
        /// Resource version where known.
        resource_version: String,
        /// The parser's words, with the offset.
        message: String,
    },
    /// A request could not be built: a bug or an impossible name.
    #[error("{what}: can't build the request: {message}")]
    Request {
        /// Verb and path of the request.
        what: String,
        /// Cause.
        message: String,
    },
}

impl Error {
    /// Whether the same request may succeed later without anyone changing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::TooManyRequests { .. }
                | Self::Timeout { .. }
                | Self::Unavailable { .. }
                | Self::BreakerOpen { .. }
                | Self::Gone { .. }
                | Self::Unauthorized { .. }
                | Self::Credentials { .. }
        )
    }

    /// Whether the object does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// Whether an optimistic write lost against another one.
    #[must_use]
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict { .. })
    }

    /// The same, naming where the answer came from (a URL without user and query), where that is what
    /// is wrong: what a server says of an object needs no more than the object's name.
    pub(super) fn at_url(mut self, url: &str) -> Self {
        if let Self::Unavailable { message, .. } | Self::Decode { message, .. } = &mut self {
            *message = format!("{url}: {message}");
        }
        self
    }
}
