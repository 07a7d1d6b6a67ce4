//! A watch as a stream of frames.

use std::fmt;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use metrics::Counter;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::Error;
use super::call::Subject;
use super::frame::Cutter;
use super::telemetry;

/// Largest frame: an object as large as one that can be read alone.
const FRAME_LIMIT: usize = 16 << 20;

/// A watch frame, its object read as `T`: as raw JSON unless said otherwise.
#[derive(Debug)]
pub enum WatchFrame<T = Box<RawValue>> {
    /// The object exists, or came to exist (or to match the selectors).
    Added(Decoded<T>),
    /// The object changed.
    Modified(Decoded<T>),
    /// The object is gone, or does not match any more; its last state.
    Deleted(Decoded<T>),
    /// An object with nothing but a `resourceVersion` up to which everything was sent.
    Bookmark(Box<RawValue>),
    /// An ERROR event: the server ends the watch. [`Error::Gone`] when the resource version expired.
    Error(Error),
}

/// An object, or what there is to say of JSON that is not one: the frame it came in was sound.
pub type Decoded<T> = Result<T, Undecoded>;

/// Reads an object, keeping what is no `T` as it came.
pub(crate) fn read_object<T: DeserializeOwned>(raw: &RawValue) -> Decoded<T> {
    serde_json::from_str(raw.get()).map_err(|error| Undecoded {
        raw: raw.to_owned(),
        error,
    })
}

/// JSON that is not what it was read as.
#[derive(Debug)]
pub struct Undecoded {
    /// As it came.
    pub raw: Box<RawValue>,
    /// The parser's words, which may quote a value, and the position in `raw`.
    pub error: serde_json::Error,
}

/// An open watch. Dropping it ends the request.
pub struct WatchStream {
    body: Incoming,
    frames: Cutter,
    bytes: Counter,
    /// Where it comes from: for messages.
    url: String,
    /// After an error of the stream itself nothing more comes.
    failed: bool,
}

impl WatchStream {
    pub(super) fn new(body: Incoming, subject: Subject, url: String) -> Self {
        Self {
            body,
            bytes: telemetry::watch_bytes(subject.label),
            frames: Cutter::new(subject, FRAME_LIMIT),
            url,
            failed: false,
        }
    }

    /// The next frame; `None` at the end of the stream, also after an error. Cancel-safe: a frame
    /// that has partly come is kept. Its object is read as a `T` in one pass over the bytes; one that
    /// is no `T` is said within the frame, and the stream goes on.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the stream breaks off, [`Error::Decode`] when it holds anything
    /// else than frames.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Option<Result<WatchFrame<T>, Error>> {
        if self.failed {
            return None;
        }
        let frame = self.next_frame().await?;
        let frame = frame.map_err(|error| error.at_url(&self.url));
        self.failed = frame.is_err();
        Some(frame)
    }

    async fn next_frame<T: DeserializeOwned>(&mut self) -> Option<Result<WatchFrame<T>, Error>> {
        loop {
            if let Some(frame) = self.frames.take() {
                return Some(frame);
            }
            // The only wait: what it yields goes to `frames` before the next one.
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.bytes.increment(data.len() as u64);
                        self.frames.push(&data);
                    }
                }
                Some(Err(error)) => return Some(Err(self.broken(&error.to_string()))),
                None if self.frames.is_between_frames() => return None,
                None => return Some(Err(self.broken("the stream ended within a frame"))),
            }
        }
    }

    fn broken(&self, message: &str) -> Error {
        Error::Unavailable {
            what: self.frames.subject().what.clone(),
            code: None,
            unsent: false,
            message: format!("the watch broke off: {message}"),
        }
    }
}

impl fmt::Debug for WatchStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchStream")
            .field("of", &self.frames.subject().what)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{POD, WatchOptions};
    use bytes::Bytes;

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
                tokio::time::timeout(second, watch.next::<Box<RawValue>>())
                    .await
                    .is_err(),
                "not complete"
            );
            chunks.send(Ok(Bytes::copy_from_slice(&[*byte]))).unwrap();
        }
        assert!(matches!(
            watch.next::<Box<RawValue>>().await,
            Some(Ok(WatchFrame::Added(_)))
        ));
        drop(chunks);
        assert!(watch.next::<Box<RawValue>>().await.is_none(), "a clean end");
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
                watch.next::<Box<RawValue>>().await,
                Some(Err(Error::Unavailable { .. }))
            ));
            assert!(watch.next::<Box<RawValue>>().await.is_none());
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
}
