//! Connections whose client certificate is refused when the handshake looks done.

use std::sync::Arc;

use mainstay::apiserver::{ApiServer, ApiServerOptions};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::credentials::{client, request, write};
use crate::identities::{Known, authority};

/// Connections that are refused for their certificate: fewer than open the breaker.
const REFUSED: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k1962_a_request_whose_connection_was_refused_for_its_certificate_is_sent_again() {
    for alpn in [b"h2".as_slice(), b"http/1.1"] {
        let ours = authority();
        let me = ours.client();
        let (nobody, known) = (Known::new(&ours.pem), Known::new(&ours.pem));
        known.accept(&me);
        let [refuses, accepts] = [&nobody, &known].map(|known| {
            let mut config = ours.server("127.0.0.1", known);
            Arc::get_mut(&mut config).unwrap().alpn_protocols = vec![alpn.to_vec()];
            TlsAcceptor::from(config)
        });
        let server = ApiServer::new(ApiServerOptions::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        write(&folder.path().join("tls.crt"), &me.certificate);
        write(&folder.path().join("tls.key"), &me.key);
        let user = json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            for connection in 0.. {
                let (stream, _) = listener.accept().await.unwrap();
                if connection < REFUSED {
                    refuses.accept(stream).await.unwrap_err();
                    continue;
                }
                let (accepts, server) = (accepts.clone(), server.clone());
                tokio::spawn(async move {
                    server
                        .serve_stream(accepts.accept(stream).await.unwrap())
                        .await;
                });
            }
        });
        let client = client(address, &ours.pem, folder.path(), &user).await;
        // POSTs, which are not repeated unless they certainly were not taken.
        let posts = (0..REFUSED).map(|task| {
            let client = client.clone();
            async move { request(&client, 0, &format!("c-{task}")).await }
        });
        for post in futures_util::future::join_all(posts).await {
            post.unwrap();
        }
        assert!(nobody.refusals() > 0, "nobody was refused");
    }
}
