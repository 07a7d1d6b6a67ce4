//! The edge: connections, and requests from bytes to bytes.

mod accept;
mod admin;
mod answer;
mod asked;
mod body;
mod damage;
mod document;
mod json;
mod page;
mod pods;
mod query;
mod relay;
mod respond;
mod route;
mod stream;
mod suffer;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::ApiServer;

/// Body of an answer. An error breaks the connection off.
pub(super) type Body = UnsyncBoxBody<Bytes, io::Error>;

/// Pause after a failed accept (as when file descriptors ran out).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a client may take for its TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Streams of one HTTP/2 connection, as a real server allows: watches of many clients may share one.
const MAX_STREAMS: u32 = 1000;

/// What a request may do to its connection.
#[derive(Debug, Default)]
pub(super) struct Control {
    broken: AtomicBool,
    leaving: AtomicBool,
    changed: Notify,
}

impl Control {
    /// Breaks the connection off, with all that runs on it.
    pub(super) fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
        self.changed.notify_one();
    }

    /// Winds the connection down: GOAWAY, or `Connection: close`.
    pub(super) fn wind_down(&self) {
        self.leaving.store(true, Ordering::Release);
        self.changed.notify_one();
    }
}

/// What is known of a connection before its first byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// Nothing: the client begins.
    Any,
    /// HTTP/2, which the server may begin.
    Http2,
}

impl Protocol {
    /// What client and server agreed upon.
    fn of<S>(stream: &TlsStream<S>) -> Self {
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            Self::Http2
        } else {
            Self::Any
        }
    }
}

/// See [`ApiServer::serve_stream`].
pub(super) async fn connection<S>(server: &ApiServer, stream: S)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    serve(server, stream, Protocol::Any, false).await;
}

/// `admits`: a connection that is opened while the server is frozen is served, so that `/faults` can
/// thaw it; its other requests wait.
async fn serve<S>(server: &ApiServer, stream: S, protocol: Protocol, admits: bool)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let control = Arc::new(Control::default());
    let service = {
        let (server, control) = (server.clone(), Arc::clone(&control));
        service_fn(move |request| {
            let (server, control) = (server.clone(), Arc::clone(&control));
            async move { Ok::<_, Infallible>(respond::respond(server, control, request).await) }
        })
    };
    let mut builder = auto::Builder::new(TokioExecutor::new());
    if protocol == Protocol::Http2 {
        builder = builder.http2_only();
    }
    // Dates come from the machine's clock, which a simulation must not see.
    builder
        .http1()
        .timer(TokioTimer::new())
        .auto_date_header(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .max_concurrent_streams(MAX_STREAMS);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let faults = server.faults();
    let mut thawed = faults.thawed();
    let mut exempt = admits && faults.is_frozen();
    loop {
        let changed = control.changed.notified();
        let ended = poll_fn(|context| {
            exempt = exempt && faults.is_frozen();
            if !exempt {
                ready!(Pin::new(&mut thawed).poll(context));
            }
            connection.as_mut().poll(context)
        });
        tokio::select! {
            biased;
            () = changed => {
                if control.broken.load(Ordering::Acquire) {
                    return;
                }
                if control.leaving.swap(false, Ordering::AcqRel) {
                    connection.as_mut().graceful_shutdown();
                }
            }
            ended = ended => {
                if let Err(error) = ended {
                    tracing::trace!(%error, "a connection ended");
                }
                return;
            }
        }
    }
}

/// See [`ApiServer::serve`].
pub(super) async fn listen(
    server: &ApiServer,
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    stop: impl Future<Output = ()>,
) {
    let acceptor = tls.map(TlsAcceptor::from);
    let mut connections = JoinSet::new();
    let mut stop = pin!(stop);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => return,
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "can't accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Answers are written whole; waiting for more would only delay them.
        let _ = stream.set_nodelay(true);
        let (server, acceptor) = (server.clone(), acceptor.clone());
        connections.spawn(async move {
            let Some(acceptor) = acceptor else {
                return serve(&server, stream, Protocol::Any, true).await;
            };
            match tokio::time::timeout(HANDSHAKE_LIMIT, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let protocol = Protocol::of(&stream);
                    serve(&server, stream, protocol, true).await;
                }
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            }
        });
    }
}

/// A body that is there already.
pub(super) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// Stays pending once the connection is broken off: there is nobody left to answer.
pub(super) async fn never<T>() -> T {
    poll_fn(|_| Poll::Pending).await
}

#[cfg(test)]
mod tests;
