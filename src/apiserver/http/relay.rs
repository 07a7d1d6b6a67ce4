//! Requests that another server answers, with the faults of this one: for tests of what a client does
//! when the way to a real server is bad.
//!
//! What needs the state of the server can't be done to the answers of another: stale reads, bookmarks
//! that are left out or come in storms, answers packed without being asked for. Such rules do nothing
//! here.

use std::sync::Arc;

use futures_util::stream;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{Method, Response};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};

use super::asked;
use super::route::Route;
use super::suffer::{self, Blow};
use super::{Body, Control, body, damage, never, pods, query, stream as watches};
use crate::apiserver::audit::AuditEvent;
use crate::apiserver::auth::Caller;
use crate::apiserver::faults::{Fault, Subject};
use crate::apiserver::request::{PatchKind, Verb};
use crate::apiserver::state::method_not_allowed;
use crate::apiserver::{ApiError, ApiServer};
use crate::client::{Client, RawRequest};

/// Passes a request on, and its answer back; the answer streams.
pub(super) async fn relay(
    server: &ApiServer,
    upstream: &Client,
    control: &Arc<Control>,
    parts: &Parts,
    route: Option<Route>,
    incoming: Incoming,
) -> Result<Response<Body>, ApiError> {
    let Some(Route::Resource(target) | Route::Watch(target)) = route else {
        return pass_on(upstream, parts, incoming).await;
    };
    server.count_request();
    let verb = verb(parts, target.name.is_some()).ok_or_else(method_not_allowed)?;
    let caller = Caller::of(&parts.headers, &server.tokens())?;
    let resource = target.qualified();
    let namespace = target.namespace.as_deref().unwrap_or_default();
    let name = target.name.as_deref().unwrap_or_default();
    let faults = server.faults().decide(Subject {
        client: &caller.name,
        verb: verb.name(),
        resource: &resource,
        namespace,
        name,
    });
    let record = |code| {
        server.record(AuditEvent {
            sequence: 0,
            at: server.now(),
            client: caller.name.clone(),
            verb: verb.name(),
            resource: resource.clone(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            code,
            version: 0,
            wrote: verb.writes() && (200..300).contains(&code),
            faults: faults.iter().map(Fault::name).collect(),
        });
    };
    match suffer::before(&faults, verb, control).await {
        Some(Blow::Dropped) => {
            record(0);
            return never().await;
        }
        Some(Blow::Refused(error)) => {
            record(error.code);
            return Err(error);
        }
        None => {}
    }
    if verb == Verb::Watch && faults.contains(&Fault::Gone) {
        record(410);
        return Ok(asked::streamed(watches::failed(&suffer::gone())));
    }
    let outcome = pass_on(upstream, parts, incoming).await;
    record(match &outcome {
        Ok(response) => response.status().as_u16(),
        Err(error) => error.code,
    });
    suffer::after(server, &faults, control).await;
    let response = outcome?;
    if verb == Verb::Watch {
        return Ok(response.map(|body| damage::of_watch(body, &faults)));
    }
    let response = response.map(|body| damage::of_bytes(body, &faults));
    Ok(damage::shorten(response, &faults))
}

/// What a request for a resource asks for.
fn verb(parts: &Parts, named: bool) -> Option<Verb> {
    let mut pairs = query::pairs(parts.uri.query().unwrap_or_default());
    let watches = pairs.any(|(key, value)| key == "watch" && matches!(&*value, "1" | "true"));
    Some(match parts.method {
        Method::GET if watches => Verb::Watch,
        Method::GET | Method::HEAD if named => Verb::Get,
        Method::GET => Verb::List,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch(PatchKind::Merge),
        Method::DELETE if named => Verb::Delete,
        Method::DELETE => Verb::DeleteCollection,
        _ => return None,
    })
}

async fn pass_on(
    upstream: &Client,
    parts: &Parts,
    incoming: Incoming,
) -> Result<Response<Body>, ApiError> {
    let path = parts.uri.path_and_query();
    let headers = [ACCEPT, CONTENT_TYPE].into_iter().filter_map(|name| {
        let value = parts.headers.get(&name)?.clone();
        Some((name, value))
    });
    let request = RawRequest {
        method: parts.method.clone(),
        path_and_query: path.map_or("/", |path| path.as_str()).to_owned(),
        headers: headers.collect(),
        body: body::read(incoming).await?,
        deadline: None,
    };
    let answer = upstream.raw(request).await.map_err(|error| {
        let message = format!("error trying to reach the server: {error}");
        ApiError::new(503, "ServiceUnavailable", message)
    })?;
    let stream = stream::unfold(answer.body, |mut body| async move {
        let chunk = body.chunk().await?;
        Some((chunk.map(Frame::data).map_err(std::io::Error::other), body))
    });
    let mut response = Response::new(StreamBody::new(stream).boxed_unsync());
    *response.status_mut() = answer.status;
    *response.headers_mut() = pods::passed_on(&answer.headers);
    Ok(response)
}
