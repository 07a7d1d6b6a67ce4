//! One request: what it is for, and who answers it.

use std::sync::Arc;

use http::request::Parts;
use http::{Method, Request as HttpRequest, Response};
use hyper::body::Incoming;

use super::accept::Media;
use super::asked::Asked;
use super::route::{self, Route};
use super::{Body, Control, admin, answer, body, document, relay};
use crate::apiserver::auth::Caller;
use crate::apiserver::state::method_not_allowed;
use crate::apiserver::{ApiError, ApiServer};

/// Answers a request.
pub(super) async fn respond(
    server: ApiServer,
    control: Arc<Control>,
    request: HttpRequest<Incoming>,
) -> Response<Body> {
    let (parts, incoming) = request.into_parts();
    match route::route(parts.uri.path()) {
        Some(Route::Faults(path)) => administer(&server, &parts, &path, incoming).await,
        route => {
            server.faults().thawed().await;
            routed(&server, &control, &parts, route, incoming).await
        }
    }
    .unwrap_or_else(|error| refuse(&server, &parts, &error))
}

/// A failure. Paths of which nobody knows anything are answered in plain text, as in a real server.
fn refuse(server: &ApiServer, parts: &Parts, error: &ApiError) -> Response<Body> {
    if *error == ApiError::no_such_path() && !is_ours(server, parts.uri.path()) {
        return answer::text(404, "404 page not found\n");
    }
    let media = Media::negotiate(&parts.headers).unwrap_or(Media::JSON);
    answer::failure(error, media)
}

/// Whether a path is below `/api` or a group of built-in resources.
fn is_ours(server: &ApiServer, path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next()) {
        (Some("api"), _) => true,
        (Some("apis"), Some(group)) => {
            let state = server.state();
            state
                .resources()
                .any(|served| served.custom.is_none() && served.info.group == group)
        }
        _ => false,
    }
}

async fn administer(
    server: &ApiServer,
    parts: &Parts,
    path: &[String],
    incoming: Incoming,
) -> Result<Response<Body>, ApiError> {
    let (value, _) = body::parse(&body::read(incoming).await?)?;
    admin::faults(server, &parts.method, path, &value)
}

async fn routed(
    server: &ApiServer,
    control: &Arc<Control>,
    parts: &Parts,
    route: Option<Route>,
    incoming: Incoming,
) -> Result<Response<Body>, ApiError> {
    if let Some(upstream) = &server.options().upstream {
        return relay::relay(server, upstream, control, parts, route, incoming).await;
    }
    let caller = Caller::of(&parts.headers, &server.tokens())?;
    let path = parts.uri.path();
    let route = route.ok_or_else(ApiError::no_such_path)?;
    let (target, watched) = match route {
        Route::Resource(target) => (target, false),
        Route::Watch(target) => (target, true),
        document => {
            caller.may_read(path)?;
            if parts.method != Method::GET {
                return Err(method_not_allowed());
            }
            return read(server, parts, &document);
        }
    };
    server.count_request();
    let asked = Asked::new(server, &caller, parts, target, watched)?;
    asked.answer(server, control, parts, incoming).await
}

/// Answers what is no resource.
fn read(server: &ApiServer, parts: &Parts, route: &Route) -> Result<Response<Body>, ApiError> {
    match route {
        Route::Health(name) => {
            let query = parts.uri.query();
            let verbose = query.is_some_and(|query| query.contains("verbose"));
            let text = if verbose {
                format!("[+]ping ok\n{name} check passed\n")
            } else {
                "ok".to_owned()
            };
            Ok(answer::text(200, text))
        }
        Route::Version => Ok(answer::value(200, &server.options().version, Media::JSON)),
        Route::Metrics => Ok(answer::text(200, metrics(server))),
        Route::Document => {
            let path = parts.uri.path();
            // OpenAPI has languages of its own, which clients may ask for; it is JSON nevertheless.
            let media = match Media::negotiate(&parts.headers) {
                Err(error) if !path.starts_with("/openapi") => return Err(error),
                media => media.unwrap_or(Media::JSON),
            };
            document::document(server, path, &parts.headers, media)
        }
        Route::Faults(_) | Route::Resource(_) | Route::Watch(_) => Err(ApiError::no_such_path()),
    }
}

/// Counters as Prometheus reads them.
fn metrics(server: &ApiServer) -> String {
    let mut text = format!(
        "# TYPE apiserver_request_total counter\napiserver_request_total {}\n\
         # TYPE apiserver_writes_total counter\napiserver_writes_total {}\n\
         # TYPE apiserver_resource_version gauge\napiserver_resource_version {}\n\
         # TYPE apiserver_resource_objects gauge\n",
        server.request_count(),
        server.write_count(),
        server.resource_version(),
    );
    for (resource, (count, _)) in server.sizes() {
        text.push_str(&format!(
            "apiserver_resource_objects{{resource=\"{resource}\"}} {count}\n"
        ));
    }
    text
}
