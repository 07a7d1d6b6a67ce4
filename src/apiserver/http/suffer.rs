//! What faults do to a request, whoever carries it out: before the deed, and between deed and answer.

use std::time::Duration;

use super::{Control, never};
use crate::apiserver::faults::Fault;
use crate::apiserver::request::Verb;
use crate::apiserver::{ApiError, ApiServer};

/// What keeps a request from being carried out.
pub(super) enum Blow {
    /// Its connection was broken off.
    Dropped,
    Refused(ApiError),
}

/// What happens to a request before it is carried out.
pub(super) async fn before(faults: &[Fault], verb: Verb, control: &Control) -> Option<Blow> {
    for fault in faults {
        match fault {
            Fault::Delay { milliseconds } => {
                tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
            }
            Fault::GoAway => control.wind_down(),
            _ => {}
        }
    }
    if faults.contains(&Fault::DropBefore) {
        control.break_off();
        return Some(Blow::Dropped);
    }
    let refusal = faults.iter().find_map(|fault| refusal(fault, verb));
    refusal.map(Blow::Refused)
}

/// What happens between the deed and its answer. Does not return where the answer is lost.
pub(super) async fn after(server: &ApiServer, faults: &[Fault], control: &Control) {
    for fault in faults {
        if let Fault::DelayAnswer { milliseconds } = fault {
            tokio::time::sleep(Duration::from_millis(*milliseconds)).await;
        }
    }
    if faults.contains(&Fault::DropAfter) {
        control.break_off();
        return never().await;
    }
    server.faults().thawed().await;
}

/// The failure that a fault means, in the words in which real servers say it.
fn refusal(fault: &Fault, verb: Verb) -> Option<ApiError> {
    let (code, retry_after) = match fault {
        Fault::Gone if verb == Verb::List => {
            let message = "The resourceVersion for the provided list is too old.";
            return Some(ApiError::expired(message));
        }
        Fault::Status { code, retry_after } => (*code, *retry_after),
        _ => return None,
    };
    let (reason, message) = match code {
        429 => (
            "TooManyRequests",
            "Too many requests, please try again later.",
        ),
        500 => (
            "InternalError",
            "Internal error occurred: etcdserver: request timed out",
        ),
        503 => ("ServiceUnavailable", "apiserver is shutting down"),
        504 => (
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
        ),
        _ => ("", "a fault was asked for"),
    };
    let mut error = ApiError::new(code, reason, message);
    error.retry_after = retry_after;
    Some(error)
}

/// What a watch from a version that is too old is told.
pub(super) fn gone() -> ApiError {
    ApiError::expired("too old resource version: 1 (2)")
}
