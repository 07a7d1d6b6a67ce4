//! From a response to a value or a typed error.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Error;
use super::call::Subject;

/// Most of a text that is no Kubernetes Status that is quoted in a message.
const QUOTED: usize = 200;
/// Bytes shown on either side of the place where JSON stops making sense.
const SNIPPET: usize = 40;

/// The body of an error answer, and the object of a watch's ERROR event.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    kind: String,
    message: String,
    reason: String,
    code: u16,
    details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Details {
    retry_after_seconds: Option<u64>,
}

/// Why a body could not be read.
#[derive(Debug)]
pub(super) enum Cut {
    TooLarge,
    Broken(String),
}

/// The whole body, as long as it is no longer than `limit`. On failure also what came until then.
pub(super) async fn collect(mut body: Incoming, limit: usize) -> Result<Bytes, (Cut, Bytes)> {
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if expected > limit {
        return Err((Cut::TooLarge, Bytes::new()));
    }
    let mut whole = BytesMut::with_capacity(expected);
    while let Some(frame) = body.frame().await {
        match frame.map(http_body::Frame::into_data) {
            Ok(Ok(data)) if whole.len() + data.len() > limit => {
                whole.extend_from_slice(&data[..limit - whole.len()]);
                return Err((Cut::TooLarge, whole.freeze()));
            }
            Ok(Ok(data)) => whole.extend_from_slice(&data),
            Ok(Err(_trailers)) => {}
            Err(error) => return Err((Cut::Broken(error.to_string()), whole.freeze())),
        }
    }
    Ok(whole.freeze())
}

impl Status {
    /// Reads the body of an error answer. One that is no Status (a proxy's page, a cut one) is quoted
    /// as far as it is text.
    pub(super) fn from_body(body: &[u8]) -> Self {
        match serde_json::from_slice::<Self>(body) {
            Ok(status) if status.kind == "Status" => status,
            _ => Self {
                message: quoted(body),
                ..Self::default()
            },
        }
    }

    /// The HTTP status that the Status claims: watches send it inside a 200.
    pub(super) fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The wait that the Status asks for.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let seconds = self
            .details
            .as_ref()?
            .retry_after_seconds
            .filter(|seconds| *seconds > 0);
        seconds.map(Duration::from_secs)
    }

    /// The typed error of an answer `code` about `subject`.
    pub(super) fn into_error(
        self,
        subject: &Subject,
        code: StatusCode,
        retry_after: Option<Duration>,
    ) -> Error {
        let what = subject.what.clone();
        let message = if self.message.is_empty() {
            code.to_string()
        } else {
            self.message
        };
        if code == StatusCode::GONE || matches!(self.reason.as_str(), "Expired" | "Gone") {
            return Error::Gone { what };
        }
        match code.as_u16() {
            401 => Error::Unauthorized { what, message },
            403 => Error::Forbidden {
                verb: subject.verb.as_str(),
                resource: subject.resource.clone(),
                namespace: subject.namespace.clone(),
                message,
            },
            404 => Error::NotFound { what },
            409 if self.reason == "AlreadyExists" => Error::AlreadyExists { what },
            409 => Error::Conflict { what, message },
            429 => Error::TooManyRequests { what, retry_after },
            code @ 400..=499 => Error::Invalid {
                what,
                code,
                message,
            },
            code => Error::Unavailable {
                what,
                code: Some(code),
                unsent: false,
                message: if (300..=399).contains(&code) {
                    format!("{message}: redirects are not followed; is the server URL right?")
                } else {
                    message
                },
            },
        }
    }
}

/// Decodes the JSON of `body`.
///
/// # Errors
/// [`Error::Decode`] with what is known of the object and where it stops making sense. What a Secret
/// holds is not quoted.
pub(super) fn decode<T: DeserializeOwned>(subject: &Subject, body: &[u8]) -> Result<T, Error> {
    // Checked once: serde_json would otherwise check every string by itself.
    let problem = match std::str::from_utf8(body) {
        Ok(text) => match serde_json::from_str(text) {
            Ok(value) => return Ok(value),
            Err(error) => json_problem(subject, text, &error),
        },
        Err(error) => format!("not UTF-8 after byte {}", error.valid_up_to()),
    };
    Err(undecodable(subject, body, problem))
}

/// The error for a body that is not what it should be.
pub(super) fn undecodable(subject: &Subject, body: &[u8], message: String) -> Error {
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Slim {
        metadata: Metadata,
    }
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct Metadata {
        namespace: String,
        name: String,
        resource_version: String,
    }
    let metadata = serde_json::from_slice::<Slim>(body)
        .unwrap_or_default()
        .metadata;
    let key = match (metadata.namespace.as_str(), metadata.name.as_str()) {
        (_, "") => subject.key.clone(),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    };
    Error::Decode {
        what: subject.what.clone(),
        gvk: subject.gvk.clone(),
        key,
        resource_version: metadata.resource_version,
        message,
    }
}

