//! What is seen of HTTP on its way: who asks whom for what, and what is answered.

use bytes::Bytes;

use super::Party;

/// A request that is about to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Departing {
    pub(crate) from: Party,
    pub(crate) to: Party,
    pub(crate) method: String,
    /// With its query.
    pub(crate) path: String,
    /// As much of it as leaves together with the head.
    pub(crate) body: Bytes,
}

/// An answer that is about to leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) request: Departing,
    pub(crate) status: u16,
}

/// What becomes of the one who sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Nothing out of the ordinary.
    Lives,
    /// It dies before a byte leaves.
    DiesBefore,
    /// It dies as soon as the request has left: it is carried out, and nobody hears of it.
    DiesAfter,
}

/// Sees requests and answers leave.
pub(crate) trait Witness: Send + Sync {
    /// A request leaves; the witness may end its sender.
    fn departs(&self, request: &Departing) -> Fate;

    /// An answer leaves.
    fn answers(&self, answer: &Answered);
}

/// Method and path of a message that begins a request of HTTP/1.1.
pub(super) fn request_line(message: &[u8]) -> Option<(&str, &str)> {
    let end = message.iter().position(|byte| *byte == b'\r')?;
    let line = std::str::from_utf8(&message[..end]).ok()?;
    let mut words = line.split(' ');
    let (method, path, version) = (words.next()?, words.next()?, words.next()?);
    let known = matches!(method, "GET" | "POST" | "PUT" | "PATCH" | "DELETE");
    (known && version == "HTTP/1.1").then_some((method, path))
}

/// What follows the head.
pub(super) fn body(message: &[u8]) -> Bytes {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n");
    end.map_or_else(Bytes::new, |end| {
        Bytes::copy_from_slice(&message[end + 4..])
    })
}

/// The status of a message that begins an answer of HTTP/1.1.
pub(super) fn status_line(message: &[u8]) -> Option<u16> {
    let rest = message.strip_prefix(b"HTTP/1.1 ")?;
    std::str::from_utf8(rest.get(..3)?).ok()?.parse().ok()
}
