//! How a connection is opened: TCP, or whatever a test or the simulation puts in its place.

use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::client::ResolvesClientCert as _;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

use super::addresses::Rotating;
use super::link::Link;
use super::tls::Identity;

pub(super) type BoxError = Box<dyn Error + Send + Sync>;

/// Longest wait for TCP, all addresses of a name together. Short, because the call's own deadline pays
/// for it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait for a connection that can be used, TLS included: a server that takes connections and
/// says nothing must leave time for another try within a call's deadline (15 s).
pub(super) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(8);
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

/// Dials over TCP: the addresses of a name in turn, IPv6 and IPv4 raced.
pub(super) struct Tcp<R = GaiResolver> {
    connector: HttpConnector<Rotating<R>>,
}

impl Tcp {
    pub(super) fn new() -> Self {
        Self::resolved_by(GaiResolver::new())
    }
}

impl<R> Tcp<R> {
    /// With names resolved by `resolver`.
    pub(super) fn resolved_by(resolver: R) -> Self {
        Self {
            connector: tcp_connector(Rotating::new(resolver)),
        }
    }
}

/// TCP with the bounds by which a dead link is noticed.
pub(super) fn tcp_connector<R>(resolver: R) -> HttpConnector<R> {
    let mut connector = HttpConnector::new_with_resolver(resolver);
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_TIMEOUT));
    connector.set_keepalive(Some(TCP_KEEPALIVE));
    connector.set_keepalive_interval(Some(TCP_KEEPALIVE_INTERVAL));
    #[cfg(target_os = "linux")]
    connector.set_tcp_user_timeout(Some(TCP_USER_TIMEOUT));
    connector
}

impl<R> Dial for Tcp<R>
where
    R: Service<Name, Error: Into<BoxError>> + Clone + Send + Sync + 'static,
    R::Response: Iterator<Item = SocketAddr>,
    R::Future: Send + 'static,
{
    fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let mut connector = self.connector.clone();
        Box::pin(async move {
            let stream = connector.call(server).await.map_err(io::Error::other)?;
            Ok(Box::new(stream.into_inner()) as Box<dyn Stream>)
        })
    }
}

/// What it takes to reach a server: TLS and all.
#[derive(Clone)]
pub(super) struct Connect {
    pub(super) connector: HttpsConnector<Dialer>,
    /// What servers are shown.
    pub(super) identity: Arc<Identity>,
}

impl Connect {
    /// A link to `server`, however long that takes.
    pub(super) async fn link(mut self, server: Uri) -> Result<Link, BoxError> {
        poll_fn(|cx| self.connector.poll_ready(cx)).await?;
        let opened = self.connector.call(server).await?;
        if self.identity.has_certs() {
            Ok(Link::admitted(opened).await?)
        } else {
            Ok(Link::new(opened))
        }
    }
}

/// [`Dial`] in the shape that hyper wants.
#[derive(Clone)]
pub(super) struct Dialer(pub(super) Arc<dyn Dial>);

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
pub(super) struct Dialled(pub(super) Box<dyn Stream>);

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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use socket2::SockRef;

    #[tokio::test]
    async fn cgo374_the_kernel_is_told_to_notice_a_dead_http1_link_within_15_seconds() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mut connector = tcp_connector(GaiResolver::new());
        let stream = connector.call(url.parse().unwrap()).await.unwrap();
        let stream = stream.into_inner();
        let socket = SockRef::from(&stream);
        assert!(socket.keepalive().unwrap() && socket.tcp_nodelay().unwrap());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), TCP_KEEPALIVE);
        assert_eq!(
            socket.tcp_keepalive_interval().unwrap(),
            TCP_KEEPALIVE_INTERVAL
        );
        // The kernel gives an idle link up at this age, once a probe has stayed unanswered.
        assert_eq!(socket.tcp_user_timeout().unwrap(), Some(TCP_USER_TIMEOUT));
    }
}
