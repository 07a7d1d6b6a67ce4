//! Bodies that are damaged on purpose, byte by byte: those of this server, and those it passes on.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;

use super::Body;
use super::answer::FLUSH_PAUSE;
use crate::apiserver::faults::Fault;

/// A line that is no event, and no JSON either.
const GARBAGE: &[u8] = b"\x00\xff{\"type\":\"ADDED\",\"object\":\n";

/// Longest line that is looked at as one.
const LONGEST_LINE: usize = 8 << 20;

/// A body as `faults` leave it: those that need no more than its bytes.
pub(super) fn of_bytes(mut body: Body, faults: &[Fault]) -> Body {
    for fault in faults {
        body = match fault {
            Fault::Garbage => by_line(body, |line, nth| match nth {
                0 => vec![line, Bytes::from_static(GARBAGE)],
                _ => vec![line],
            }),
            Fault::Repeat => by_line(body, |line, _| vec![line.clone(), line]),
            Fault::Slow {
                bytes,
                milliseconds,
            } => slow(body, *bytes, Duration::from_millis(*milliseconds)),
            _ => body,
        };
    }
    body
}

/// The body of a watch that is passed on, as `faults` leave it.
pub(super) fn of_watch(body: Body, faults: &[Fault]) -> Body {
    let mut body = of_bytes(body, faults);
    for fault in faults {
        body = match fault {
            Fault::Silent => StreamBody::new(stream::pending()).boxed_unsync(),
            Fault::Reset { after_bytes } => cut(body, *after_bytes),
            Fault::HalfFrame => half_line(body),
            _ => body,
        };
    }
    body
}

/// An answer that breaks off, where `faults` say so.
pub(super) fn shorten(response: Response<Body>, faults: &[Fault]) -> Response<Body> {
    for fault in faults {
        match fault {
            Fault::Reset { after_bytes } => return response.map(|body| cut(body, *after_bytes)),
            Fault::HalfFrame => return response.map(half),
            _ => {}
        }
    }
    response
}

type Item = io::Result<Frame<Bytes>>;

fn broken() -> Item {
    Err(io::ErrorKind::ConnectionReset.into())
}

/// Data of a body, at its end none.
async fn data(body: &mut Body) -> Option<io::Result<Bytes>> {
    loop {
        match body.frame().await? {
            Ok(frame) => {
                if let Ok(data) = frame.into_data() {
                    return Some(Ok(data));
                }
            }
            Err(error) => return Some(Err(error)),
        }
    }
}

/// The first bytes of a body, then a broken connection.
fn cut(body: Body, limit: u64) -> Body {
    let stream = stream::unfold(Some((body, limit)), |state| async move {
        let (mut body, left) = state?;
        let data = match data(&mut body).await {
            Some(Ok(data)) if left > 0 && !data.is_empty() => data,
            _ => {
                tokio::time::sleep(FLUSH_PAUSE).await;
                return Some((broken(), None));
            }
        };
        let kept = usize::try_from(left).map_or(data.len(), |left| left.min(data.len()));
        let left = left - u64::try_from(kept).unwrap_or(left);
        Some((Ok(Frame::data(data.slice(..kept))), Some((body, left))))
    });
    StreamBody::new(stream).boxed_unsync()
}

/// Half of a body, then a broken connection.
fn half(body: Body) -> Body {
    let size = http_body::Body::size_hint(&body).lower();
    cut(body, size / 2)
}

/// Half of what comes first, then at once a broken connection.
fn half_line(body: Body) -> Body {
    let stream = stream::unfold(Some((body, true)), |state| async move {
        let (mut body, first) = state?;
        if first && let Some(Ok(data)) = data(&mut body).await {
            let half = data.slice(..data.len() / 2);
            return Some((Ok(Frame::data(half)), Some((body, false))));
        }
        tokio::time::sleep(FLUSH_PAUSE).await;
        Some((broken(), None))
    });
    StreamBody::new(stream).boxed_unsync()
}

