//! Bodies of requests.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::json;
use crate::apiserver::request::PatchKind;
use crate::apiserver::{ApiError, protobuf};

/// Largest body of a request, as a real server has it.
const LIMIT: usize = 3 << 20;

/// Reads a whole body.
///
/// # Errors
/// 413 for one that is too large, 400 for one that breaks off.
pub(super) async fn read(mut body: Incoming) -> Result<Bytes, ApiError> {
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame
            .map_err(|error| ApiError::bad_request(format!("unable to read the body: {error}")))?;
        if let Ok(data) = frame.into_data() {
            if bytes.len() + data.len() > LIMIT {
                return Err(ApiError::new(
                    413,
                    "RequestEntityTooLarge",
                    format!("Request entity too large: limit is {LIMIT}"),
                ));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim()
}

fn unsupported(accepted: &str) -> ApiError {
    ApiError::new(
        415,
        "UnsupportedMediaType",
        format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}"
        ),
    )
}

/// Which kind of patch a request brings.
///
/// # Errors
/// 415 for none that is known, or that a custom resource does not have.
pub(super) fn patch_kind(headers: &HeaderMap, custom: bool) -> Result<PatchKind, ApiError> {
    match content_type(headers) {
        "application/json-patch+json" => Ok(PatchKind::Json),
        "application/merge-patch+json" => Ok(PatchKind::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(PatchKind::Strategic),
        "application/apply-patch+yaml" => Ok(PatchKind::Apply),
        _ if custom => Err(unsupported(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => Err(ApiError {
            details: json!({}),
            ..ApiError::new(415, "UnsupportedMediaType", "415: Unsupported Media Type")
        }),
    }
}

/// Checks that a body is in a language that is spoken here.
///
/// # Errors
/// 415 otherwise.
pub(super) fn check_language(headers: &HeaderMap) -> Result<(), ApiError> {
    match content_type(headers) {
        "" | "application/json" | "application/yaml" | protobuf::MEDIA_TYPE => Ok(()),
        _ => Err(unsupported(
            "application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Parses a body: JSON, YAML or protobuf. Also gives the fields that it names twice.
///
/// # Errors
/// 400 for what is neither.
pub(super) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    let text = bytes.trim_ascii_start();
    if text.is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    if bytes.starts_with(b"k8s\0") {
        return protobuf::decode(bytes).map(|value| (value, Vec::new()));
    }
    if matches!(text[0], b'{' | b'[') {
        match json::parse(text) {
            Ok(parsed) => return Ok(parsed),
            // Flow-style YAML begins so too.
            Err(error) => {
                return serde_yaml::from_slice(text)
                    .map(|value| (value, Vec::new()))
                    .map_err(|_| {
                        ApiError::bad_request(format!(
                            "couldn't get version/kind; json parse error: {error}"
                        ))
                    });
            }
        }
    }
    serde_yaml::from_slice(bytes)
        .map(|value| (value, Vec::new()))
        .map_err(|error| ApiError::bad_request(format!("error converting YAML to JSON: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn bodies_are_json_or_yaml() {
        assert_eq!(parse(b" {\"a\": 1}").unwrap().0, json!({"a": 1}));
        assert_eq!(parse(b"a: [1, b]").unwrap().0, json!({"a": [1, "b"]}));
        assert_eq!(parse(b"").unwrap().0, Value::Null);
        assert_eq!(parse(b"{\"a\": 1").unwrap_err().code, 400);
    }

    #[test]
    fn custom_resources_have_no_strategic_merge() {
        let mut headers = HeaderMap::new();
        headers.insert(
            CONTENT_TYPE,
            "application/strategic-merge-patch+json".parse().unwrap(),
        );
        assert_eq!(patch_kind(&headers, false).unwrap(), PatchKind::Strategic);
        assert_eq!(patch_kind(&headers, true).unwrap_err().code, 415);
        headers.insert(CONTENT_TYPE, "application/cbor".parse().unwrap());
        assert_eq!(check_language(&headers).unwrap_err().code, 415);
    }
}
