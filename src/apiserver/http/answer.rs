//! Answers: values and failures as HTTP responses.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER, VARY, WARNING};
use http::{HeaderValue, Response, StatusCode};
use serde_json::Value;

use super::accept::Media;
use super::{Body, full};
use crate::apiserver::ApiError;

/// Answers smaller than this are not compressed, as in a real server.
const GZIP_FLOOR: usize = 128 << 10;

/// Pause before a connection breaks on purpose, in which what was written before gets out.
pub(super) const FLUSH_PAUSE: Duration = Duration::from_millis(10);

/// Whether an answer is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gzip {
    No,
    /// Where it is large.
    Large,
    /// In any case.
    Always,
}

/// A response with this body.
pub(super) fn bytes(code: u16, content_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body));
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(content_type) {
        headers.insert(CONTENT_TYPE, value);
    }
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Plain text.
pub(super) fn text(code: u16, body: impl Into<String>) -> Response<Body> {
    bytes(code, "text/plain; charset=utf-8", body.into())
}

/// A JSON (or YAML) document.
pub(super) fn document(code: u16, json: Vec<u8>, media: Media, gzip: Gzip) -> Response<Body> {
    if media.yaml
        && let Ok(value) = serde_json::from_slice::<Value>(&json)
        && let Ok(yaml) = serde_yaml::to_string(&value)
    {
        return compressed(code, "application/yaml", yaml.into_bytes(), gzip);
    }
    compressed(code, "application/json", json, gzip)
}

/// A body, compressed where that is wanted.
pub(super) fn compressed(
    code: u16,
    content_type: &str,
    body: Vec<u8>,
    gzip: Gzip,
) -> Response<Body> {
    let compress = match gzip {
        Gzip::No => false,
        Gzip::Large => body.len() >= GZIP_FLOOR,
        Gzip::Always => true,
    };
    if !compress {
        return bytes(code, content_type, body);
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = encoder.write_all(&body).and_then(|()| encoder.finish());
    match packed {
        Ok(packed) => {
            let mut response = bytes(code, content_type, packed);
            response
                .headers_mut()
                .insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            response
                .headers_mut()
                .insert(VARY, HeaderValue::from_static("Accept-Encoding"));
            response
        }
        Err(_) => bytes(code, content_type, body),
    }
}

/// A JSON value.
pub(super) fn value(code: u16, value: &Value, media: Media) -> Response<Body> {
    document(code, value.to_string().into_bytes(), media, Gzip::No)
}

/// A failure as a `Status`.
pub(super) fn failure(error: &ApiError, media: Media) -> Response<Body> {
    let mut response = value(error.code, &error.status(), media);
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// Adds `Warning` headers.
pub(super) fn warn(response: &mut Response<Body>, warnings: &[String]) {
    for warning in warnings {
        let quoted = warning.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
