//! One connection to the API server: HTTP/2 where the server offers it, else HTTP/1.1.
//!
//! A name with several addresses is several servers: each new connection begins with the next of them.
//! A dead link is noticed within 15 s, by HTTP/2 pings (also while idle, also under watches) or by
//! TCP keep-alive. A transport sends a request once; whether to send it again is decided above.

mod addresses;
mod connections;
mod dial;
mod files;
mod line;
mod link;
mod proxy;
pub(super) mod tls;
mod unsent;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use rustls::pki_types::ServerName;

pub use dial::{Dial, Stream};

use super::config::{Config, ConfigError};
use connections::Connections;
use dial::{Connect, Dialer, Tcp};
pub(in crate::client) use files::CertificateFiles;
use files::Reloader;
use proxy::Through;
use tls::Identity;
pub(super) use unsent::{Attempt, SendError};

/// Silence on a connection until it is pinged.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Wait for the answer to a ping until the connection is given up.
const PING_TIMEOUT: Duration = Duration::from_secs(5);
/// Unread bytes that one stream may hold back: a page of a list without a stall.
const STREAM_WINDOW: u32 = 1 << 20;
/// Unread bytes of all streams of a connection: more than 128 streams can be slow before any other
/// has to wait for them.
const CONNECTION_WINDOW: u32 = 128 * STREAM_WINDOW;

/// Sends requests over its own connections.
pub(super) struct Transport {
    connector: Connect,
    identity: Arc<Identity>,
    reloader: Arc<Reloader>,
    current: RwLock<Current>,
}

/// The connections in use, and the client certificate that they were made with.
struct Current {
    connections: Arc<Connections>,
    identity_generation: u64,
}

impl Transport {
    /// A transport for `config`'s server that dials with `dial`, or over TCP.
    pub(super) fn new(
        config: &Config,
        identity: Arc<Identity>,
        dial: Option<Arc<dyn Dial>>,
    ) -> Result<Self, ConfigError> {
        let refused = |problem| ConfigError::Tls {
            server: config.server.clone(),
            problem,
        };
        let tls = if config.server.starts_with("http://") {
            // Never used: such a server must not depend on the system's roots being there.
            tls::client_config(&super::config::Trust::Anyone, Arc::clone(&identity))
        } else {
            tls::client_config(&config.tls.trust, Arc::clone(&identity))
        };
        let (tls, roots) = tls.map_err(refused)?;
        let files = config.tls.files.clone();
        let reloader = Arc::new(Reloader::new(files, roots, Arc::clone(&identity)));
        let builder = HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_or_http();
        let builder = match &config.tls.server_name {
            None => builder,
            Some(name) => {
                let name = ServerName::try_from(name.clone())
                    .map_err(|error| refused(format!("tls-server-name {name:?}: {error}")))?;
                builder.with_server_name_resolver(FixedServerNameResolver::new(name))
            }
        };
        let dial: Arc<dyn Dial> = match (dial, &config.proxy) {
            (Some(dial), _) => dial,
            (None, Some(proxy)) => Arc::new(Through::new(proxy.clone()).map_err(refused)?),
            (None, None) => Arc::new(Tcp::new()),
        };
        let connector = Connect {
            connector: builder.enable_all_versions().wrap_connector(Dialer(dial)),
            identity: Arc::clone(&identity),
        };
        let current = RwLock::new(Current::new(&connector, &identity));
        Ok(Self {
            connector,
            identity,
            reloader,
            current,
        })
    }

    /// Another transport to the same server, with connections of its own.
    pub(super) fn separate(&self) -> Self {
        Self {
            connector: self.connector.clone(),
            identity: Arc::clone(&self.identity),
            reloader: Arc::clone(&self.reloader),
            current: RwLock::new(Current::new(&self.connector, &self.identity)),
        }
    }

    /// Sends `request` and waits for the head of the response.
    pub(super) async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, SendError> {
        self.reloader.look(false);
        let connections = self.connections();
        // On the heap: everything that sends something would be as large as this.
        let answer = Box::pin(connections.send(request)).await;
        answer.inspect_err(|error| {
            if error.unconnected.is_some() {
                self.reloader.look(true);
            }
        })
    }

    /// Makes later requests use a new connection. Streams on the old one go on.
    pub(super) fn reconnect(&self) {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        *current = Current::new(&self.connector, &self.identity);
    }

    fn connections(&self) -> Arc<Connections> {
        {
            let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
            if current.identity_generation == self.identity.generation() {
                return Arc::clone(&current.connections);
            }
        }
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        // Somebody else may have been here meanwhile.
        if current.identity_generation != self.identity.generation() {
            *current = Current::new(&self.connector, &self.identity);
        }
        Arc::clone(&current.connections)
    }
}

impl Current {
    fn new(connector: &Connect, identity: &Identity) -> Self {
        Self {
            identity_generation: identity.generation(),
            connections: Arc::new(Connections::new(connector.clone())),
        }
    }
}

/// The URL of `path_and_query` on `server`, which may itself have a path.
pub(super) fn url(server: &str, path_and_query: &str) -> Result<Uri, String> {
    let url = format!("{}{path_and_query}", server.trim_end_matches('/'));
    url.parse()
        .map_err(|error| format!("{path_and_query:?} is no URL path: {error}"))
}

