//! From a response to a value or a typed error.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Error;
use super::call::Subject;
use super::retry::RETRY_AFTER_CAP;

/// Most of a text that is no Kubernetes Status that is quoted in a message.
const QUOTED: usize = 200;
/// Most of a server's or the parser's words in a message: room for what an admission webhook has to
/// say, not for what a broken server may.
const WORDS: usize = 1000;
/// Most of a name or a version: Kubernetes' own are at most 253 characters.
const NAME: usize = 253;
/// Bytes shown on either side of the place where JSON stops making sense.
const SNIPPET: usize = 40;

/// The body of an error answer, and the object of a watch's ERROR event. A field of another type than
/// it should be is as good as none: the others still tell what happened.
#[derive(Debug, Default)]
pub(super) struct Status {
    message: String,
    reason: String,
    code: Option<StatusCode>,
    retry_after: Option<Duration>,
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
        match serde_json::from_slice::<Value>(body) {
            Ok(status) if status["kind"] == "Status" => Self::from_json(&status),
            _ => Self {
                message: quoted(body),
                ..Self::default()
            },
        }
    }

    /// Reads what is meant to be a Status.
    pub(super) fn from_json(status: &Value) -> Self {
        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
        let code = status["code"]
            .as_u64()
            .and_then(|code| code.try_into().ok());
        let seconds = status["details"]["retryAfterSeconds"].as_u64();
        let seconds = seconds.filter(|seconds| *seconds > 0);
        Self {
            message: text("message"),
            reason: text("reason"),
            code: code.and_then(|code: u16| StatusCode::from_u16(code).ok()),
            retry_after: seconds.map(|wait| Duration::from_secs(wait).min(RETRY_AFTER_CAP)),
        }
    }

    /// The HTTP status that the Status claims: watches send it inside a 200.
    pub(super) fn code(&self) -> StatusCode {
        self.code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The wait that the Status asks for, capped like the header's.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        self.retry_after
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
            shortened(&self.message, WORDS)
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
    Err(undecodable(subject, body, &problem))
}

/// The error for a body that is not what it should be.
pub(super) fn undecodable(subject: &Subject, body: &[u8], message: &str) -> Error {
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
        key: shortened(&key, 2 * NAME),
        resource_version: shortened(&metadata.resource_version, NAME),
        message: shortened(message, WORDS),
    }
}

/// `text`, or its beginning where it is longer than `most` characters.
pub(super) fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}…", &text[..end]),
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
    fn a_status_with_a_field_of_the_wrong_type_still_says_the_rest() {
        let odd = r#"{"kind":"Status","reason":"Expired","message":7,"code":"x","details":[]}"#;
        assert!(matches!(error(400, odd), Error::Gone { .. }));
        for (seconds, wait) in [("-1", None), ("0", None), ("7", Some(7)), ("1e99", None)] {
            let body = format!(
                r#"{{"kind":"Status","code":429,"details":{{"retryAfterSeconds":{seconds}}}}}"#
            );
            let told = Status::from_body(body.as_bytes()).retry_after();
            assert_eq!(told, wait.map(Duration::from_secs), "{seconds}");
        }
        let ages = format!(
            r#"{{"kind":"Status","details":{{"retryAfterSeconds":{}}}}}"#,
            u64::MAX
        );
        let told = Status::from_body(ages.as_bytes()).retry_after();
        assert_eq!(
            told,
            Some(RETRY_AFTER_CAP),
            "the caller may add it to a time"
        );
    }

    #[test]
    fn however_much_a_server_says_a_message_stays_short() {
        let body = format!(r#"{{"kind":"Status","message":"{}"}}"#, "é".repeat(100_000));
        assert!(error(422, &body).to_string().len() < 3 * WORDS);
        let subject = Subject::object(Verb::Get, POD, Some("ns"), "a", None);
        let long = "é".repeat(100_000);
        let body = format!(r#"{{"metadata":{{"name":"{long}","resourceVersion":"{long}"}}}}"#);
        let error = decode::<Vec<u8>>(&subject, body.as_bytes()).unwrap_err();
        assert!(error.to_string().len() < 5000, "{error}");
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
