//! Conversion webhooks: asks whoever a definition names, over HTTPS.
//!
//! `review` knows what is said, this file how it gets there.

mod review;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::pods::PodStream;
use super::{ApiError, ApiServer};

/// Longest wait for a webhook, as a real server has it.
const DEADLINE: Duration = Duration::from_secs(30);

/// Reaches webhooks in place of TCP.
pub trait WebhookDial: Send + Sync + 'static {
    /// Opens a plain stream to a host and a port; TLS is done on top. A Service is
    /// `NAME.NAMESPACE.svc`.
    fn dial(&self, host: &str, port: u16) -> BoxFuture<'static, io::Result<Box<dyn PodStream>>>;
}

/// The way to webhooks.
#[derive(Default)]
pub(super) struct Webhooks {
    dialer: RwLock<Option<Arc<dyn WebhookDial>>>,
}

impl Webhooks {
    pub(super) fn set_dialer(&self, dialer: Arc<dyn WebhookDial>) {
        *self.dialer.write().unwrap_or_else(PoisonError::into_inner) = Some(dialer);
    }

    fn dialer(&self) -> Option<Arc<dyn WebhookDial>> {
        self.dialer
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// Where a webhook is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    host: String,
    port: u16,
    path: String,
    /// Namespace and name of the Service, where it is one.
    service: Option<(String, String)>,
}

/// Has objects of one kind converted, all in one request.
///
/// # Errors
/// 500 in the words of a real server, where the webhook is not reached or answers nonsense.
pub(super) async fn convert(
    server: &ApiServer,
    objects: Vec<Value>,
    desired: &str,
    webhook: &Value,
) -> Result<Vec<Value>, ApiError> {
    let Some(first) = objects.first() else {
        return Ok(objects);
    };
    let kind = review::kind(first);
    // Nobody compares it with another one; the answer has to repeat it.
    let uid = format!("conversion-{}", server.resource_version());
    let body = review::request(&uid, &objects, desired).to_string();
    let asked = tokio::time::timeout(DEADLINE, ask(server, webhook, body.into())).await;
    let answer = match asked {
        Ok(Ok(answer)) => review::read(&uid, &objects, desired, &answer),
        Ok(Err(problem)) => Err(problem),
        Err(_) => Err("context deadline exceeded".to_owned()),
    };
    answer.map_err(|problem| {
        let message = format!("conversion webhook for {kind} failed: {problem}");
        ApiError::new(500, "InternalError", message)
    })
}

async fn ask(server: &ApiServer, webhook: &Value, body: Bytes) -> Result<Value, String> {
    let config = &webhook["clientConfig"];
    let config = if config.is_object() { config } else { webhook };
    let place = place(config)?;
    let post = |problem: &dyn std::fmt::Display| {
        format!(
            "Post \"https://{}:{}{}\": {problem}",
            place.host, place.port, place.path
        )
    };
    let stream = dial(server, &place).await.map_err(|error| post(&error))?;
    let tls = TlsConnector::from(trust(config)?);
    let name = ServerName::try_from(place.host.clone()).map_err(|error| error.to_string())?;
    let stream = tls
        .connect(name, stream)
        .await
        .map_err(|error| post(&error))?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| post(&error))?;
    let request = http::Request::post(&place.path)
        .header(HOST, format!("{}:{}", place.host, place.port))
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| post(&error))?;
        let status = response.status();
        let bytes = response
            .into_body()
            .collect()
            .await
            .map_err(|error| post(&error))?
            .to_bytes();
        if !status.is_success() {
            let text = String::from_utf8_lossy(&bytes);
            return Err(format!(
                "the server responded with the status code {} ({text:?})",
                status.as_u16()
            ));
        }
        serde_json::from_slice(&bytes).map_err(|error| error.to_string())
    };
    tokio::select! {
        biased;
        answer = exchange => answer,
        ended = connection => Err(match ended {
            Ok(()) => post(&"EOF"),
            Err(error) => post(&error),
        }),
    }
}

fn place(config: &Value) -> Result<Place, String> {
    if let Some(url) = config["url"].as_str() {
        let uri: http::Uri = url
            .parse()
            .map_err(|error| format!("invalid url {url:?}: {error}"))?;
        return Ok(Place {
            host: uri
                .host()
                .unwrap_or_default()
                .trim_matches(['[', ']'])
                .to_owned(),
            port: uri.port_u16().unwrap_or(443),
            path: uri
                .path_and_query()
                .map_or_else(|| "/".to_owned(), ToString::to_string),
            service: None,
        });
    }
    let service = &config["service"];
    let text = |field: &str| service[field].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    if name.is_empty() {
        return Err("neither a url nor a service is named".to_owned());
    }
    let path = text("path");
    Ok(Place {
        host: format!("{name}.{namespace}.svc"),
        port: service["port"]
            .as_u64()
            .and_then(|port| u16::try_from(port).ok())
            .unwrap_or(443),
        path: if path.starts_with('/') {
            path
        } else {
            format!("/{path}")
        },
        service: Some((namespace, name)),
    })
}

/// The certificates that a webhook is trusted by.
fn trust(config: &Value) -> Result<Arc<rustls::ClientConfig>, String> {
    let bundle = STANDARD
        .decode(config["caBundle"].as_str().unwrap_or_default())
        .map_err(|error| format!("unable to load root certificates: {error}"))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bundle) {
        let certificate =
            certificate.map_err(|error| format!("unable to load root certificates: {error}"))?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// Opens a stream: as it was set, else to a pod behind the Service, else over TCP.
async fn dial(server: &ApiServer, place: &Place) -> io::Result<Box<dyn PodStream>> {
    if let Some(dialer) = server.webhooks().dialer() {
        return dialer.dial(&place.host, place.port).await;
    }
    let Some((namespace, name)) = &place.service else {
        let stream = TcpStream::connect((place.host.as_str(), place.port)).await?;
        return Ok(Box::new(stream));
    };
    let (pod, address, port) = server
        .backend(namespace, name, place.port)
        .ok_or_else(|| io::Error::other(format!("no endpoints available for service {name:?}")))?;
    match server.dialer() {
        Some(dialer) => dialer.dial(namespace, &pod, port, false).await,
        None => Ok(Box::new(
            TcpStream::connect((address.as_str(), port)).await?,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn webhooks_are_services_or_urls() {
        let service = json!({"service": {"namespace": "a", "name": "b", "path": "convert"}});
        let found = place(&service).unwrap();
        assert_eq!(
            (found.host.as_str(), found.port, found.path.as_str()),
            ("b.a.svc", 443, "/convert")
        );
        let url = json!({"url": "https://127.0.0.1:9443/x?y=z"});
        let found = place(&url).unwrap();
        assert_eq!(
            (found.host.as_str(), found.port, found.path.as_str()),
            ("127.0.0.1", 9443, "/x?y=z")
        );
        assert!(place(&json!({})).is_err());
    }
}
