//! `/debug/log`: reads and changes the filter, for who is on this machine.
//!
//! A filter makes logs loud, and the operator slow; anyone in a cluster can reach a pod's port. So only
//! the pod's own loopback is answered, which `kubectl port-forward` comes from: who may do that is said
//! by RBAC. A proxy beside the operator (a mesh's) that passes on from there is told by its headers.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Body;
use tokio::time::timeout;

use super::LogControl;

/// No filter is longer.
const LIMIT: usize = 4096;
/// How long a client may take to send one.
const PATIENCE: Duration = Duration::from_secs(5);
/// What proxies add to what they pass on.
const PASSED_ON: [&str; 4] = [
    "forwarded",
    "x-forwarded-for",
    "via",
    "x-envoy-external-address",
];

/// The status and the words for a request to `/debug/log` from `peer`.
pub(in crate::runtime) async fn answer<B>(
    control: Option<LogControl>,
    peer: IpAddr,
    request: Request<B>,
) -> (StatusCode, String)
where
    B: Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>,
{
    let Some(control) = control else {
        return (
            StatusCode::NOT_FOUND,
            "this process's log is fixed\n".to_owned(),
        );
    };
    let headers = request.headers();
    let passed_on = PASSED_ON.iter().any(|name| headers.contains_key(*name));
    if !peer.to_canonical().is_loopback() || passed_on {
        let why = "only from the pod itself: kubectl port-forward\n";
        return (StatusCode::FORBIDDEN, why.to_owned());
    }
    match *request.method() {
        Method::GET | Method::HEAD => (StatusCode::OK, control.filter() + "\n"),
        Method::PUT => {
            let body = Limited::new(request.into_body(), LIMIT).collect();
            let Ok(Ok(body)) = timeout(PATIENCE, body).await else {
                let why = format!("a filter of at most {LIMIT} bytes is wanted\n");
                return (StatusCode::BAD_REQUEST, why);
            };
            let bytes = body.to_bytes();
            let filter = String::from_utf8_lossy(&bytes);
            let filter = filter.trim();
            match control.set(filter) {
                Ok(()) => {
                    tracing::info!(filter, "the log filter was changed by request");
                    (StatusCode::OK, control.filter() + "\n")
                }
                Err(why) => (StatusCode::BAD_REQUEST, why + "\n"),
            }
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, "GET or PUT\n".to_owned()),
    }
}
