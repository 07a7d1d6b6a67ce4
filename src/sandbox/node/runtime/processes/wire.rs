//! TLS and HTTP as a kubelet and the API server's proxy speak them to a pod: they trust any
//! certificate, for they know whom they dial.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::{Stream, anyone};

/// The most of an answer that a message shows.
const SHOWN: usize = 200;

/// TLS with whoever is there.
pub(super) async fn open(stream: TcpStream, ip: IpAddr) -> io::Result<Box<dyn Stream>> {
    let config = anyone().map_err(io::Error::other)?.with_no_client_auth();
    let connector = TlsConnector::from(Arc::new(config));
    let stream = connector
        .connect(ServerName::IpAddress(ip.into()), stream)
        .await?;
    Ok(Box::new(stream))
}

/// GET, which must answer 2xx or 3xx.
pub(super) async fn get(
    stream: TcpStream,
    address: SocketAddr,
    path: &str,
    tls: bool,
) -> Result<(), String> {
    let words = |error: &dyn std::fmt::Display| format!("Get {path:?}: {error}");
    let stream: Box<dyn Stream> = if tls {
        open(stream, address.ip())
            .await
            .map_err(|error| words(&error))?
    } else {
        Box::new(stream)
    };
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| words(&error))?;
    let request = Request::get(path)
        .header(header::HOST, address.to_string())
        .header(header::USER_AGENT, "kube-probe/1.37")
        .body(Empty::<Bytes>::new())
        .map_err(|error| words(&error))?;
    let answer = sender.send_request(request);
    // With it goes what a connection that ends just now may have left in its queue.
    drop(sender);
    let exchange = async {
        let answer = answer.await?;
        let status = answer.status();
        let body = answer.into_body().collect().await?.to_bytes();
        Ok::<_, hyper::Error>((status, body))
    };
    let connection = tokio::spawn(connection);
    let answer = exchange.await;
    connection.abort();
    let (status, body) = answer.map_err(|error| words(&error))?;
    if status.is_success() || status.is_redirection() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&body);
    let text = &text[..text.floor_char_boundary(SHOWN)];
    Err(format!(
        "HTTP probe failed with statuscode: {}: {}",
        status.as_u16(),
        text.trim()
    ))
}
