//! Bodies of requests.

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::json;
use crate::apiserver::request::{PatchKind, Request, Verb};
use crate::apiserver::{ApiError, ApiServer, patch, protobuf};

/// What a body in protobuf begins with.
const PROTOBUF: &[u8] = b"k8s\0";
/// Bytes of a body that are repeated where it is not understood.
const SUMMARY: usize = 30;
/// What a real server says where it can't tell the type of a body.
const NO_TYPE: &str = "couldn't get version/kind; json parse error";
/// What it tells the type by.
const TYPE: &str = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
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

/// Parses the body of a write. Also gives the fields that it names twice.
///
/// # Errors
/// 400 for what is not understood, in the words that a real server has for such a request.
pub(super) fn understand(
    server: &ApiServer,
    request: &Request,
    headers: &HeaderMap,
    bytes: &[u8],
) -> Result<(Value, Vec<String>), ApiError> {
    let main = request.target.subresource.is_none();
    match request.verb {
        Verb::Create | Verb::Update if bytes.is_empty() && !main => Ok((Value::Null, Vec::new())),
        Verb::Patch(PatchKind::Apply) => parse(bytes).map_err(|error| ApiError {
            message: format!("error decoding patch: {}", error.message),
            ..error
        }),
        Verb::Patch(_) | Verb::Delete | Verb::DeleteCollection if bytes.is_empty() => {
            Ok((Value::Null, Vec::new()))
        }
        Verb::Patch(_) => {
            json::parse(bytes).map_err(|_| ApiError::bad_request("invalid JSON patch"))
        }
        _ if bytes.starts_with(PROTOBUF) || content_type(headers) == "application/yaml" => {
            parse(bytes)
        }
        Verb::Delete | Verb::DeleteCollection => json::parse(bytes).map_err(|error| {
            let why = json::go_error(bytes, &error);
            ApiError::bad_request(format!("{NO_TYPE}: {why}"))
        }),
        _ => object(bytes).or_else(|why| Err(unrecognized(server, request, bytes, &why)?)),
    }
}

/// An object in JSON; null stands for an empty one.
fn object(bytes: &[u8]) -> Result<(Value, Vec<String>), String> {
    let parsed = json::parse(bytes).map_err(|error| json::go_error(bytes, &error))?;
    match &parsed.0 {
        Value::Object(_) | Value::Null => Ok(parsed),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type {TYPE}",
            patch::go_kind(other)
        )),
    }
}

/// What is said of a body that is no object.
fn unrecognized(
    server: &ApiServer,
    request: &Request,
    bytes: &[u8],
    why: &str,
) -> Result<ApiError, ApiError> {
    let target = &request.target;
    let state = server.state();
    let served = state
        .find(&target.group, &target.version, &target.resource)
        .ok_or_else(ApiError::no_such_path)?;
    Ok(ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): {NO_TYPE}: {why} ({})",
        served.info.kind,
        summary(bytes)
    )))
}

/// The beginning of a body: as it is, or in hexadecimal where it does not look like JSON.
fn summary(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SUMMARY)];
    let rest = if bytes.len() > SUMMARY { " ..." } else { "" };
    match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{rest}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits = shown.iter().map(|byte| format!("{byte:02x}"));
            format!("{}{rest}", digits.collect::<String>())
        }
    }
}

/// Parses JSON, YAML or protobuf, whichever it is. Also gives the fields that it names twice.
///
/// # Errors
/// 400 for what is neither.
pub(super) fn parse(bytes: &[u8]) -> Result<(Value, Vec<String>), ApiError> {
    if bytes.starts_with(PROTOBUF) {
        return protobuf::decode(bytes).map(|value| (value, Vec::new()));
    }
    let text = bytes.trim_ascii_start();
    if text.is_empty() {
        return Ok((Value::Null, Vec::new()));
    }
    // Flow-style YAML may begin so, too.
    if matches!(text[0], b'{' | b'[')
        && let Ok(parsed) = json::parse(text)
    {
        return Ok(parsed);
    }
    serde_yaml::from_slice(bytes)
        .map(|value| (value, Vec::new()))
        .map_err(|error| {
            let why = yaml_error(&error.to_string());
            ApiError::bad_request(format!("error converting YAML to JSON: {why}"))
        })
}

/// What is wrong with a YAML document, as Go's parser puts it: the line comes first, and its count
/// begins with nought, which is not said.
fn yaml_error(text: &str) -> String {
    let Some((what, place)) = text.split_once(" at line ") else {
        return format!("yaml: {text}");
    };
    let line: String = place.chars().take_while(char::is_ascii_digit).collect();
    match line.parse::<u64>().unwrap_or(1) {
        1 => format!("yaml: {what}"),
        line => format!("yaml: line {}: {what}", line - 1),
    }
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
    fn what_is_no_object_is_shown() {
        assert_eq!(object(b"null").unwrap().0, Value::Null);
        let why = object(b"[1]").unwrap_err();
        assert!(why.starts_with("json: cannot unmarshal array into Go value"));
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"{}"), "{}");
        assert_eq!(summary(b"[]"), "5b5d");
        let long = format!("{{{}", "x".repeat(40));
        assert_eq!(
            summary(long.as_bytes()),
            format!("{{{} ...", "x".repeat(29))
        );
        assert_eq!(
            parse(b"{a: 1\n").unwrap_err().message,
            "error converting YAML to JSON: yaml: line 1: did not find expected ',' or '}'"
        );
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
