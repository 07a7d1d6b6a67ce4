//! A client that knows as little as possible: it sends what it is told to and hands back what comes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// Within this a server answers, and an event that is to come has come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Connections to one server.
#[derive(Debug)]
pub(crate) struct Http {
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    base: String,
}

/// Certificates in PEM: whom to trust and, where one is needed, who we are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pem {
    pub(crate) authority: Vec<u8>,
    pub(crate) identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Http {
    /// To the server at `base`, such as `https://127.0.0.1:6443`.
    pub(crate) fn new(base: &str, pem: &Pem) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem.authority) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let tls = match &pem.identity {
            None => tls.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain)
                    .collect::<Result<_, _>>()
                    .map_err(|error| error.to_string())?;
                let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| error.to_string())?;
                tls.with_client_auth_cert(chain, key)
                    .map_err(|error| error.to_string())?
            }
        };
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            base: base.trim_end_matches('/').to_owned(),
        })
    }

    /// Sends a request and waits for the head of its answer.
    pub(crate) async fn head(
        &self,
        method: &str,
        path: &str,
        headers: &[(String, String)],
        body: Vec<u8>,
    ) -> Result<Response<Incoming>, String> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            // The default field manager is what stands before the slash.
            .header("user-agent", "conformance/1");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::from(body))
            .map_err(|error| format!("{method} {path}: {error}"))?;
        match tokio::time::timeout(PATIENCE, self.client.request(request)).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(format!("{method} {path}: {}", chain(&error))),
            Err(_) => Err(format!("{method} {path}: no answer in {PATIENCE:?}")),
        }
    }
}

/// The rest of an answer.
pub(crate) async fn whole(body: Incoming) -> Result<Bytes, String> {
    match tokio::time::timeout(PATIENCE, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(format!("broken off: {}", chain(&error))),
        Err(_) => Err(format!("no end in {PATIENCE:?}")),
    }
}

/// Lines of an answer that has no end.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Incoming,
    read: Vec<u8>,
}

impl Lines {
    pub(crate) fn new(body: Incoming) -> Self {
        Self {
            body,
            read: Vec::new(),
        }
    }

    /// The next line; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<u8>>, String> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.read.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            match tokio::time::timeout(PATIENCE, self.body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    if let Ok(data) = frame.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
                Ok(Some(Err(error))) => return Err(format!("broken off: {}", chain(&error))),
                Ok(None) if self.read.is_empty() => return Ok(None),
                Ok(None) => return Ok(Some(std::mem::take(&mut self.read))),
                Err(_) => return Err(format!("nothing more came in {PATIENCE:?}")),
            }
        }
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", chain(source)),
        None => error.to_string(),
    }
}
