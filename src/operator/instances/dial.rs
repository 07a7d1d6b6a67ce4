//! How a connection to an instance manager is opened: TCP and TLS, or whatever the simulation puts in
//! their place.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::Address;
use crate::client::Stream;
use crate::instance::PORT;

/// Until a connection stands.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Opens connections to instance managers.
pub trait InstanceDial: Send + Sync + 'static {
    /// A stream to the instance at `address`, which has proven to be the one that its certificate
    /// names, and which nobody else can read. An address that does not answer is found unroutable
    /// within two seconds; beyond that the caller limits the time.
    fn dial(&self, address: &Address) -> BoxFuture<'static, Result<Box<dyn Stream>, DialError>>;
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nothing answers at the address: it may not be routable from here.
    #[error("{0}")]
    Unroutable(String),
    /// The way there is good, or would not get better through somebody else.
    #[error("{0}")]
    Other(String),
}

/// TCP to the pod's address, and TLS with the cluster's own authority.
#[derive(Clone, Copy, Debug, Default)]
pub struct Direct;

impl InstanceDial for Direct {
    fn dial(&self, address: &Address) -> BoxFuture<'static, Result<Box<dyn Stream>, DialError>> {
        let address = address.clone();
        Box::pin(async move {
            let stream = connect(&address.ip).await?;
            secure(&address, stream).await
        })
    }
}

/// TLS over `stream` to the instance at `address`, which must prove to be that one.
pub(crate) async fn secure(
    address: &Address,
    stream: impl Stream + 'static,
) -> Result<Box<dyn Stream>, DialError> {
    let (tls, name) = security(address).map_err(DialError::Other)?;
    match tls.connect(name, stream).await {
        Ok(stream) => Ok(Box::new(stream)),
        Err(error) => Err(DialError::Other(format!("TLS: {error}"))),
    }
}

fn security(address: &Address) -> Result<(TlsConnector, ServerName<'static>), String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&address.ca) {
        let certificate = certificate.map_err(|e| format!("the cluster's CA: {e}"))?;
        roots
            .add(certificate)
            .map_err(|e| format!("the cluster's CA: {e}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    // It is of this connection alone: a memory of sessions would take more than all the rest of it.
    config.resumption = rustls::client::Resumption::disabled();
    let name = ServerName::try_from(address.host.clone()).map_err(|e| e.to_string())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

async fn connect(ip: &str) -> Result<TcpStream, DialError> {
    let ip: IpAddr = ip
        .parse()
        .map_err(|_| DialError::Other("the pod has no address yet".into()))?;
    match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((ip, PORT))).await {
        Err(_) => Err(DialError::Unroutable(format!(
            "{ip}:{PORT} does not answer"
        ))),
        // Refused comes from the pod: the way there is good.
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
            Err(DialError::Other(format!("{ip}:{PORT}: {error}")))
        }
        Ok(Err(error)) => Err(DialError::Unroutable(format!("{ip}:{PORT}: {error}"))),
        Ok(Ok(stream)) => {
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
    }
}
