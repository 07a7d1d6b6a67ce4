//! TLS as API servers use it: given roots, client certificates, and ring given explicitly (never the
//! process's default provider, which another library may set).

use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, Resumption, WantsClientCert, WebPkiServerVerifier};
use rustls::crypto::{self, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    WantsVerifier,
};

use crate::client::config::Trust;

/// Bundles of public roots: `SSL_CERT_FILE`, then where distributions put them (Go's list).
const SYSTEM_BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The certificates of a PEM text; at least one.
pub(in crate::client) fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("not PEM: {error}"))?;
    if certificates.is_empty() {
        return Err("no certificate in it; a PEM text is expected".to_owned());
    }
    Ok(certificates)
}

/// A client certificate chain with its private key, both PEM.
pub(in crate::client) fn identity(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain = certificates(chain)?;
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| format!("the key is no usable PEM private key: {error}"))?;
    CertifiedKey::from_der(chain, key, &provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => "certificate and key do not match".to_owned(),
        error => format!("certificate and key are not usable: {error}"),
    })
}

fn provider() -> CryptoProvider {
    crypto::ring::default_provider()
}

/// The client certificate that handshakes show. An `exec` plugin may replace it; connections made
/// later use the new one.
#[derive(Debug, Default)]
pub(in crate::client) struct Identity {
    current: RwLock<Current>,
}

#[derive(Clone, Debug, Default)]
struct Current {
    key: Option<Arc<CertifiedKey>>,
    generation: u64,
}

impl Identity {
    pub(in crate::client) fn new(key: Option<Arc<CertifiedKey>>) -> Self {
        let current = Current { key, generation: 0 };
        Self {
            current: RwLock::new(current),
        }
    }

    fn current(&self) -> Current {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Grows with each [`replace`](Self::replace): connections of an older one should be left.
    pub(in crate::client) fn generation(&self) -> u64 {
        self.current().generation
    }

    /// The same, unless it is shown already. Whether it was replaced.
    pub(super) fn replace_if_other(&self, key: CertifiedKey) -> bool {
        let shown = self
            .current()
            .key
            .is_some_and(|shown| shown.cert == key.cert);
        if !shown {
            self.replace(key.into());
        }
        !shown
    }

    pub(in crate::client) fn replace(&self, key: Arc<CertifiedKey>) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        current.key = Some(key);
        current.generation += 1;
    }
}

impl ResolvesClientCert for Identity {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current().key
    }

    fn has_certs(&self) -> bool {
        self.current().key.is_some()
    }
}

/// How servers are verified. Roots that were given can be replaced: handshakes made after that use the
/// new ones, connections that stand are left alone. Signatures are checked in any case.
pub(super) struct Verifier {
    provider: CryptoProvider,
    /// `None` accepts any certificate, as `insecure-skip-tls-verify` asks.
    roots: Option<RwLock<Roots>>,
}

struct Roots {
    certificates: Arc<Vec<CertificateDer<'static>>>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl Roots {
    fn new(certificates: Arc<Vec<CertificateDer<'static>>>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates.iter() {
            roots
                .add(certificate.clone())
                .map_err(|error| error.to_string())?;
        }
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(provider()))
                .build()
                .map_err(|error| error.to_string())?;
        Ok(Self {
            certificates,
            verifier,
        })
    }
}

impl Verifier {
    fn new(roots: Option<Roots>) -> Arc<Self> {
        Arc::new(Self {
            provider: provider(),
            roots: roots.map(RwLock::new),
        })
    }

