//! Watches as streams of lines.
//!
//! A stream is pulled by its connection: while the client does not read, nothing is rendered and
//! nothing piles up but the bounded history. A client that falls out of that is cut off.

use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame as HttpFrame;
use tokio::time::{Instant, sleep_until};

use super::accept::Media;
use super::{Body, page};
use crate::apiserver::state::{Frame, Watch, WatchEnd};
use crate::apiserver::{ApiError, ApiServer};

/// Frames that are written at a time.
const BATCH: usize = 128;
/// Time between bookmarks of a quiet watch, as a real server has it.
const BOOKMARK_PERIOD: Duration = Duration::from_mins(1);
/// Shortest life of a watch whose client names none; it lives up to twice as long.
const LIFE: Duration = Duration::from_mins(30);

/// What is wrong with a stream on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sickness {
    /// Nothing is ever said.
    pub(super) silent: bool,
    /// The end of the initial events is not marked.
    pub(super) unmarked: bool,
    /// Bookmarks, many at a time.
    pub(super) storm: Option<u32>,
    /// The next event stops in the middle, and the connection with it.
    pub(super) half: bool,
    /// The connection breaks after so many bytes.
    pub(super) reset: Option<u64>,
}

/// Pause between two showers of a bookmark storm.
const STORM_PERIOD: Duration = Duration::from_millis(100);

struct Streamed {
    server: ApiServer,
    watch: Watch,
    media: Media,
    sickness: Sickness,
    ends: Instant,
    bookmark: Instant,
    /// Whether a table's columns were sent.
    columns: bool,
    sent: u64,
    over: bool,
}

/// The body of a watch.
pub(super) fn body(
    server: ApiServer,
    watch: Watch,
    media: Media,
    timeout: Option<u64>,
    sickness: Sickness,
) -> Body {
    let now = Instant::now();
    // Not all at once, but always the same.
    let spread = Duration::from_secs(watch.version() % LIFE.as_secs());
    let life = timeout
        .filter(|seconds| *seconds > 0)
        .map_or(LIFE + spread, Duration::from_secs);
    let period = if sickness.storm.is_some() {
        STORM_PERIOD
    } else {
        BOOKMARK_PERIOD
    };
    let streamed = Streamed {
        server,
        watch,
        media,
        sickness,
        ends: now + life,
        bookmark: now + period,
        columns: true,
        sent: 0,
        over: false,
    };
    StreamBody::new(stream::unfold(streamed, next)).boxed_unsync()
}

/// A body that reports an error, as a stream that was opened does.
pub(super) fn failed(error: &ApiError) -> Body {
    super::full(page::error(error))
}

type Item = (io::Result<HttpFrame<Bytes>>, Streamed);

async fn next(mut streamed: Streamed) -> Option<Item> {
    loop {
        if streamed.over {
            return None;
        }
        let changed = streamed.watch.changed();
        let mut changed = std::pin::pin!(changed.notified());
        // From here on no change is missed.
        changed.as_mut().enable();
        if !streamed.sickness.silent {
            let frames = {
                let state = streamed.server.state();
                state.advance(&mut streamed.watch, BATCH)
            };
            match frames {
                Ok(frames) => {
                    let bytes = streamed.render(frames).await;
                    if !bytes.is_empty() {
                        return streamed.send(bytes);
                    }
                }
                Err(WatchEnd::Behind | WatchEnd::Gone) => return None,
            }
        }
        tokio::select! {
            biased;
            () = changed => {}
            () = sleep_until(streamed.ends) => return None,
            () = sleep_until(streamed.bookmark), if streamed.wants_bookmarks() => {
                let bytes = streamed.bookmarks();
                return streamed.send(bytes);
            }
        }
    }
}

impl Streamed {
    fn wants_bookmarks(&self) -> bool {
        self.watch.allow_bookmarks && !self.sickness.silent
    }

    async fn render(&mut self, frames: Vec<Frame>) -> Bytes {
        let mut out = BytesMut::new();
        for frame in frames {
            match frame {
                Frame::Object(kind, entry) => {
                    let served = std::sync::Arc::clone(&self.watch.served);
                    let written = page::event(
                        &self.server,
                        &served,
                        kind.name(),
                        &entry,
                        self.media,
                        self.columns,
                        &mut out,
                    )
                    .await;
                    self.columns = false;
                    if let Err(error) = written {
                        self.over = true;
                        out.clear();
                        out.extend_from_slice(&page::error(&error));
                        return out.freeze();
                    }
                }
                Frame::Bookmark { initial: true, .. } if self.sickness.unmarked => {}
                Frame::Bookmark { rv, initial } => {
                    out.extend_from_slice(&page::bookmark(
                        &self.watch.served,
                        rv,
                        initial,
                        self.media,
                    ));
                }
            }
        }
        out.freeze()
    }

    fn bookmarks(&mut self) -> Bytes {
        let line = page::bookmark(&self.watch.served, self.watch.version(), false, self.media);
        let (count, period) = match self.sickness.storm {
            Some(count) => (count as usize, STORM_PERIOD),
            None => (1, BOOKMARK_PERIOD),
        };
        self.bookmark = Instant::now() + period;
        line.repeat(count).into()
    }

    fn send(mut self, mut bytes: Bytes) -> Option<Item> {
        if self.sickness.half {
            bytes.truncate(bytes.len() / 2);
            self.sickness.reset = Some(self.sent + bytes.len() as u64);
            self.sickness.half = false;
        }
        self.sent += bytes.len() as u64;
        match self.sickness.reset {
            Some(limit) if self.sent > limit => {
                self.over = true;
                Some((Err(io::ErrorKind::ConnectionReset.into()), self))
            }
            _ => Some((Ok(HttpFrame::data(bytes)), self)),
        }
    }
}
