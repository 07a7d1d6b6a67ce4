//! How the API server is reached and trusted: its certificate, and a kubeconfig for each client.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use super::error::DemoError;

/// The API server's certificate, and the authority that signed it.
pub(super) struct Access {
    authority: String,
    server: Arc<ServerConfig>,
}

impl Access {
    /// A new authority with a certificate for this machine's own name and address.
    pub(super) fn new() -> Result<Self, DemoError> {
        Self::make().map_err(DemoError::Certificate)
    }

    fn make() -> Result<Self, String> {
        let words = |error: rcgen::Error| error.to_string();
        let key = KeyPair::generate().map_err(words)?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "mainstay-demo-ca");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&key).map_err(words)?.pem();
        let issuer = Issuer::from_ca_cert_pem(&authority, key).map_err(words)?;

        let key = KeyPair::generate().map_err(words)?;
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).map_err(words)?;
        params
            .distinguished_name
            .push(DnType::CommonName, "mainstay-demo");
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &issuer).map_err(words)?;
        let key = PrivateKeyDer::try_from(key.serialize_der())?;

        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.into()], key)
            .map_err(|error| error.to_string())?;
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            authority,
            server: Arc::new(server),
        })
    }

    /// What the API server serves with.
    pub(super) fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    /// A kubeconfig of one user, whom the API server knows by `token`.
    pub(super) fn kubeconfig(&self, address: SocketAddr, user: &str, token: &str) -> String {
        let authority = STANDARD.encode(&self.authority);
        format!(
            "\
apiVersion: v1
kind: Config
clusters:
- name: mainstay-demo
  cluster:
    server: https://{address}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    token: {token}
contexts:
- name: mainstay-demo
  context:
    cluster: mainstay-demo
    user: {user}
    namespace: default
current-context: mainstay-demo
"
        )
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;
    use tokio_rustls::TlsAcceptor;

    use super::*;
    use crate::client::{Client, ClientOptions, Config, ConfigSource};

    #[tokio::test]
    async fn a_client_with_the_kubeconfig_trusts_the_server_and_shows_its_token() {
        let access = Access::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = (*access.server()).clone();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let server = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = TlsAcceptor::from(Arc::new(config));
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let body = r#"{"gitVersion":"v1"}"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            String::from_utf8(request[..length].to_vec()).unwrap()
        });
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kubeconfig");
        std::fs::write(&file, access.kubeconfig(address, "me", "s3cret")).unwrap();
        let source = ConfigSource {
            kubeconfig: Some(file),
            context: None,
        };
        let config = Config::load(&source).await.unwrap();
        let client = Client::new(config, ClientOptions::default()).unwrap();
        assert_eq!(client.namespace(), "default");
        assert_eq!(client.server_version().await.unwrap(), "v1");
        let request = server.await.unwrap().to_lowercase();
        assert!(
            request.contains("authorization: bearer s3cret"),
            "{request}"
        );
    }
}
