//! A connection as HTTP uses it: one that the server has let in, and that is heard to its end.
//!
//! Under TLS 1.3 a client's handshake ends before the server has looked at its certificate. Requests
//! that were sent meanwhile are lost with the connection if the certificate is refused, and nobody can
//! tell that they were not carried out. So they wait until the server has said something of its own,
//! which it can only after it took the certificate: the settings that begin HTTP/2, or a ticket. A
//! refusal then is a connection that could not be made, and the requests go out on the next one.
//!
//! A server that leaves (GOAWAY) says which requests it took, and closes. Whoever writes to it at that
//! moment is told that nobody listens any more; HTTP/2 (h2 0.4) then gives the connection up without
//! reading what was said, and the requests that were not taken look as if they might have been. So a
//! write that fails is not told: what is written afterwards goes nowhere, and reading ends the
//! connection when all was heard.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use rustls::ProtocolVersion;
use tokio::io::{AsyncRead as _, ReadBuf};
use tokio_rustls::client::TlsStream;

use super::dial::Dialled;

/// Longest wait for the server's first words, which take one round trip. Some servers say nothing until
/// they are asked (an HTTP/1.1 server without tickets): their connections are used after this time,
/// and what is lost on them stays uncertain.
const FIRST_WORDS_TIMEOUT: Duration = Duration::from_secs(1);

/// A stream to a server, with TLS or not.
pub(super) type Opened = MaybeHttpsStream<TokioIo<Dialled>>;

/// See the module.
pub(super) struct Link {
    stream: Opened,
    /// What was read from it already.
    first: Bytes,
    /// Nobody listens at the other end.
    deaf: bool,
}

impl Link {
    /// Over a stream that needs no admission.
    pub(super) fn new(stream: Opened) -> Self {
        Self {
            stream,
            first: Bytes::new(),
            deaf: false,
        }
    }

    /// Waits for the server to take the client certificate that it was shown on `stream`.
    ///
    /// # Errors
    ///
    /// The server refused it, or closed the connection.
    pub(super) async fn admitted(stream: Opened) -> io::Result<Self> {
        let mut link = Self::new(stream);
        link.first = match &mut link.stream {
            MaybeHttpsStream::Https(tls) if decides_late(tls.inner()) => {
                let first = tokio::time::timeout(FIRST_WORDS_TIMEOUT, first_words(tls.inner_mut()));
                first.await.unwrap_or_else(|_| Ok(Bytes::new()))?
            }
            _ => Bytes::new(),
        };
        Ok(link)
    }

    /// Keeps a failed write to itself: `done` stands for it.
    fn heard<T>(
        &mut self,
        cx: &Context<'_>,
        written: Poll<io::Result<T>>,
        done: T,
    ) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(Err(error)) => {
                tracing::trace!(%error, "the server does not listen any more");
                self.deaf = true;
                // It may have spoken since it was last read.
                cx.waker().wake_by_ref();
                Poll::Ready(Ok(done))
            }
            written => written,
        }
    }
}

/// Whether the server looks at the certificate when the client's handshake is over.
fn decides_late<S>(tls: &TlsStream<S>) -> bool {
    tls.get_ref().1.protocol_version() == Some(ProtocolVersion::TLSv1_3)
}

/// What the server sends unasked; nothing if it is a ticket.
async fn first_words(tls: &mut TlsStream<TokioIo<TokioIo<Dialled>>>) -> io::Result<Bytes> {
    let mut space = [0; 1024];
    poll_fn(|cx| {
        let mut read = ReadBuf::new(&mut space);
        match Pin::new(&mut *tls).poll_read(cx, &mut read) {
            Poll::Pending if tls.get_ref().1.tls13_tickets_received() > 0 => {
                Poll::Ready(Ok(Bytes::new()))
            }
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(())) if read.filled().is_empty() => {
                Poll::Ready(Err(refused(&io::ErrorKind::UnexpectedEof.into())))
            }
            Poll::Ready(Ok(())) => Poll::Ready(Ok(Bytes::copy_from_slice(read.filled()))),
            Poll::Ready(Err(error)) => Poll::Ready(Err(refused(&error))),
        }
    })
    .await
}

fn refused(error: &io::Error) -> io::Error {
    let problem = format!(
        "the server closed the connection when it had seen the client certificate: {error}"
    );
    io::Error::new(error.kind(), problem)
}

