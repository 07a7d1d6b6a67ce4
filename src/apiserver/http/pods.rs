//! What reaches into pods: `proxy` and `log`; and what would: `exec`, `attach`, `portforward`.

use std::io;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_TYPE, HOST, HeaderName, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request as HttpRequest, Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;

use super::query;
use super::{Body, answer, full};
use crate::apiserver::request::Target;
use crate::apiserver::{ApiError, ApiServer, Cause, LogOptions};

/// Headers that are of one connection, not of the request.
const HOP_BY_HOP: [HeaderName; 8] = [
    CONNECTION,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
    HeaderName::from_static("keep-alive"),
];
/// Bytes of a log that are passed on at a time.
const CHUNK: usize = 16 << 10;

/// Whether a target is answered by a pod.
pub(super) fn reaches_pod(target: &Target) -> bool {
    target.group.is_empty()
        && target.resource == "pods"
        && matches!(
            target.subresource.as_deref(),
            Some("proxy" | "log" | "exec" | "attach" | "portforward")
        )
}

/// Answers a request that is for a pod.
pub(super) async fn reach(
    server: &ApiServer,
    target: &Target,
    parts: &Parts,
    body: Incoming,
) -> Result<Response<Body>, ApiError> {
    match target.subresource.as_deref() {
        Some("log") => log(server, target, parts.uri.query().unwrap_or_default()).await,
        Some("proxy") => proxy(server, target, parts, body).await,
        _ => Err(no_entry(server, target)),
    }
}

/// Nobody is let into a pod.
fn no_entry(server: &ApiServer, target: &Target) -> ApiError {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let name = target.name.as_deref().unwrap_or_default();
    match pod(server, namespace, name) {
        Ok(pod) if is_nowhere(&pod) => {
            ApiError::bad_request(format!("pod {name} does not have a host assigned"))
        }
        Ok(_) => ApiError::new(501, "", "this server lets nobody into a pod"),
        Err(error) => error,
    }
}

/// Whether a pod was not given to a node yet.
fn is_nowhere(pod: &Value) -> bool {
    pod["spec"]["nodeName"].as_str().is_none_or(str::is_empty)
}

