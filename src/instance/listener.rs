//! The HTTPS listener.

use std::{convert::Infallible, sync::Arc, time::Duration};

use hyper::service::service_fn;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;

use super::{InstanceError, api::Api, tls::Certificate};

/// How long a client may take to say hello.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long a client may take to send a request's head.
const REQUEST_HEAD: Duration = Duration::from_secs(10);
/// A dead link is noticed after this pause and this wait (the client does the same).
const PING: Duration = Duration::from_secs(10);
const PONG: Duration = Duration::from_secs(5);
/// Most connections at a time: the operator's replicas and the kubelet need a few.
const CONNECTIONS: usize = 128;

/// Opens the listener.
pub(super) async fn listen(address: std::net::SocketAddr) -> Result<TcpListener, InstanceError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| InstanceError::Listen { address, source })
}

/// Serves for ever.
pub(super) async fn serve(listener: TcpListener, certificate: Certificate, api: Api) {
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = free.clone().acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let (certificate, api) = (certificate.clone(), api.clone());
                tokio::spawn(async move {
                    let _slot = slot;
                    if let Err(error) = connection(stream, &certificate, api).await {
                        tracing::debug!(%error, "connection");
                    }
                });
            }
            // Out of descriptors, most likely: others have to go first.
            Err(error) => {
                tracing::warn!(%error, "accept");
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn connection(
    stream: TcpStream,
    certificate: &Certificate,
    api: Api,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    stream.set_nodelay(true)?;
    let acceptor = TlsAcceptor::from(certificate.current());
    serve_stream(timeout(HANDSHAKE, acceptor.accept(stream)).await??, api).await
}

/// Answers the requests of one connection, until it ends.
pub(super) async fn serve_stream<S>(
    stream: S,
    api: Api,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let service = service_fn(move |request| {
        let api = api.clone();
        async move { Ok::<_, Infallible>(api.answer(request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG);
    builder
        .serve_connection(TokioIo::new(stream), service)
        .await
}