impl Connection for Link {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl Read for Link {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        let length = self.first.len().min(buf.remaining());
        buf.put_slice(&self.first[..length]);
        self.first.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl Write for Link {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.deaf {
            return Poll::Ready(Ok(buf.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.heard(cx, written, buf.len())
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deaf {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.heard(cx, flushed, ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.deaf {
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bufs.iter().map(|buf| buf.len()).sum();
        if self.deaf {
            return Poll::Ready(Ok(length));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.heard(cx, written, length)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::transport::tls;
    use crate::client::{Client, ClientOptions, POD};
    use http_body_util::Full;
    use hyper::client::conn::http2;
    use hyper_util::rt::TokioExecutor;
    use serde_json::Value;
    use std::error::Error as _;
    use tokio::time::Instant;

    /// How long a request takes, and the one after it on the same connection.
    async fn took(alpn: &str, tickets: usize) -> [Duration; 2] {
        let shape = |config: &mut rustls::ServerConfig| config.send_tls13_tickets = tickets;
        let server = FakeServer::with_tls_as(&["fake"], &[alpn], shape, |_| Reply::json("{}"));
        let pair = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
        let key = pair.signing_key.serialize_pem();
        let mut config = server.config_at("https://fake");
        let identity = tls::identity(pair.cert.pem().as_bytes(), key.as_bytes()).unwrap();
        config.tls.identity = Some(identity.into());
        let client: Client = server.client_with(config, ClientOptions::default());
        let mut took = [Duration::ZERO; 2];
        for took in &mut took {
            let start = Instant::now();
            client.get::<Value>(POD, Some("ns"), "a").await.unwrap();
            *took = start.elapsed();
        }
        let requests = server.requests();
        assert_eq!(requests[0].connection, requests[1].connection);
        took
    }

    /// A server that says that it leaves and took nothing, and closes, when it gets a request; the
    /// client writes before it has read that.
    #[derive(Default)]
    struct Leaving {
        said: Option<Vec<u8>>,
        reader: Option<std::task::Waker>,
    }

    impl tokio::io::AsyncRead for Leaving {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let Some(said) = &mut self.said else {
                self.reader = Some(cx.waker().clone());
                return Poll::Pending;
            };
            buf.put_slice(&std::mem::take(said));
            Poll::Ready(Ok(()))
        }
    }

    impl tokio::io::AsyncWrite for Leaving {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &[u8],
        ) -> Poll<io::Result<usize>> {
            const HEADERS: u8 = 1;
            let mut frames = buf
                .strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
                .unwrap_or(buf);
            while let [a, b, c, kind, ..] = *frames {
                if kind == HEADERS || self.said.is_some() {
                    // SETTINGS, then GOAWAY without an error that names no stream as taken.
                    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
                    let leave = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
                    self.said
                        .get_or_insert_with(|| [&settings[..], &leave].concat());
                    if let Some(reader) = self.reader.take() {
                        reader.wake();
                    }
                    return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
                }
                let length = u32::from_be_bytes([0, a, b, c]) as usize;
                frames = &frames[9 + length..];
            }
            Poll::Ready(Ok(buf.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn k88567_a_request_that_is_written_to_a_server_which_has_left_was_not_taken() {
        let stream = MaybeHttpsStream::Http(TokioIo::new(Dialled(Box::<Leaving>::default())));
        let handshake = http2::handshake(TokioExecutor::new(), Link::new(stream));
        let (mut sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        let request = http::Request::post("http://fake/").body(Full::<Bytes>::default());
        let error = sender.send_request(request.unwrap()).await.unwrap_err();
        let cause = error.source().unwrap().downcast_ref::<h2::Error>().unwrap();
        assert!(cause.is_go_away() && cause.is_remote(), "{cause}");
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_server_that_waits_to_be_asked_costs_time_and_only_once_a_connection() {
        const NONE: Duration = Duration::ZERO;
        assert_eq!(took("h2", 2).await, [NONE; 2]);
        assert_eq!(took("h2", 0).await, [NONE; 2]);
        assert_eq!(took("http/1.1", 2).await, [NONE; 2]);
        assert_eq!(took("http/1.1", 0).await, [FIRST_WORDS_TIMEOUT, NONE]);
    }
}