/// Passes a request on to a pod, and its answer back; both stream.
async fn proxy(
    server: &ApiServer,
    target: &Target,
    parts: &Parts,
    body: Incoming,
) -> Result<Response<Body>, ApiError> {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let (tls, name, port) = place(target.name.as_deref().unwrap_or_default())?;
    let pod = pod(server, namespace, name)?;
    let port = match port {
        Some(port) => port,
        None => {
            first_port(&pod).ok_or_else(|| ApiError::bad_request("no port of the pod is named"))?
        }
    };
    let dialer = server
        .dialer()
        .ok_or_else(|| unreachable_pod(&"nobody runs pods here"))?;
    let stream = dialer
        .dial(namespace, name, port, tls)
        .await
        .map_err(|error| unreachable_pod(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| unreachable_pod(&error))?;
    // Ends with the answer's body.
    tokio::spawn(connection);
    let rest = target.rest.as_deref().unwrap_or("/");
    let uri = match parts.uri.query() {
        Some(query) => format!("{rest}?{query}"),
        None => rest.to_owned(),
    };
    let mut request = HttpRequest::builder()
        .method(parts.method.clone())
        .uri(uri)
        .body(body)
        .map_err(|error| ApiError::bad_request(error.to_string()))?;
    *request.headers_mut() = passed_on(&parts.headers);
    request.headers_mut().remove(AUTHORIZATION);
    if let Ok(host) = HeaderValue::from_str(&format!("{name}:{port}")) {
        request.headers_mut().insert(HOST, host);
    }
    let response = sender.send_request(request);
    // With it goes what a connection that ends just now may have left in its queue.
    drop(sender);
    let response = response.await.map_err(|error| unreachable_pod(&error))?;
    let (mut head, body) = response.into_parts();
    head.headers = passed_on(&head.headers);
    head.version = http::Version::default();
    Ok(Response::from_parts(
        head,
        body.map_err(io::Error::other).boxed_unsync(),
    ))
}

/// Streams a container's log.
async fn log(server: &ApiServer, target: &Target, query: &str) -> Result<Response<Body>, ApiError> {
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let name = target.name.as_deref().unwrap_or_default();
    let options = log_options(query, name)?;
    let pod = pod(server, namespace, name)?;
    let containers: Vec<&str> = ["initContainers", "containers"]
        .iter()
        .flat_map(|field| pod["spec"][field].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    match &options.container {
        Some(wanted) if !containers.contains(&wanted.as_str()) => {
            return Err(ApiError::bad_request(format!(
                "container {wanted} is not valid for pod {name}"
            )));
        }
        None if pod["spec"]["containers"]
            .as_array()
            .is_some_and(|all| all.len() > 1) =>
        {
            return Err(ApiError::bad_request(format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                containers.join(" ")
            )));
        }
        _ => {}
    }
    if is_nowhere(&pod) {
        // It has no log before it is anywhere.
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let dialer = server
        .dialer()
        .ok_or_else(|| unreachable_pod(&"nobody runs pods here"))?;
    let log = dialer
        .log(namespace, name, options)
        .await
        .map_err(|error| unreachable_pod(&error))?;
    let stream = stream::unfold(Some(log), |log| async move {
        let mut log = log?;
        let mut chunk = BytesMut::with_capacity(CHUNK);
        match log.read_buf(&mut chunk).await {
            Ok(0) => None,
            Ok(_) => Some((Ok(Frame::data(Bytes::from(chunk))), Some(log))),
            Err(error) => Some((Err(error), None)),
        }
    });
    let mut response = answer::text(200, "");
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response.map(|_| StreamBody::new(stream).boxed_unsync()))
}

/// What is asked of the log of pod `name`.
fn log_options(query: &str, name: &str) -> Result<LogOptions, ApiError> {
    let mut options = LogOptions::default();
    for (key, value) in query::pairs(query) {
        match &*key {
            "container" => options.container = Some(value.into_owned()),
            "follow" => options.follow = value == "true",
            "previous" => options.previous = value == "true",
            "timestamps" => options.timestamps = value == "true",
            "tailLines" => options.tail_lines = Some(tail_lines(&value, name)?),
            _ => {}
        }
    }
    Ok(options)
}

fn tail_lines(text: &str, name: &str) -> Result<u64, ApiError> {
    let number: i64 = text.parse().map_err(|_| {
        ApiError::bad_request(format!(
            "strconv.ParseInt: parsing {text:?}: invalid syntax"
        ))
    })?;
    u64::try_from(number).map_err(|_| {
        let why = "must be greater than or equal to 0";
        let cause = Cause::invalid("tailLines", &number.into(), why);
        ApiError::invalid("", "PodLogOptions", name, &[cause])
    })
}

/// `NAME`, `NAME:PORT` or `https:NAME:PORT`.
fn place(name: &str) -> Result<(bool, &str, Option<u16>), ApiError> {
    let refuse = || ApiError::bad_request(format!("invalid pod request {name:?}"));
    let parts: Vec<&str> = name.split(':').collect();
    let (scheme, name, port) = match parts.as_slice() {
        [name] => ("", *name, ""),
        [name, port] => ("", *name, *port),
        [scheme, name, port] => (*scheme, *name, *port),
        _ => return Err(refuse()),
    };
    let port = match port {
        "" => None,
        port => Some(port.parse().map_err(|_| refuse())?),
    };
    match scheme {
        "" | "http" => Ok((false, name, port)),
        "https" => Ok((true, name, port)),
        _ => Err(refuse()),
    }
}

fn pod(server: &ApiServer, namespace: &str, name: &str) -> Result<Value, ApiError> {
    let state = server.state();
    let entry = state
        .storage("pods")
        .and_then(|pods| pods.get(&format!("{namespace}/{name}")))
        .cloned();
    drop(state);
    entry
        .map(|entry| entry.value())
        .ok_or_else(|| ApiError::not_found("", "pods", name))
}

fn first_port(pod: &Value) -> Option<u16> {
    pod["spec"]["containers"]
        .as_array()?
        .iter()
        .flat_map(|container| container["ports"].as_array().into_iter().flatten())
        .find_map(|port| port["containerPort"].as_u64())
        .and_then(|port| u16::try_from(port).ok())
}

/// Headers but those of one connection.
pub(super) fn passed_on(headers: &HeaderMap) -> HeaderMap {
    let mut headers = headers.clone();
    for name in HOP_BY_HOP {
        headers.remove(name);
    }
    headers
}

fn unreachable_pod(problem: &dyn std::fmt::Display) -> ApiError {
    ApiError::new(
        503,
        "ServiceUnavailable",
        format!("error trying to reach service: {problem}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_named_with_scheme_and_port() {
        assert_eq!(place("a").unwrap(), (false, "a", None));
        assert_eq!(place("a:80").unwrap(), (false, "a", Some(80)));
        assert_eq!(place("https:a:8443").unwrap(), (true, "a", Some(8443)));
        assert!(place("ftp:a:1").is_err() && place("a:b").is_err());
    }
}
