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
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::client::Stream;

/// The most of an answer that a message shows.
const SHOWN: usize = 200;

/// TLS with whoever is there.
pub(super) async fn open(stream: TcpStream, ip: IpAddr) -> io::Result<Box<dyn Stream>> {
    let provider = Arc::new(ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
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
    let exchange = async {
        let answer = sender.send_request(request).await?;
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

/// Accepts any certificate; signatures are still checked.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
