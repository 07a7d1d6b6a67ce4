//! The certificates of a cluster: an authority of its own and one certificate for all instances,
//! which mysqld and the instance managers both present.

use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PublicKeyData as _, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;

use super::names::{
    headless_domain, headless_service, read_only_service, read_write_service, service_host,
};

/// Seconds of a day.
const DAY: i64 = 24 * 3600;
/// Ten years.
const CA_LIFETIME: i64 = 3650 * DAY;
/// One year.
const SERVER_LIFETIME: i64 = 365 * DAY;
/// A certificate is valid since an hour before it is made: clocks differ.
const SKEW: i64 = 3600;

/// A certificate and its key, both PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// The authority to use at `now`: `existing` while it is sound and has a third of its life left.
///
/// An authority that grows old is issued again for the same name and key, so that whoever trusts the
/// old certificate trusts what is signed from now on, and the other way round.
pub(super) fn authority(existing: Option<Pair>, cluster: &str, now: i64) -> Pair {
    let sound = existing.and_then(|pair| Some((expiry_of_authority(&pair)?, pair)));
    match sound {
        Some((expiry, pair)) if expiry - now > CA_LIFETIME / 3 => pair,
        Some((_, pair)) => {
            let key = KeyPair::from_pem(&pair.key).expect("it was parsed just now");
            new_authority(&key, cluster, now)
        }
        None => new_authority(&new_key(), cluster, now),
    }
}

/// When an authority expires (Unix seconds); `None` where it is not a certificate of an authority
/// with its key.
fn expiry_of_authority(pair: &Pair) -> Option<i64> {
    let key = KeyPair::from_pem(&pair.key).ok()?;
    let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
    let (_, certificate) = x509_parser::parse_x509_certificate(&der).ok()?;
    let sound = certificate.is_ca()
        && certificate.public_key().raw == key.subject_public_key_info().as_slice();
    sound.then(|| certificate.validity().not_after.timestamp())
}

fn new_authority(key: &KeyPair, cluster: &str, now: i64) -> Pair {
    let mut params = params(&format!("{cluster}-ca"), now, CA_LIFETIME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params.self_signed(key).expect("a key of ours signs");
    Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}

/// The instances' certificate to use at `now`: `existing` while it is signed by `authority`, valid
/// for all names and has a third of its life left.
pub(super) fn server(
    existing: Option<Pair>,
    authority: &Pair,
    cluster: &str,
    namespace: &str,
    now: i64,
) -> Pair {
    existing
        .filter(|pair| serves(pair, authority, cluster, namespace, now))
        .unwrap_or_else(|| new_server(authority, cluster, namespace, now))
}

fn new_server(authority: &Pair, cluster: &str, namespace: &str, now: i64) -> Pair {
    let mut params = params(&format!("{cluster}-instances"), now, SERVER_LIFETIME);
    params.subject_alt_names = CertificateParams::new(server_names(cluster, namespace))
        .expect("names of Kubernetes objects are ASCII")
        .subject_alt_names;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    params.use_authority_key_identifier_extension = true;
    let ca_key = KeyPair::from_pem(&authority.key).expect("`authority` checked or made it");
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, ca_key)
        .expect("`authority` checked or made it");
    let key = new_key();
    let certificate = params
        .signed_by(&key, &issuer)
        .expect("a key of ours signs");
    Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    }
}

/// Every name that instances are reached by: their own (as one wildcard), those of the Services in
/// each length that resolves, and what is local to the pod.
fn server_names(cluster: &str, namespace: &str) -> Vec<String> {
    let instances = headless_domain(cluster, namespace);
    let mut names = vec![
        format!("*.{instances}"),
        format!("*.{instances}.cluster.local"),
        format!("*.{}.{namespace}", headless_service(cluster)),
    ];
    for service in [read_write_service(cluster), read_only_service(cluster)] {
        let host = service_host(&service, namespace);
        names.extend([
            host.clone(),
            format!("{host}.cluster.local"),
            format!("{service}.{namespace}"),
            service,
        ]);
    }
    names.extend(["localhost".to_owned(), "127.0.0.1".to_owned()]);
    names
}

