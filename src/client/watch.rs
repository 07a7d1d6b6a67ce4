//! A watch as a stream of frames.

use std::borrow::Cow;
use std::fmt;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::Error;
use super::answer::{Status, decode, undecodable};
use super::call::Subject;

/// Largest frame: an object as large as one that can be read alone.
const FRAME_LIMIT: usize = 16 << 20;

/// A watch frame; objects undecoded.
#[derive(Debug)]
pub enum WatchFrame {
    /// The object exists, or came to exist (or to match the selectors).
    Added(Box<RawValue>),
    /// The object changed.
    Modified(Box<RawValue>),
    /// The object is gone, or does not match any more; its last state.
    Deleted(Box<RawValue>),
    /// An object with nothing but a `resourceVersion` up to which everything was sent.
    Bookmark(Box<RawValue>),
    /// An ERROR event: the server ends the watch. [`Error::Gone`] when the resource version expired.
    Error(Error),
}

/// An open watch. Dropping it ends the request.
pub struct WatchStream {
    body: Incoming,
    subject: Subject,
    frames: Frames,
    /// After an error of the stream itself nothing more comes.
    failed: bool,
}

impl WatchStream {
    pub(super) fn new(body: Incoming, subject: Subject) -> Self {
        Self {
            body,
            subject,
            frames: Frames::new(FRAME_LIMIT),
            failed: false,
        }
    }

    /// The next frame; `None` at the end of the stream, also after an error. Cancel-safe: a frame
    /// that has partly come is kept.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the stream breaks off, [`Error::Decode`] when it holds anything
    /// else than frames.
    pub async fn next(&mut self) -> Option<Result<WatchFrame, Error>> {
        if self.failed {
            return None;
        }
        let frame = self.next_frame().await?;
        self.failed = frame.is_err();
        Some(frame)
    }

    async fn next_frame(&mut self) -> Option<Result<WatchFrame, Error>> {
        loop {
            match self.frames.take() {
                Ok(Some(line)) => return Some(parse(&self.subject, &line)),
                Ok(None) => {}
                Err(TooLarge) => {
                    let message = format!("a watch frame is larger than {FRAME_LIMIT} bytes");
                    return Some(Err(undecodable(&self.subject, &[], message)));
                }
            }
            // The only wait: what it yields goes to `frames` before the next one.
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.frames.push(&data);
                    }
                }
                Some(Err(error)) => return Some(Err(self.broken(&error.to_string()))),
                None if self.frames.is_empty() => return None,
                None => return Some(Err(self.broken("the stream ended within a frame"))),
            }
        }
    }

    fn broken(&self, message: &str) -> Error {
        Error::Unavailable {
            what: self.subject.what.clone(),
            code: None,
            unsent: false,
            message: format!("the watch broke off: {message}"),
        }
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream")
            .field("of", &self.subject.what)
            .finish_non_exhaustive()
    }
}

/// `{"type": ..., "object": ...}`.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

fn parse(subject: &Subject, line: &[u8]) -> Result<WatchFrame, Error> {
    // Checked once, not by serde_json string by string.
    let envelope = std::str::from_utf8(line)
        .map_err(|error| format!("not UTF-8 after byte {}", error.valid_up_to()))
        .and_then(|text| {
            serde_json::from_str::<Envelope<'_>>(text)
                .map_err(|error| format!("a watch frame is no event: {error}"))
        })
        .map_err(|message| undecodable(subject, &[], message))?;
    let object = || envelope.object.to_owned();
    Ok(match envelope.kind.as_ref() {
        "ADDED" => WatchFrame::Added(object()),
        "MODIFIED" => WatchFrame::Modified(object()),
        "DELETED" => WatchFrame::Deleted(object()),
        "BOOKMARK" => WatchFrame::Bookmark(object()),
        "ERROR" => {
            let status: Status = decode(subject, envelope.object.get().as_bytes())?;
            let (code, retry_after) = (status.code(), status.retry_after());
            WatchFrame::Error(status.into_error(subject, code, retry_after))
        }
        other => {
            let message = format!("unknown watch event {other:?}");
            return Err(undecodable(
                subject,
                envelope.object.get().as_bytes(),
                message,
            ));
        }
    })
}

/// Splits chunks at newlines. Pure: chunks go in, lines come out.
struct Frames {
    buffer: BytesMut,
    /// How much of `buffer` is known to hold no newline.
    searched: usize,
    limit: usize,
}

#[derive(Debug, PartialEq, Eq)]
struct TooLarge;

