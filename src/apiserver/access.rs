//! How a server is reached and trusted: its certificate, and a kubeconfig for each client.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use serde_json::json;

/// What clients need to know of a server, and what it needs to be trusted by them.
pub struct Access {
    name: String,
    tls: Option<Tls>,
}

struct Tls {
    /// PEM of the authority that signed the server's certificate.
    authority: String,
    server: Arc<ServerConfig>,
}

impl Access {
    /// Without TLS. `name` is the cluster's in kubeconfigs.
    #[must_use]
    pub fn plain(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            tls: None,
        }
    }

    /// With TLS: a new authority, with a certificate for `hosts` (names and addresses). The error says
    /// what is wrong with them.
    pub fn tls(name: &str, hosts: impl Into<Vec<String>>) -> Result<Self, String> {
        let words = |error: rcgen::Error| error.to_string();
        let key = KeyPair::generate().map_err(words)?;
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, format!("{name}-ca"));
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let authority = params.self_signed(&key).map_err(words)?.pem();
        let issuer = Issuer::from_ca_cert_pem(&authority, key).map_err(words)?;

        let key = KeyPair::generate().map_err(words)?;
        let mut params = CertificateParams::new(hosts).map_err(words)?;
        params.distinguished_name.push(DnType::CommonName, name);
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
        let server = Arc::new(server);
        Ok(Self {
            name: name.to_owned(),
            tls: Some(Tls { authority, server }),
        })
    }

    /// What the server serves with; `None` without TLS.
    #[must_use]
    pub fn server(&self) -> Option<Arc<ServerConfig>> {
        self.tls.as_ref().map(|tls| Arc::clone(&tls.server))
    }

    /// A kubeconfig of one user, whom the server knows by `token`.
    #[must_use]
    pub fn kubeconfig(&self, address: SocketAddr, user: &str, token: &str) -> String {
        let authority = self.tls.as_ref().map(|tls| STANDARD.encode(&tls.authority));
        kubeconfig(&self.name, address, authority.as_deref(), user, token)
    }
}

fn kubeconfig(
    name: &str,
    address: SocketAddr,
    authority: Option<&str>,
    user: &str,
    token: &str,
) -> String {
    let cluster = match authority {
        None => json!({"server": format!("http://{address}")}),
        Some(authority) => json!({
            "server": format!("https://{address}"),
            "certificate-authority-data": authority,
        }),
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{
            "name": name,
            "context": {"cluster": name, "user": user, "namespace": "default"},
        }],
        "current-context": name,
    });
    serde_yaml::to_string(&config).expect("JSON is YAML")
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
        let hosts = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let access = Access::tls("mainstay-demo", hosts).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut config = (*access.server().unwrap()).clone();
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

    #[test]
    fn the_kubeconfig_is_one_that_clients_read() {
        let address = "127.0.0.1:6443".parse().unwrap();
        let text = kubeconfig("mainstay", address, Some("UEVN"), "mainstay", "t");
        let value: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        assert_eq!(
            value["clusters"][0]["cluster"]["server"],
            "https://127.0.0.1:6443"
        );
        assert_eq!(
            value["clusters"][0]["cluster"]["certificate-authority-data"],
            "UEVN"
        );
        assert_eq!(value["users"][0]["user"]["token"], "t");
    }
}