/// Whether a client of rustls would accept this certificate under every name, now and for another
/// third of a certificate's life, and the key is the certificate's.
fn serves(pair: &Pair, authority: &Pair, cluster: &str, namespace: &str, now: i64) -> bool {
    let provider = ring::default_provider();
    let check = || -> Option<bool> {
        let certificate = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).ok()?;
        CertifiedKey::from_der(vec![certificate.clone()], key, &provider).ok()?;
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).ok()?)
            .ok()?;
        let certificate = ParsedCertificate::try_from(&certificate).ok()?;
        let algorithms = provider.signature_verification_algorithms.all;
        let valid = |at: i64| {
            let at = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(at).ok()?));
            verify_server_cert_signed_by_trust_anchor(&certificate, &roots, &[], at, algorithms)
                .ok()
        };
        let named = |name: &String| {
            let name = ServerName::try_from(name.replace('*', "instance"));
            name.is_ok_and(|name| verify_server_name(&certificate, &name).is_ok())
        };
        valid(now)?;
        valid(now + SERVER_LIFETIME / 3)?;
        Some(server_names(cluster, namespace).iter().all(named))
    };
    check().unwrap_or(false)
}

/// ECDSA on P-256: taken by OpenSSL (mysqld) and rustls alike.
fn new_key() -> KeyPair {
    KeyPair::generate().expect("the system gives random bytes")
}

fn params(common_name: &str, now: i64, lifetime: i64) -> CertificateParams {
    let at = |seconds: i64| {
        date_time_ymd(1970, 1, 1) + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.not_before = at(now - SKEW);
    params.not_after = at(now + lifetime);
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    fn made() -> (Pair, Pair) {
        let authority = authority(None, "demo", NOW);
        let server = server(None, &authority, "demo", "shop", NOW);
        (authority, server)
    }

    fn kept(existing: &Pair, authority: &Pair, now: i64) -> bool {
        server(Some(existing.clone()), authority, "demo", "shop", now) == *existing
    }

    #[test]
    fn a_certificate_is_kept_until_a_third_of_its_life_is_left() {
        let (ca, server) = made();
        assert!(kept(&server, &ca, NOW));
        assert!(kept(&server, &ca, NOW + SERVER_LIFETIME * 2 / 3 - DAY));
        assert!(!kept(&server, &ca, NOW + SERVER_LIFETIME * 2 / 3 + DAY));
    }

    #[test]
    fn a_certificate_of_another_cluster_authority_or_key_is_replaced() {
        let (ca, pair) = made();
        let other = authority(None, "demo", NOW);
        assert!(!kept(&pair, &other, NOW));
        let elsewhere = server(None, &ca, "demo", "elsewhere", NOW);
        assert!(!kept(&elsewhere, &ca, NOW));
        let mixed = Pair {
            key: elsewhere.key,
            ..pair.clone()
        };
        assert!(!kept(&mixed, &ca, NOW));
        let broken = Pair {
            certificate: "x".to_owned(),
            ..pair
        };
        assert!(!kept(&broken, &ca, NOW));
    }

    #[test]
    fn an_authority_that_is_renewed_is_still_trusted_both_ways() {
        let (ca, server) = made();
        assert!(authority(Some(ca.clone()), "demo", NOW + CA_LIFETIME / 2) == ca);
        let late = NOW + CA_LIFETIME * 3 / 4;
        let renewed = authority(Some(ca.clone()), "demo", late);
        assert!(renewed.certificate != ca.certificate && renewed.key == ca.key);
        // What the old one signed is good under the new one, and what the new one signs under the old.
        assert!(serves(&server, &renewed, "demo", "shop", NOW));
        let newer = super::server(None, &renewed, "demo", "shop", late);
        assert!(serves(&newer, &ca, "demo", "shop", late));
    }

    #[test]
    fn an_authority_without_its_key_is_made_anew() {
        let (ca, server) = made();
        let other = authority(None, "demo", NOW);
        for broken in [
            Pair {
                key: other.key,
                ..ca.clone()
            },
            Pair {
                key: String::new(),
                ..ca.clone()
            },
            server,
        ] {
            let made = authority(Some(broken.clone()), "demo", NOW);
            assert!(made.key != broken.key && made.certificate != ca.certificate);
        }
    }

    #[test]
    fn instances_and_services_are_named() {
        let names = server_names("demo", "shop");
        for name in [
            "*.demo-instances.shop.svc",
            "*.demo-instances.shop.svc.cluster.local",
            "demo-rw.shop.svc",
            "demo-ro.shop.svc.cluster.local",
            "demo-rw",
            "localhost",
            "127.0.0.1",
        ] {
            assert!(names.iter().any(|n| n == name), "{name}");
        }
    }

    #[test]
    fn the_key_is_pkcs8() {
        assert!(made().1.key.starts_with("-----BEGIN PRIVATE KEY-----"));
    }
}
