//! How a connection is opened: TCP, or whatever a test or the simulation puts in its place.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

/// Longest wait for one TCP handshake. Short, because the call's own deadline pays for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle time until the kernel probes, then between its probes: with [`TCP_USER_TIMEOUT`] a dead
/// HTTP/1.1 link is noticed as fast as HTTP/2's pings notice theirs.
const TCP_KEEPALIVE: Duration = Duration::from_secs(10);
const TCP_KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest time that sent data may stay unacknowledged.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(15);

/// A byte stream to a server, before TLS.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens byte streams to servers. TLS, where the URL asks for it, is done on top.
pub trait Dial: Send + Sync + 'static {
    /// Opens a stream to the host and port of `server`.
    fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}

/// Dials over TCP: all addresses of the name, IPv6 and IPv4 raced.
pub(super) struct Tcp {
    connector: HttpConnector,
}

impl Tcp {
    pub(super) fn new() -> Self {
        Self {
            connector: tcp_connector(),
        }
    }
}

/// TCP with the bounds by which a dead link is noticed.
pub(super) fn tcp_connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(TCP_KEEPALIVE));
    connector.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
    connector
}

impl Dial for Tcp {
    fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let connecting = self.connector.clone().call(server);
        Box::pin(async move {
            let stream = connecting.await.map_err(io::Error::other)?;
            Ok(Box::new(stream.into_inner()) as Box<dyn Stream>)
        })
    }
}

/// [`Dial`] in the shape that hyper wants.
#[derive(Clone)]
pub(super) struct Dialer(pub(super) std::sync::Arc<dyn Dial>);

impl Service<Uri> for Dialer {
    type Response = TokioIo<Dialled>;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<TokioIo<Dialled>>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let dialling = self.0.dial(server);
        Box::pin(async move { Ok(TokioIo::new(Dialled(dialling.await?))) })
    }
}

/// A dialled stream that hyper's pool accepts.
pub(super) struct Dialled(Box<dyn Stream>);

impl Connection for Dialled {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Dialled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl AsyncWrite for Dialled {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }
}
