//! An authority, the certificates that it gives, and a server that knows which of them are good now.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};

/// Signs.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
pub(crate) struct Identity {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// A new one.
pub(crate) fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::from_ca_cert_pem(&pem, key).unwrap();
    Authority { pem, issuer }
}

impl Authority {
    /// A certificate for `host` that is made to be as `shape` says.
    pub(crate) fn sign(&self, host: &str, shape: impl FnOnce(&mut CertificateParams)) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        shape(&mut params);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// A client's certificate.
    pub(crate) fn client(&self) -> Identity {
        self.sign("me", |_| ())
    }

    /// TLS for `host`, for clients that `known` lets in.
    pub(crate) fn server(&self, host: &str, known: &Arc<Known>) -> Arc<ServerConfig> {
        let Identity { certificate, key } = self.sign(host, |_| ());
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(Arc::clone(known) as Arc<dyn ClientCertVerifier>)
            .with_single_cert(vec![der(&certificate)], private(&key))
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

pub(crate) fn der(certificate: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()
}

pub(crate) fn private(key: &str) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()
}

/// Lets in whose certificate is good at the moment, and remembers who came.
#[derive(Debug)]
pub(crate) struct Known {
    signed: Arc<dyn ClientCertVerifier>,
    provider: CryptoProvider,
    good: Mutex<Vec<CertificateDer<'static>>>,
    seen: Mutex<Vec<CertificateDer<'static>>>,
    /// How often somebody was refused.
    refusals: AtomicUsize,
}

impl Known {
    pub(crate) fn new(authority: &str) -> Arc<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(der(authority)).unwrap();
        let provider = Arc::new(ring::default_provider());
        let signed = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .unwrap();
        Arc::new(Self {
            signed,
            provider: ring::default_provider(),
            good: Mutex::default(),
            seen: Mutex::default(),
            refusals: AtomicUsize::new(0),
        })
    }

    /// How often somebody was refused.
    pub(crate) fn refusals(&self) -> usize {
        self.refusals.load(Ordering::SeqCst)
    }

    pub(crate) fn accept(&self, identity: &Identity) {
        self.good.lock().unwrap().push(der(&identity.certificate));
    }

    pub(crate) fn refuse(&self, identity: &Identity) {
        let refused = der(&identity.certificate);
        self.good.lock().unwrap().retain(|good| *good != refused);
    }

    pub(crate) fn has_seen(&self, identity: &Identity) -> bool {
        self.seen
            .lock()
            .unwrap()
            .contains(&der(&identity.certificate))
    }
}

impl ClientCertVerifier for Known {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.signed.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .signed
            .verify_client_cert(certificate, intermediates, now)?;
        if !self
            .good
            .lock()
            .unwrap()
            .iter()
            .any(|good| good == certificate)
        {
            self.refusals.fetch_add(1, Ordering::SeqCst);
            return Err(CertificateError::Revoked.into());
        }
        self.seen
            .lock()
            .unwrap()
            .push(certificate.clone().into_owned());
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
