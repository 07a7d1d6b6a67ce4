//! The frames of a watch, cut out of its bytes and read. Pure: chunks go in, frames come out.

use std::borrow::Cow;

use bytes::{Bytes, BytesMut};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::answer::{Status, decode, shortened, undecodable};
use super::call::Subject;
use super::watch::{Decoded, read_object};
use super::{Error, WatchFrame};

/// Most of an unknown event's type that is quoted.
const QUOTED: usize = 100;

/// Makes frames of what comes on one watch.
pub(super) struct Cutter {
    subject: Subject,
    frames: Frames,
}

impl Cutter {
    /// For frames of at most `limit` bytes: no more than that, and a chunk, is ever held.
    pub(super) fn new(subject: Subject, limit: usize) -> Self {
        let frames = Frames::new(limit);
        Self { subject, frames }
    }

    /// What the watch is of.
    pub(super) fn subject(&self) -> &Subject {
        &self.subject
    }

    /// More has come.
    pub(super) fn push(&mut self, data: &[u8]) {
        self.frames.push(data);
    }

    /// The next frame, if it has come whole.
    pub(super) fn take<T: DeserializeOwned>(&mut self) -> Option<Result<WatchFrame<T>, Error>> {
        if let Ok(line) = self.frames.take() {
            return line.map(|line| parse(&self.subject, &line));
        }
        let limit = self.frames.limit;
        let message = format!("a watch frame is larger than {limit} bytes");
        Some(Err(undecodable(&self.subject, &[], &message)))
    }

    /// Whether the watch may end here.
    pub(super) fn is_between_frames(&self) -> bool {
        self.frames.is_empty()
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

fn parse<T: DeserializeOwned>(subject: &Subject, line: &[u8]) -> Result<WatchFrame<T>, Error> {
    // Checked once, not by serde_json string by string.
    let text = std::str::from_utf8(line).map_err(|error| {
        let message = format!("not UTF-8 after byte {}", error.valid_up_to());
        undecodable(subject, &[], &message)
    })?;
    at_once(text).map_or_else(|| in_two_steps(subject, text), Ok)
}

/// Reads a frame of the form that API servers write, in one pass over its bytes: `None` when it has
/// another, or an object that is no `T`. What this reads is sound JSON to its end, since the object is.
fn at_once<T: DeserializeOwned>(text: &str) -> Option<WatchFrame<T>> {
    let (kind, rest) = text.strip_prefix(r#"{"type":""#)?.split_once('"')?;
    let wrap = of_object(kind)?;
    let object = rest.strip_prefix(r#","object":"#)?.strip_suffix('}')?;
    serde_json::from_str(object)
        .ok()
        .map(|object| wrap(Ok(object)))
}

/// The frame of an event that is of an object.
fn of_object<T>(kind: &str) -> Option<fn(Decoded<T>) -> WatchFrame<T>> {
    match kind {
        "ADDED" => Some(WatchFrame::Added),
        "MODIFIED" => Some(WatchFrame::Modified),
        "DELETED" => Some(WatchFrame::Deleted),
        _ => None,
    }
}

/// Finds out first where the object is, then reads it.
fn in_two_steps<T: DeserializeOwned>(
    subject: &Subject,
    text: &str,
) -> Result<WatchFrame<T>, Error> {
    let envelope: Envelope<'_> = serde_json::from_str(text).map_err(|error| {
        let message = format!("a watch frame is no event: {error}");
        undecodable(subject, &[], &message)
    })?;
    if let Some(wrap) = of_object(&envelope.kind) {
        return Ok(wrap(read_object(envelope.object)));
    }
    Ok(match envelope.kind.as_ref() {
        "BOOKMARK" => WatchFrame::Bookmark(envelope.object.to_owned()),
        "ERROR" => {
            let status = decode(subject, envelope.object.get().as_bytes())?;
            let status = Status::from_json(&status);
            let (code, retry_after) = (status.code(), status.retry_after());
            WatchFrame::Error(status.into_error(subject, code, retry_after))
        }
        other => {
            let message = format!("unknown watch event {:?}", shortened(other, QUOTED));
            return Err(undecodable(
                subject,
                envelope.object.get().as_bytes(),
                &message,
            ));
        }
    })
}

/// Splits chunks at newlines.
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
    use crate::client::POD;
    use crate::client::call::Verb;
    use proptest::prelude::*;

    fn subject() -> Subject {
        Subject::collection(Verb::Watch, POD, None)
    }

    fn frame(line: &str) -> Result<WatchFrame, Error> {
        parse(&subject(), line.as_bytes())
    }

    #[test]
    fn events_keep_their_object_as_it_came() {
        let line = r#"{"type":"ADDED","object":{"a": 1.10}}"#;
        assert!(
            matches!(frame(line), Ok(WatchFrame::Added(Ok(object))) if object.get() == r#"{"a": 1.10}"#)
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
    fn an_object_that_is_no_t_is_said_within_its_frame() {
        #[derive(Debug, Deserialize)]
        struct Numbered {
            n: u8,
        }
        let read = |line: &str| parse::<Numbered>(&subject(), line.as_bytes());
        let line = r#"{"type":"MODIFIED","object":{"n":7,"m":{"managedFields":[]}}}"#;
        assert!(matches!(
            read(line),
            Ok(WatchFrame::Modified(Ok(Numbered { n: 7 })))
        ));
        let line = r#"{"type":"MODIFIED","object":{"n":"seven"}}"#;
        let Ok(WatchFrame::Modified(Err(undecoded))) = read(line) else {
            panic!("a sound frame");
        };
        assert_eq!(undecoded.raw.get(), r#"{"n":"seven"}"#);
        assert!(
            undecoded.error.to_string().contains("column 12"),
            "{}",
            undecoded.error
        );
        // What follows the object belongs to the envelope.
        let line = r#"{"type":"ADDED","object":{"n":1},"n":{}}"#;
        assert!(matches!(
            read(line),
            Ok(WatchFrame::Added(Ok(Numbered { n: 1 })))
        ));
        for line in [
            r#"{"type":"ADDED","object":{"n":1}"#,
            r#"{"type":"ADDED","object":{"n":1}}}"#,
            r#"{"type":"ADDED","object":{"n":1,"m":[}}"#,
            r#"{"type":"ADDED","object":}"#,
        ] {
            assert!(matches!(read(line), Err(Error::Decode { .. })), "{line}");
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

    proptest! {
        /// However a frame is damaged: reading it at once gives what reading it in two steps does.
        #[test]
        fn both_ways_to_read_a_frame_agree(
            kind in "ADDED|MODIFIED|DELETED|BOOKMARK|ERROR|ODD",
            object in prop_oneof![
                Just(r#"{"metadata":{"name":"a"},"n":[1,{"x":"}\\""}]}"#),
                Just("{}"), Just(r#" {"a":1} "#), Just("7"), Just("\"}\""),
            ],
            damage in proptest::collection::vec((any::<prop::sample::Index>(), r#"[{}",:\[\]a \\]{0,2}"#), 0..3),
        ) {
            let mut line = format!(r#"{{"type":"{kind}","object":{object}}}"#);
            for (at, text) in damage {
                let at = at.index(line.len());
                line.replace_range(at..=at, &text);
            }
            if let Some(frame) = at_once::<Box<RawValue>>(&line) {
                let other = in_two_steps::<Box<RawValue>>(&subject(), &line).unwrap();
                prop_assert_eq!(format!("{frame:?}"), format!("{other:?}"));
            }
        }

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
