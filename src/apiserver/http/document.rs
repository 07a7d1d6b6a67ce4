//! Documents about the API itself: discovery, OpenAPI.

use http::header::{ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use serde_json::Value;

use super::accept::Media;
use super::{Body, answer, full};
use crate::apiserver::{ApiError, ApiServer, ResourceInfo, discovery};

/// Answers a path below `/api`, `/apis` or `/openapi`.
pub(super) fn document(
    server: &ApiServer,
    path: &str,
    headers: &HeaderMap,
    media: Media,
) -> Result<Response<Body>, ApiError> {
    let resources: Vec<ResourceInfo> = {
        let state = server.state();
        state
            .resources()
            .map(|served| served.info.clone())
            .collect()
    };
    let resources: Vec<&ResourceInfo> = resources.iter().collect();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    if media.aggregated && matches!(parts.as_slice(), ["api" | "apis"]) {
        let value = discovery::aggregated(&resources, parts[0] == "api");
        return Ok(tagged(&value, discovery::AGGREGATED, headers));
    }
    let value = match parts.as_slice() {
        [] => root(&resources),
        ["api"] => discovery::versions(address(headers)),
        ["apis"] => discovery::groups(&resources),
        ["api", version] => {
            discovery::resources(&resources, "", version).ok_or_else(ApiError::no_such_path)?
        }
        ["apis", group] => {
            discovery::group(&resources, group).ok_or_else(ApiError::no_such_path)?
        }
        ["apis", group, version] => {
            discovery::resources(&resources, group, version).ok_or_else(ApiError::no_such_path)?
        }
        _ => return Err(ApiError::no_such_path()),
    };
    Ok(answer::value(200, &value, media))
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
