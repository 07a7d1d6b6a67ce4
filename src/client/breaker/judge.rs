//! What the end of an attempt says of the API server.

use http::StatusCode;

use super::Verdict;
use crate::client::call::{Call, Wanted};
use crate::client::retry::Failure;
use crate::client::transport::Attempt;

/// Whether its outcome tells of the API server: what passes through to another (a pod, by the proxy)
/// tells of that one.
pub(in crate::client) fn tells_of_server(call: &Call) -> bool {
    call.wanted != Wanted::AnyStatus
}

/// What an attempt that ended so says. `None` is success.
pub(in crate::client) fn verdict(call: &Call, failure: Option<Failure>) -> Verdict {
    match failure {
        Some(Failure::NotSent(Attempt::Own)) if tells_of_server(call) => Verdict::Unconnected,
        // One connection that breaks fails all that is under way on it: that is not as many
        // connections in a row.
        Some(Failure::Broken) if tells_of_server(call) => Verdict::Bad,
        // One that can't be made fails all who wait for it, and is one: a single address where nobody
        // listens is no outage.
        Some(Failure::NotSent(_) | Failure::Broken | Failure::Declined | Failure::Refused) => {
            Verdict::Unknown
        }
        Some(Failure::Answered { status, .. })
            if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS =>
        {
            Verdict::Bad
        }
        None | Some(Failure::Answered { .. } | Failure::Unreadable) => Verdict::Good,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::POD;
    use crate::client::call::{Subject, Verb};
    use http::Method;

    #[test]
    fn k88567_what_a_server_that_leaves_has_not_taken_is_no_sign_of_an_outage() {
        let subject = Subject::collection(Verb::List, POD, None);
        let call = Call::new(subject, Method::GET, "/".to_owned(), 1);
        assert_eq!(verdict(&call, Some(Failure::Declined)), Verdict::Unknown);
        let unconnected = verdict(&call, Some(Failure::NotSent(Attempt::Own)));
        assert_eq!(unconnected, Verdict::Unconnected);
        let another = verdict(&call, Some(Failure::NotSent(Attempt::Another)));
        assert_eq!(another, Verdict::Unknown, "the same connection once more");
        let broken = verdict(&call, Some(Failure::Broken));
        assert_eq!(broken, Verdict::Bad, "many at once, and one connection");
    }
}
