//! What the end of an attempt says of the API server.

use http::StatusCode;

use super::Verdict;
use crate::client::call::{Call, Wanted};
use crate::client::retry::Failure;

/// Whether its outcome tells of the API server: what passes through to another (a pod, by the proxy)
/// tells of that one.
pub(in crate::client) fn tells_of_server(call: &Call) -> bool {
    call.wanted != Wanted::AnyStatus
}

/// What an attempt that ended so says. `None` is success.
pub(in crate::client) fn verdict(call: &Call, failure: Option<Failure>) -> Verdict {
    match failure {
        Some(Failure::NotSent | Failure::Broken) if tells_of_server(call) => Verdict::Unconnected,
        Some(Failure::NotSent | Failure::Broken | Failure::Refused) => Verdict::Unknown,
        Some(Failure::Answered { status, .. })
            if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS =>
        {
            Verdict::Bad
        }
        None | Some(Failure::Answered { .. } | Failure::Unreadable) => Verdict::Good,
    }
}
