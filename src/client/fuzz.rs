//! The decoders of what comes from outside, as functions of bytes: what `tests/fuzz` throws bytes at.
//! They promise that nothing panics, that no message is long, and that nobody can be told to wait
//! longer than the cap. Compiled for fuzzing and for the tests of its seeds, never into the operator.

use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;

use super::answer::{Status, decode};
use super::call::{Subject, Verb};
use super::frame::Cutter;
use super::retry::{self, RETRY_AFTER_CAP};
use super::verbs::page;
use super::{Error, POD, SECRET, WatchFrame};

/// No message is longer than this, whatever it quotes.
const LONGEST_MESSAGE: usize = 4096;

/// The body of an answer, and its `Retry-After`: the first byte says what it is read as.
///
/// # Panics
/// When a promise is broken.
pub fn response(bytes: &[u8]) {
    let Some((kind, body)) = bytes.split_first() else {
        return;
    };
    match kind % 5 {
        0 => short(decode::<Value>(&object(POD), body)),
        1 => short(decode::<k8s_openapi::api::core::v1::Pod>(
            &object(POD),
            body,
        )),
        2 => short(page::<Value>(
            &Subject::collection(Verb::List, POD, None),
            body,
        )),
        3 => {
            for code in [
                200, 302, 400, 401, 403, 404, 409, 410, 413, 422, 429, 500, 503,
            ] {
                let status = Status::from_body(body);
                let (told, code) = (status.retry_after(), StatusCode::from_u16(code));
                let code = code.expect("a status");
                check(&status.into_error(&object(SECRET), code, told));
            }
        }
        _ => {
            if let Ok(value) = HeaderValue::from_bytes(body) {
                let headers = HeaderMap::from_iter([(header::RETRY_AFTER, value)]);
                let wait = retry::retry_after(&headers, Timestamp::UNIX_EPOCH);
                assert!(wait.unwrap_or_default() <= RETRY_AFTER_CAP, "{wait:?}");
            }
        }
    }
}

/// The body of a watch, in chunks as long as the first byte says: however it is cut, the same frames
/// come out.
///
/// # Panics
/// When a promise is broken.
pub fn watch(bytes: &[u8]) {
    let Some((size, body)) = bytes.split_first() else {
        return;
    };
    let cut = frames(body.chunks(usize::from(*size).max(1)));
    assert_eq!(cut, frames([body].into_iter()), "it depends on the cuts");
}

fn frames<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut cutter = Cutter::new(Subject::collection(Verb::Watch, POD, None), 1 << 16);
    let mut seen = Vec::new();
    for chunk in chunks {
        cutter.push(chunk);
        while let Some(frame) = cutter.take::<Value>() {
            match &frame {
                Ok(WatchFrame::Error(error)) => check(error),
                Ok(_) => {}
                Err(error) => {
                    check(error);
                    seen.push(format!("{frame:?}"));
                    return seen;
                }
            }
            seen.push(format!("{frame:?}"));
        }
    }
    seen
}

/// A kubeconfig, with all its contexts; or what a credential plugin printed.
///
/// # Panics
/// When a promise is broken.
pub fn kubeconfig(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for problem in super::config::fuzz(text) {
        assert!(problem.len() <= LONGEST_MESSAGE + 3 * text.len());
    }
    super::credentials::fuzz(bytes);
}

fn object(resource: super::Resource) -> Subject {
    Subject::object(Verb::Get, resource, Some("ns"), "a", None)
}

fn short<T>(decoded: Result<T, Error>) {
    if let Err(error) = decoded {
        check(&error);
    }
}

fn check(error: &Error) {
    let message = error.to_string();
    assert!(message.len() <= LONGEST_MESSAGE, "{} bytes", message.len());
    if let Error::TooManyRequests { retry_after, .. } = error {
        assert!(retry_after.unwrap_or_default() <= RETRY_AFTER_CAP);
    }
}

#[cfg(test)]
mod tests {
    /// Each seed and each input that once broke a promise. Deeds of the fuzzer end up here.
    #[test]
    fn what_the_fuzzer_begins_with_and_what_it_found_is_read_without_a_panic() {
        for (target, run) in [
            ("response", super::response as fn(&[u8])),
            ("watch", super::watch),
            ("kubeconfig", super::kubeconfig),
        ] {
            let folder = format!("{}/tests/fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
            let mut ran = 0;
            for seed in std::fs::read_dir(&folder).unwrap() {
                let seed = seed.unwrap().path();
                run(&std::fs::read(&seed).unwrap());
                ran += 1;
            }
            assert!(ran > 3, "no seeds in {folder}");
        }
    }
}