/// Changes a body line by line. `change` gets each with its number, from 0.
fn by_line<F>(body: Body, change: F) -> Body
where
    F: Fn(Bytes, u64) -> Vec<Bytes> + Send + 'static,
{
    struct Lines<F> {
        body: Body,
        rest: BytesMut,
        ready: VecDeque<Bytes>,
        nth: u64,
        ended: bool,
        change: F,
    }
    let lines = Lines {
        body,
        rest: BytesMut::new(),
        ready: VecDeque::new(),
        nth: 0,
        ended: false,
        change,
    };
    let stream = stream::unfold(lines, |mut lines| async move {
        loop {
            if let Some(ready) = lines.ready.pop_front() {
                return Some((Ok(Frame::data(ready)), lines));
            }
            let end = lines.rest.iter().position(|byte| *byte == b'\n');
            let end = end.map(|end| end + 1).or_else(|| {
                let whole = lines.ended || lines.rest.len() > LONGEST_LINE;
                (whole && !lines.rest.is_empty()).then_some(lines.rest.len())
            });
            if let Some(end) = end {
                let line = lines.rest.split_to(end).freeze();
                lines.ready.extend((lines.change)(line, lines.nth));
                lines.nth += 1;
                continue;
            }
            if lines.ended {
                return None;
            }
            match data(&mut lines.body).await {
                Some(Ok(data)) => lines.rest.extend_from_slice(&data),
                Some(Err(error)) => return Some((Err(error), lines)),
                None => lines.ended = true,
            }
        }
    });
    StreamBody::new(stream).boxed_unsync()
}

/// A body that comes in small pieces with a pause before each.
fn slow(body: Body, bytes: u32, pause: Duration) -> Body {
    let piece = usize::try_from(bytes).unwrap_or(usize::MAX).max(1);
    let stream = stream::unfold(
        (body, Bytes::new()),
        move |(mut body, mut rest)| async move {
            while rest.is_empty() {
                match data(&mut body).await? {
                    Ok(data) => rest = data,
                    Err(error) => return Some((Err(error), (body, rest))),
                }
            }
            tokio::time::sleep(pause).await;
            let piece = rest.split_to(piece.min(rest.len()));
            Some((Ok(Frame::data(piece)), (body, rest)))
        },
    );
    StreamBody::new(stream).boxed_unsync()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::http::full;

    async fn text(body: Body) -> (String, bool) {
        let (mut body, mut all) = (body, Vec::new());
        while let Some(item) = data(&mut body).await {
            match item {
                Ok(data) => all.extend_from_slice(&data),
                Err(_) => return (String::from_utf8_lossy(&all).into_owned(), true),
            }
        }
        (String::from_utf8_lossy(&all).into_owned(), false)
    }

    #[tokio::test(start_paused = true)]
    async fn lines_are_repeated_and_spoilt() {
        let body = || full("a\nb\nc");
        let (repeated, _) = text(of_bytes(body(), &[Fault::Repeat])).await;
        assert_eq!(repeated, "a\na\nb\nb\ncc");
        let (spoilt, _) = text(of_bytes(body(), &[Fault::Garbage])).await;
        assert!(
            spoilt.starts_with("a\n\0") && spoilt.ends_with("\nb\nc"),
            "{spoilt:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_take_their_time() {
        let begun = tokio::time::Instant::now();
        let fault = Fault::Slow {
            bytes: 2,
            milliseconds: 100,
        };
        let (whole, _) = text(of_bytes(full("abcde"), &[fault])).await;
        assert_eq!(whole, "abcde");
        assert_eq!(begun.elapsed(), Duration::from_millis(300));
    }

    #[tokio::test(start_paused = true)]
    async fn watches_break_where_they_are_told() {
        let reset = Fault::Reset { after_bytes: 3 };
        assert_eq!(
            text(of_watch(full("abcde"), &[reset])).await,
            ("abc".into(), true)
        );
        let half = of_watch(full("abcd"), &[Fault::HalfFrame]);
        assert_eq!(text(half).await, ("ab".into(), true));
    }
}
