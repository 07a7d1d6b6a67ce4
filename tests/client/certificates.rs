//! Servers that are not who they should be.

use std::sync::Arc;

use mainstay::client::{Error, POD};
use rcgen::{CertificateParams, date_time_ymd};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::identities::{Authority, authority, der, private};
use crate::raw_server::{SECRET, client};

/// Serves TLS with a certificate of `authority` that is made to be like this; its address.
async fn serve(
    authority: &Authority,
    host: &str,
    shape: impl FnOnce(&mut CertificateParams),
) -> String {
    let identity = authority.sign(host, shape);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![der(&identity.certificate)], private(&identity.key))
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let accepted = acceptor.accept(stream).await;
                assert!(accepted.is_err(), "the client took it");
            });
        }
    });
    format!("https://{address}")
}

#[tokio::test]
async fn a_server_that_is_not_who_it_should_be_is_refused_in_words_and_gets_no_secret() {
    let (known, unknown) = (authority(), authority());
    let day = date_time_ymd;
    let expired = serve(&known, "127.0.0.1", |params| {
        (params.not_before, params.not_after) = (day(2020, 1, 1), day(2021, 1, 1));
    });
    let early = serve(&known, "127.0.0.1", |params| {
        (params.not_before, params.not_after) = (day(2990, 1, 1), day(2999, 1, 1));
    });
    let cases = [
        (expired.await, "certificate expired"),
        (early.await, "certificate not valid yet"),
        (
            serve(&known, "127.0.0.2", |_| ()).await,
            "certificate not valid for name",
        ),
        (
            serve(&known, "localhost", |_| ()).await,
            "certificate not valid for name",
        ),
        (
            serve(&unknown, "127.0.0.1", |_| ()).await,
            "invalid peer certificate",
        ),
    ];
    for (server, words) in cases {
        let client = client(&server, Some(&known.pem)).await;
        let error = client.get::<Value>(POD, Some("ns"), "a").await.unwrap_err();
        let message = error.to_string();
        assert!(
            matches!(error, Error::Unavailable { unsent: true, .. }),
            "{message}"
        );
        let url = format!("{server}/api/v1/namespaces/ns/pods/a");
        assert!(message.contains(&url), "no {url} in {message}");
        assert!(message.contains(words), "no {words} in {message}");
        assert!(!message.contains(SECRET), "{message}");
    }
}