    /// Whether these are other roots than before, and so are used from now on.
    pub(super) fn replace(
        &self,
        certificates: Vec<CertificateDer<'static>>,
    ) -> Result<bool, String> {
        let Some(roots) = &self.roots else {
            return Ok(false);
        };
        let mut roots = roots.write().unwrap_or_else(PoisonError::into_inner);
        if *roots.certificates == certificates {
            return Ok(false);
        }
        *roots = Roots::new(certificates.into())?;
        Ok(true)
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verifier")
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(roots) = &self.roots else {
            return Ok(ServerCertVerified::assertion());
        };
        let roots = roots.read().unwrap_or_else(PoisonError::into_inner);
        let verifier = &roots.verifier;
        verifier.verify_server_cert(certificate, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// The rustls configuration for servers trusted by `trust`, with the roots that can be replaced if they
/// were given. ALPN is set by the connector.
pub(super) fn client_config(
    trust: &Trust,
    identity: Arc<Identity>,
) -> Result<(ClientConfig, Option<Arc<Verifier>>), String> {
    let mut replaceable = None;
    let builder = match trust {
        Trust::System => versions()?.with_root_certificates(system_roots()?),
        Trust::Anyone => anyone()?,
        // Dangerous in name only: given roots are verified as rustls does.
        Trust::Roots(certificates) => {
            let verifier = Verifier::new(Some(Roots::new(Arc::clone(certificates))?));
            replaceable = Some(Arc::clone(&verifier));
            versions()?
                .dangerous()
                .with_custom_certificate_verifier(verifier)
        }
    };
    let mut config = builder.with_client_cert_resolver(identity);
    // A session that is resumed shows no certificate: the server would go on with the one that it saw
    // first, after a new one has taken its place. Connections are few and long, so it saves nothing.
    config.resumption = Resumption::disabled();
    Ok((config, replaceable))
}

fn versions() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, String> {
    ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())
}

/// The configuration for whoever is there: any certificate is taken, signatures are still checked.
pub(crate) fn anyone() -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, String> {
    let verifier = Verifier::new(None);
    Ok(versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier))
}

fn system_roots() -> Result<RootCertStore, String> {
    let named = std::env::var("SSL_CERT_FILE").ok();
    let candidates = named.iter().map(String::as_str).chain(SYSTEM_BUNDLES);
    for file in candidates.filter(|file| Path::new(file).exists()) {
        let pem = std::fs::read(file).map_err(|error| format!("can't read {file}: {error}"))?;
        let mut roots = RootCertStore::empty();
        // A public bundle may hold odd certificates that nothing here depends on.
        let (usable, _) = roots
            .add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
        if usable > 0 {
            return Ok(roots);
        }
    }
    let looked_at = SYSTEM_BUNDLES.join(", ");
    Err(format!(
        "no certificate-authority is given and no system roots are found (looked at {looked_at}); \
         set certificate-authority or SSL_CERT_FILE"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    #[test]
    fn k1962_a_replaced_identity_is_shown_by_later_handshakes() {
        let pair = rcgen::generate_simple_self_signed(["me".to_owned()]).unwrap();
        let key = pair.signing_key.serialize_pem();
        let mine = identity(pair.cert.pem().as_bytes(), key.as_bytes()).unwrap();
        let shown = Identity::new(None);
        assert!(!shown.has_certs());
        shown.replace(Arc::new(mine));
        assert!(shown.has_certs());
        assert_eq!(shown.generation(), 1);
    }
    #[tokio::test]
    async fn k1962_no_session_is_resumed_as_it_would_show_no_certificate() {
        let server = FakeServer::with_tls(&["fake"], &["h2"], |_| Reply::json("{}"));
        let trust = server.config_at("https://fake").tls.trust;
        let (config, _) = client_config(&trust, Arc::default()).unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        for _ in 0..2 {
            let (near, far) = tokio::io::duplex(64 << 10);
            let name = ServerName::try_from("fake").unwrap();
            let (client, server) =
                tokio::join!(connector.connect(name, near), server.acceptor().accept(far));
            let (mut client, mut server) = (client.unwrap(), server.unwrap());
            let kind = server.get_ref().1.handshake_kind();
            assert_eq!(kind, Some(rustls::HandshakeKind::Full));
            // The tickets for the next one come with what is read.
            server.write_all(b"x").await.unwrap();
            server.flush().await.unwrap();
            client.read_u8().await.unwrap();
            assert!(client.get_ref().1.tls13_tickets_received() > 0);
        }
    }
}