/// The same for a message: no user, which may have a password, and no query.
pub(super) fn shown(server: &str, path_and_query: &str) -> String {
    let (scheme, rest) = server.split_once("://").unwrap_or(("https", server));
    let rest = rest.trim_end_matches('/');
    let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    let path = path_and_query.split('?').next().unwrap_or_default();
    format!("{scheme}://{host}{prefix}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::config::{TlsSettings, Trust};
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{Client, ClientOptions, Error, POD, WatchOptions};
    use serde_json::Value;
    use tokio::time::Instant;

    const BOTH: [&str; 2] = ["h2", "http/1.1"];

    async fn get(client: &Client) -> Result<Value, Error> {
        client.get(POD, Some("ns"), "a").await
    }

    #[tokio::test]
    async fn an_address_with_an_ip_san_is_verified_and_spoken_to_in_http2() {
        let server = FakeServer::with_tls(&["127.0.0.1"], &BOTH, |_| Reply::json("{}"));
        let url = format!("https://{}", server.listen().await);
        let client = Client::new(server.config_at(url), ClientOptions::default()).unwrap();
        get(&client).await.unwrap();
        get(&client).await.unwrap();
        let requests = server.requests();
        assert_eq!(requests[0].version, http::Version::HTTP_2);
        assert_eq!(requests[0].connection, requests[1].connection);
    }

    #[tokio::test]
    async fn k1923_http1_is_used_where_there_is_no_http2() {
        let server = FakeServer::with_tls(&["fake"], &["http/1.1"], |_| Reply::json("{}"));
        get(&server.client()).await.unwrap();
        assert_eq!(server.requests()[0].version, http::Version::HTTP_11);

        let plain = FakeServer::new(|_| Reply::json("{}"));
        let url = format!("http://{}/prefix/", plain.listen().await);
        let config = Config::without_credentials(url);
        get(&Client::new(config, ClientOptions::default()).unwrap())
            .await
            .unwrap();
        assert_eq!(
            plain.requests()[0].path_and_query,
            "/prefix/api/v1/namespaces/ns/pods/a"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_unverified_server_is_refused_with_its_url_unless_told_otherwise() {
        let server = FakeServer::with_tls(&["other"], &BOTH, |_| Reply::json("{}"));
        let mut config = server.config_at("https://fake");
        let error = get(&server.client_with(config.clone(), ClientOptions::default())).await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("https://fake/api/v1/namespaces/ns/pods/a: ")
                && error.contains("not valid for name"),
            "{error}"
        );
        assert!(server.requests().is_empty());

        config.tls.server_name = Some("other".to_owned());
        get(&server.client_with(config.clone(), ClientOptions::default()))
            .await
            .unwrap();
        config.tls = TlsSettings {
            trust: Trust::Anyone,
            ..TlsSettings::default()
        };
        get(&server.client_with(config, ClientOptions::default()))
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn cgo374_a_dead_link_is_noticed_under_a_silent_watch() {
        let server = FakeServer::with_tls(&["fake"], &BOTH, |request| {
            if request.path_and_query.contains("watch=true") {
                Reply::Endless(Bytes::new())
            } else {
                Reply::json("{}")
            }
        });
        let client = server.client();
        let mut watch = client
            .watch(POD, None, &WatchOptions::default())
            .await
            .unwrap();
        let quiet = tokio::time::timeout(Duration::from_mins(10), watch.next::<Value>());
        assert!(quiet.await.is_err(), "pings are answered: nothing happens");
        server.freeze();
        let start = Instant::now();
        let noticed = tokio::time::timeout(Duration::from_mins(10), watch.next::<Value>()).await;
        assert!(matches!(noticed, Ok(Some(Err(Error::Unavailable { .. })))));
        assert!(
            start.elapsed() <= PING_INTERVAL + PING_TIMEOUT,
            "{:?}",
            start.elapsed()
        );
        get(&client).await.unwrap();
    }

    #[tokio::test]
    async fn k1823_unread_watches_share_a_connection_and_do_not_stall_other_requests() {
        let server = FakeServer::with_tls(&["fake"], &BOTH, |request| {
            if request.path_and_query.contains("watch=true") {
                Reply::Endless(vec![b' '; 3 * STREAM_WINDOW as usize].into())
            } else {
                Reply::json("{}")
            }
        });
        let client = server.client();
        let mut unread = Vec::new();
        for _ in 0..20 {
            unread.push(
                client
                    .watch(POD, None, &WatchOptions::default())
                    .await
                    .unwrap(),
            );
        }
        get(&client).await.unwrap();
        let requests = server.requests();
        assert_eq!(
            requests[0].connection, requests[20].connection,
            "multiplexed"
        );
    }

    #[tokio::test]
    async fn k48610_a_server_that_goes_away_fails_no_request_and_keeps_its_watches() {
        let server = FakeServer::with_tls(&["fake"], &BOTH, |request| {
            if request.path_and_query.contains("watch=true") {
                Reply::Endless(Bytes::new())
            } else {
                Reply::json("{}")
            }
        });
        let options = ClientOptions {
            qps: 1e6,
            burst: 1_000_000,
            ..ClientOptions::default()
        };
        let client = server.limited_client(options);
        let mut watch = client
            .watch(POD, None, &WatchOptions::default())
            .await
            .unwrap();
        for _ in 0..20 {
            let calls: Vec<_> = (0..50)
                .map(|_| {
                    let client = client.clone();
                    // A POST is not repeated unless it certainly was not taken.
                    tokio::spawn(async move {
                        let body = serde_json::json!({});
                        client.create::<_, Value>(POD, Some("ns"), &body).await
                    })
                })
                .collect();
            tokio::task::yield_now().await;
            server.go_away();
            for call in calls {
                call.await.unwrap().unwrap();
            }
        }
        let requests = server.requests();
        assert_eq!(requests.len(), 1 + 20 * 50, "each was taken once");
        assert!(
            requests.iter().any(|request| request.connection > 5),
            "new connections"
        );
        let ended = tokio::time::timeout(Duration::from_millis(10), watch.next::<Value>());
        assert!(ended.await.is_err(), "a stream that was open goes on");
    }
}