fn json_problem(subject: &Subject, text: &str, error: &serde_json::Error) -> String {
    if !text.trim_start().starts_with(['{', '[']) {
        return format!("not JSON but {:?}", quoted(text.as_bytes()));
    }
    let offset = offset(text, error);
    if subject.is_secret() {
        return format!("at byte {offset} (a Secret is not quoted)");
    }
    let from = text.floor_char_boundary(offset.saturating_sub(SNIPPET));
    let to = text.ceil_char_boundary((offset + SNIPPET).min(text.len()));
    format!("{error}, at byte {offset}: {:?}", &text[from..to])
}

/// Byte offset of serde_json's line and column (both from 1).
fn offset(text: &str, error: &serde_json::Error) -> usize {
    let lines = text
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1));
    let before: usize = lines.map(str::len).sum();
    (before + error.column().saturating_sub(1)).min(text.len())
}

/// The beginning of a body, on one line.
fn quoted(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * QUOTED)]);
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(QUOTED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::call::Verb;
    use crate::client::{POD, SECRET};

    fn error(code: u16, body: &str) -> Error {
        let subject = Subject::object(Verb::Get, POD, Some("ns"), "a", None);
        let code = StatusCode::from_u16(code).unwrap();
        Status::from_body(body.as_bytes()).into_error(&subject, code, None)
    }

    #[test]
    fn a_status_becomes_the_error_that_a_caller_can_act_on() {
        let status = |reason: &str| {
            format!(r#"{{"kind":"Status","apiVersion":"v1","reason":"{reason}","message":"why"}}"#)
        };
        assert!(matches!(
            error(404, &status("NotFound")),
            Error::NotFound { .. }
        ));
        assert!(matches!(
            error(409, &status("AlreadyExists")),
            Error::AlreadyExists { .. }
        ));
        assert!(error(409, &status("Conflict")).is_conflict());
        assert!(matches!(
            error(422, &status("Invalid")),
            Error::Invalid { code: 422, .. }
        ));
        assert!(matches!(error(413, ""), Error::Invalid { .. }));
        assert!(error(429, "").is_transient());
        assert!(error(500, &status("InternalError")).is_transient());
        assert_eq!(error(404, "").to_string(), "get pods ns/a not found");
    }

    #[test]
    fn k1042_gone_is_recognised_by_code_and_by_reason() {
        for (code, reason) in [(410, ""), (410, "Gone"), (400, "Expired"), (500, "Gone")] {
            let body = format!(r#"{{"kind":"Status","reason":"{reason}"}}"#);
            assert!(
                matches!(error(code, &body), Error::Gone { .. }),
                "{code} {reason}"
            );
        }
    }

    #[test]
    fn cr550_forbidden_names_verb_resource_and_namespace() {
        let forbidden = error(403, r#"{"kind":"Status","message":"no RBAC"}"#).to_string();
        assert_eq!(forbidden, "not allowed to get pods in ns: no RBAC");
    }

    #[test]
    fn a_body_that_is_no_status_is_quoted_shortly() {
        let page = format!("<html>\n  <h1>Bad   Gateway</h1>{}", "x".repeat(10_000));
        let message = error(502, &page).to_string();
        assert!(message.contains("<html> <h1>Bad Gateway</h1>"), "{message}");
        assert!(message.len() < 400, "{message}");
        assert!(
            error(302, "")
                .to_string()
                .contains("is the server URL right?")
        );
        assert!(error(503, r#"{"kind":"Sta"#).is_transient(), "cut off");
    }

    #[test]
    fn k2061_an_undecodable_object_is_named_with_place_and_version() {
        #[derive(Debug, Deserialize)]
        struct Typed {
            #[expect(dead_code, reason = "only decoded")]
            spec: u8,
        }
        let subject = Subject::object(Verb::Get, POD, Some("ns"), "a", None);
        let body =
            br#"{"metadata":{"name":"a","namespace":"ns","resourceVersion":"7"},"spec":"x"}"#;
        let error = decode::<Typed>(&subject, body).unwrap_err().to_string();
        for part in [
            "v1 Pod ns/a",
            "resource version 7",
            "expected u8",
            "at byte",
            r#"\"spec\":"#,
        ] {
            assert!(error.contains(part), "{error}");
        }
        let html = decode::<Typed>(&subject, b"<html>sign in</html>")
            .unwrap_err()
            .to_string();
        assert!(
            html.contains("not JSON but \"<html>sign in</html>\""),
            "{html}"
        );
        let latin1 = decode::<Typed>(&subject, b"{\"spec\":\"\xe9\"}")
            .unwrap_err()
            .to_string();
        assert!(latin1.contains("not UTF-8 after byte 9"), "{latin1}");

        let subject = Subject::object(Verb::Get, SECRET, Some("ns"), "a", None);
        let secret = decode::<Typed>(&subject, br#"{"spec":"hunter2"}"#)
            .unwrap_err()
            .to_string();
        assert!(!secret.contains("hunter2"), "{secret}");
    }
}
