//! What the machine says and is told.

use std::time::Duration;

use super::source::{PageRequest, WatchRequest};
use crate::client::Error;

/// What to do, after waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) wait: Duration,
    pub(super) action: Action,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Fetch a page. `begin` is the reason for a new list, `None` within one.
    List {
        begin: Option<&'static str>,
        request: PageRequest,
    },
    /// Open a watch. `begin` is the reason for a new list, which this watch begins with; it is one
    /// exactly if the request has no version.
    Watch {
        begin: Option<&'static str>,
        request: WatchRequest,
    },
}

/// How a watch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The server closed it, as it does when its time is over.
    Closed,
    /// No frame came for too long.
    Silent,
    /// It could not be opened, or an error came.
    Failed(Failure),
}

/// A failure, as far as it decides what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The version to resume from (or the continue token) is not usable: 410 in any form, or a
    /// version that the server does not have yet.
    Expired,
    /// The request itself is wrong for the server, so it does not understand what differs from other
    /// requests: the version, the token, or that all objects are asked for first.
    Refused,
    /// The server asks to wait.
    Throttled(Option<Duration>),
    Other,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        match error {
            // A version from the future (an etcd restored from a backup) comes as a 504 with these
            // words (apiserver's storage.NewTooLargeResourceVersionError).
            Error::Unavailable { message, .. }
                if message.contains("Too large resource version") =>
            {
                Self::Expired
            }
            Error::Gone { .. } => Self::Expired,
            Error::Invalid {
                code: 400 | 422, ..
            } => Self::Refused,
            Error::TooManyRequests { retry_after, .. } => Self::Throttled(*retry_after),
            _ => Self::Other,
        }
    }
}