impl Frames {
    fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            limit,
        }
    }

    fn push(&mut self, data: &[u8]) {
        self.buffer.extend_from_slice(data);
    }

    fn is_empty(&self) -> bool {
        self.buffer.iter().all(u8::is_ascii_whitespace)
    }

    /// The next complete line that is not blank.
    fn take(&mut self) -> Result<Option<Bytes>, TooLarge> {
        loop {
            let rest = &self.buffer[self.searched..];
            let Some(at) = memchr::memchr(b'\n', rest) else {
                self.searched = self.buffer.len();
                return if self.searched > self.limit {
                    Err(TooLarge)
                } else {
                    Ok(None)
                };
            };
            let mut line = self.buffer.split_to(self.searched + at + 1);
            self.searched = 0;
            line.truncate(line.len() - 1);
            if line.len() > self.limit {
                return Err(TooLarge);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Ok(Some(line.freeze()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::call::Verb;
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{POD, WatchOptions};
    use proptest::prelude::*;

    fn frame(line: &str) -> Result<WatchFrame, Error> {
        parse(
            &Subject::collection(Verb::Watch, POD, None),
            line.as_bytes(),
        )
    }

    #[test]
    fn events_keep_their_object_as_it_came() {
        let line = r#"{"type":"ADDED","object":{"a": 1.10}}"#;
        assert!(
            matches!(frame(line), Ok(WatchFrame::Added(object)) if object.get() == r#"{"a": 1.10}"#)
        );
        let line = r#"{"object":{},"type":"BOOKM\u0041RK"}"#;
        assert!(matches!(frame(line), Ok(WatchFrame::Bookmark(_))));
        for wrong in [
            "[]",
            "{\"type\":\"ADDED\"}",
            "<html>",
            r#"{"type":"NEW","object":{}}"#,
        ] {
            assert!(matches!(frame(wrong), Err(Error::Decode { .. })), "{wrong}");
        }
    }

    #[test]
    fn k1042_an_error_event_is_typed_like_an_http_status() {
        let gone = r#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}"#;
        assert!(matches!(
            frame(gone),
            Ok(WatchFrame::Error(Error::Gone { .. }))
        ));
        let slow = r#"{"type":"ERROR","object":{"kind":"Status","code":429,
            "details":{"retryAfterSeconds":3}}}"#;
        let Ok(WatchFrame::Error(Error::TooManyRequests { retry_after, .. })) = frame(slow) else {
            panic!("429");
        };
        assert_eq!(retry_after, Some(std::time::Duration::from_secs(3)));
        let odd = r#"{"type":"ERROR","object":{}}"#;
        assert!(matches!(
            frame(odd),
            Ok(WatchFrame::Error(Error::Unavailable { .. }))
        ));
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_complete_or_not() {
        let mut frames = Frames::new(4);
        frames.push(b"1234\n12345");
        assert_eq!(frames.take(), Ok(Some(Bytes::from_static(b"1234"))));
        assert_eq!(frames.take(), Err(TooLarge));
        let mut frames = Frames::new(4);
        frames.push(b"12345\n");
        assert_eq!(frames.take(), Err(TooLarge));
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_yields_frames_then_its_end_and_survives_cancelled_waits() {
        let (chunks, reply) = Reply::stream();
        let server = FakeServer::replying([reply]);
        let options = WatchOptions {
            resource_version: Some("5".to_owned()),
            send_initial_events: true,
            timeout: Some(std::time::Duration::from_mins(5)),
            ..WatchOptions::default()
        };
        let mut watch = server
            .client()
            .watch(POD, Some("ns"), &options)
            .await
            .unwrap();
        assert_eq!(
            server.requests()[0].path_and_query,
            "/api/v1/namespaces/ns/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5\
             &timeoutSeconds=300&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
        );
        let line = b"{\"type\":\"ADDED\",\"object\":{}}\n";
        for byte in line {
            let second = std::time::Duration::from_secs(1);
            assert!(
                tokio::time::timeout(second, watch.next()).await.is_err(),
                "not complete"
            );
            chunks.send(Ok(Bytes::copy_from_slice(&[*byte]))).unwrap();
        }
        assert!(matches!(watch.next().await, Some(Ok(WatchFrame::Added(_)))));
        drop(chunks);
        assert!(watch.next().await.is_none(), "a clean end");
    }

    #[tokio::test]
    async fn a_watch_that_breaks_off_is_an_error_then_over() {
        for cut in [
            Ok(Bytes::from_static(b"{\"type\":")),
            Err(std::io::Error::other("reset")),
        ] {
            let (chunks, reply) = Reply::stream();
            let server = FakeServer::replying([reply]);
            let options = WatchOptions::default();
            let mut watch = server.client().watch(POD, None, &options).await.unwrap();
            chunks.send(cut).unwrap();
            drop(chunks);
            assert!(matches!(
                watch.next().await,
                Some(Err(Error::Unavailable { .. }))
            ));
            assert!(watch.next().await.is_none());
        }
    }

    #[tokio::test]
    async fn k1042_gone_as_an_http_status_is_the_same_error() {
        let server = FakeServer::replying([Reply::status(410, "")]);
        let watch = server
            .client()
            .watch(POD, None, &WatchOptions::default())
            .await;
        assert!(matches!(watch, Err(Error::Gone { .. })));
    }

    proptest! {
        #[test]
        fn chunks_may_be_cut_anywhere(
            lines in proptest::collection::vec("[a-z]{1,20}", 0..20),
            cuts in proptest::collection::vec(1_usize..15, 1..20),
        ) {
            let text: String = lines.iter().flat_map(|line| [line, "\r\n\n"]).collect();
            let mut rest = text.as_bytes();
            let mut frames = Frames::new(100);
            let mut got = Vec::new();
            for cut in cuts.into_iter().cycle() {
                let (chunk, after) = rest.split_at(cut.min(rest.len()));
                frames.push(chunk);
                while let Some(line) = frames.take().unwrap() {
                    got.push(String::from_utf8(line.to_vec()).unwrap().trim().to_owned());
                }
                rest = after;
                if rest.is_empty() { break; }
            }
            prop_assert!(frames.is_empty());
            prop_assert_eq!(got, lines);
        }
    }
}
