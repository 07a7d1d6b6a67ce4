//! Documents about the API itself: discovery, OpenAPI.

use std::sync::Arc;

use http::header::{ACCEPT, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::Value;

use super::accept::Media;
use super::{Body, answer, full};
use crate::apiserver::openapi::{self, Described};
use crate::apiserver::state::Served;
use crate::apiserver::{ApiError, ApiServer, ResourceInfo, discovery};

/// Answers a path below `/api`, `/apis` or `/openapi`.
pub(super) fn document(
    server: &ApiServer,
    path: &str,
    headers: &HeaderMap,
    media: Media,
) -> Result<Response<Body>, ApiError> {
    let all: Vec<Arc<Served>> = server.state().resources().cloned().collect();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if let ["openapi", version, rest @ ..] = parts.as_slice() {
        return open_api(&all, version, rest, headers);
    }
    let resources: Vec<&ResourceInfo> = all.iter().map(|served| &served.info).collect();
    if media.aggregated && matches!(parts.as_slice(), ["api" | "apis"]) {
        let value = discovery::aggregated(&resources, parts[0] == "api");
        return Ok(tagged(&value, discovery::AGGREGATED, headers));
    }
    let value = match parts.as_slice() {
        [] => Some(root(&resources)),
        ["api"] => Some(discovery::versions(address(headers))),
        ["apis"] => Some(discovery::groups(&resources)),
        ["api", version] => discovery::resources(&resources, "", version),
        ["apis", group] => discovery::group(&resources, group),
        ["apis", group, version] => discovery::resources(&resources, group, version),
        _ => None,
    };
    let value = value.ok_or_else(ApiError::no_such_path)?;
    Ok(answer::value(200, &value, media))
}

/// `/openapi/v3` and what is below it.
fn open_api(
    all: &[Arc<Served>],
    version: &str,
    rest: &[&str],
    headers: &HeaderMap,
) -> Result<Response<Body>, ApiError> {
    let described: Vec<Described<'_>> = all
        .iter()
        .map(|served| Described {
            info: &served.info,
            schema: served.custom.as_ref().map(|custom| &custom.raw_schema),
        })
        .collect();
    let (value, content_type) = match (version, rest) {
        // An empty document is empty in protobuf, too, which kubectl asks for.
        ("v2", []) if asks_for(headers, SECOND) => return Ok(answer::bytes(200, SECOND, "")),
        ("v2", []) => (Some(openapi::second()), "application/json"),
        // Real servers write the index as a plain file.
        ("v3", []) => (
            Some(openapi::index(&described)),
            "text/plain; charset=utf-8",
        ),
        ("v3", ["api", version]) => (
            openapi::document(&described, "", version),
            "application/json",
        ),
        ("v3", ["apis", group, version]) => (
            openapi::document(&described, group, version),
            "application/json",
        ),
        _ => (None, ""),
    };
    match (value, rest) {
        (Some(value), _) => Ok(tagged(&value, content_type, headers)),
        (None, []) => Err(ApiError::no_such_path()),
        // A real server has nothing to say of it.
        (None, _) => {
            let mut response = Response::new(full(""));
            *response.status_mut() = StatusCode::NOT_FOUND;
            Ok(response)
        }
    }
}

/// The document of version 2 in protobuf, as kubectl asks for it but for an `@`.
const SECOND: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

fn asks_for(headers: &HeaderMap, media: &str) -> bool {
    headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.replace('@', ".").starts_with(media))
}

fn address(headers: &HeaderMap) -> &str {
    headers
        .get(http::header::HOST)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

fn root(resources: &[&ResourceInfo]) -> Value {
    let mut paths: Vec<String> = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for info in resources.iter().filter(|info| !info.group.is_empty()) {
        paths.push(format!("/apis/{}", info.group));
        paths.push(format!("/apis/{}/{}", info.group, info.version));
    }
    paths.extend(
        [
            "/healthz",
            "/livez",
            "/openapi/v2",
            "/openapi/v3",
            "/readyz",
            "/version",
        ]
        .map(str::to_owned),
    );
    paths.sort();
    paths.dedup();
    serde_json::json!({ "paths": paths })
}

/// A document with its `ETag`; 304 to whoever has it.
fn tagged(value: &Value, content_type: &str, headers: &HeaderMap) -> Response<Body> {
    let body = value.to_string();
    let tag = discovery::etag(body.as_bytes());
    let known = headers
        .get(IF_NONE_MATCH)
        .and_then(|value| value.to_str().ok())
        == Some(tag.as_str());
    let mut response = if known {
        let mut response = Response::new(full(""));
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        answer::bytes(200, content_type, body)
    };
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(ETAG, tag);
    }
    response
}
