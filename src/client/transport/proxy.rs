//! Connections through a proxy: HTTP CONNECT (plain or over TLS) and SOCKS 5.

use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use hyper::rt::{Read, Write};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::GaiResolver;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use tower_service::Service;

use super::dial::{Dial, Stream, tcp_connector};
use super::tls::{self, Identity};
use crate::client::config::{Protocol, Proxy, Trust, port};

/// Until the proxy has said that the way is open: before the whole connection is given up, so that the
/// proxy is named.
const TIMEOUT: Duration = Duration::from_secs(7);

/// Dials through a proxy.
pub(super) struct Through {
    proxy: Proxy,
    tcp: HttpConnector,
    /// To a proxy that is itself spoken to over TLS; it is verified by the system's roots.
    tls: Option<HttpsConnector<HttpConnector>>,
}

impl Through {
    /// # Errors
    /// A proxy over TLS and no roots to verify it by.
    pub(super) fn new(proxy: Proxy) -> Result<Self, String> {
        let tls = match proxy.protocol {
            Protocol::Http | Protocol::Socks5 => None,
            Protocol::Https => {
                let (config, _) = tls::client_config(&Trust::System, Arc::new(Identity::default()))
                    .map_err(|problem| format!("proxy {proxy}: {problem}"))?;
                let builder = HttpsConnectorBuilder::new().with_tls_config(config);
                let builder = builder.https_only().enable_http1();
                Some(builder.wrap_connector(tcp_connector(GaiResolver::new())))
            }
        };
        Ok(Self {
            proxy,
            tcp: tcp_connector(GaiResolver::new()),
            tls,
        })
    }
}

impl Dial for Through {
    fn dial(&self, server: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let (proxy, tcp, tls) = (self.proxy.clone(), self.tcp.clone(), self.tls.clone());
        Box::pin(async move {
            let said = format!("proxy {proxy}");
            let open = open(proxy, tcp, tls, with_port(&server)?);
            match tokio::time::timeout(TIMEOUT, open).await {
                Ok(Ok(stream)) => Ok(stream),
                Ok(Err(why)) => Err(io::Error::other(format!("{said}: {why}"))),
                Err(_) => Err(io::Error::other(format!(
                    "{said}: no answer within {TIMEOUT:?}"
                ))),
            }
        })
    }
}

async fn open(
    proxy: Proxy,
    tcp: HttpConnector,
    tls: Option<HttpsConnector<HttpConnector>>,
    server: Uri,
) -> Result<Box<dyn Stream>, String> {
    match (proxy.protocol, tls) {
        (Protocol::Socks5, _) => {
            let mut socks = SocksV5::new(proxy.address.clone(), tcp);
            if let Some((name, password)) = proxy.user() {
                socks = socks.with_auth(name.to_owned(), password.expose().to_owned());
            }
            let stream = socks.call(server).await.map_err(|e| e.to_string())?;
            Ok(Box::new(stream.into_inner()))
        }
        (_, None) => {
            let stream = tunnel(&proxy, tcp, server).await?;
            Ok(Box::new(stream.into_inner()))
        }
        (_, Some(tls)) => Ok(Box::new(TokioIo::new(tunnel(&proxy, tls, server).await?))),
    }
}

/// HTTP CONNECT over whatever leads to the proxy.
async fn tunnel<C>(proxy: &Proxy, connector: C, server: Uri) -> Result<C::Response, String>
where
    C: Service<Uri>,
    C::Future: Send + 'static,
    C::Response: Read + Write + Unpin + Send + 'static,
    C::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let mut tunnel = Tunnel::new(proxy.address.clone(), connector);
    if let Some(authorization) = proxy.authorization() {
        tunnel = tunnel.with_auth(authorization);
    }
    tunnel.call(server).await.map_err(|e| e.to_string())
}

/// A proxy has to be told the port.
fn with_port(server: &Uri) -> io::Result<Uri> {
    let host = server.host().unwrap_or_default();
    let port = port(server);
    let scheme = server.scheme_str().unwrap_or("https");
    format!("{scheme}://{host}:{port}/")
        .parse()
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{Client, ClientOptions, POD};
    use serde_json::Value;
    use std::net::SocketAddr;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    /// Reads up to the end of a head and gives it back.
    async fn head(stream: &mut TcpStream) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        String::from_utf8(head).unwrap()
    }

    type Heads = Arc<Mutex<Vec<String>>>;

    /// A CONNECT proxy that leads everything to `server`, and what it was asked.
    async fn connect_proxy(server: SocketAddr, answer: &'static str) -> (SocketAddr, Heads) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Heads::default();
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                let head = head(&mut near).await;
                seen.lock().unwrap().push(head);
                near.write_all(answer.as_bytes()).await.unwrap();
                tokio::spawn(async move {
                    let mut far = TcpStream::connect(server).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        (address, heads)
    }

    async fn get(server: &FakeServer, url: String) -> Result<(), String> {
        let mut config = server.config_at("https://api.example.com");
        config.proxy = Some(Proxy::parse(&url).unwrap());
        let options = ClientOptions {
            deadline: Duration::from_secs(5),
            ..ClientOptions::default()
        };
        let client = Client::new(config, options).unwrap();
        let got = client.get::<Value>(POD, Some("ns"), "a").await;
        got.map(drop).map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn k1013_requests_go_through_a_connect_proxy_with_its_user() {
        let server = FakeServer::with_tls(&["api.example.com"], &["h2"], |_| Reply::json("{}"));
        let address = server.listen().await;
        let (proxy, heads) = connect_proxy(address, "HTTP/1.1 200 OK\r\n\r\n").await;
        get(&server, format!("http://me:secret@{proxy}"))
            .await
            .unwrap();
        let heads = heads.lock().unwrap().clone();
        assert!(
            heads[0].starts_with("CONNECT api.example.com:443 HTTP/1.1\r\n"),
            "{heads:?}"
        );
        assert!(
            heads[0].contains("Proxy-Authorization: Basic bWU6c2VjcmV0\r\n"),
            "{heads:?}"
        );
        assert_eq!(server.requests()[0].version, http::Version::HTTP_2);
    }

    #[tokio::test]
    async fn a_proxy_that_refuses_is_named_without_its_password() {
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n";
        let (proxy, _) = connect_proxy(nowhere, refusal).await;
        let server = FakeServer::with_tls(&["api.example.com"], &["h2"], |_| Reply::json("{}"));
        let error = get(&server, format!("http://me:hunter2@{proxy}"))
            .await
            .unwrap_err();
        assert!(error.contains(&format!("proxy http://{proxy}")), "{error}");
        assert!(error.contains("authorization required"), "{error}");
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[tokio::test]
    async fn requests_go_through_socks_with_the_name_left_to_the_proxy() {
        let server = FakeServer::with_tls(&["api.example.com"], &["h2"], |_| Reply::json("{}"));
        let address = server.listen().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = listener.local_addr().unwrap();
        let socks = tokio::spawn(async move {
            let (mut near, _) = listener.accept().await.unwrap();
            // Greeting with its methods; user and password are chosen.
            let mut greeting = [0; 2];
            near.read_exact(&mut greeting).await.unwrap();
            let mut methods = vec![0; greeting[1].into()];
            near.read_exact(&mut methods).await.unwrap();
            assert!(methods.contains(&2), "{methods:?}");
            near.write_all(&[5, 2]).await.unwrap();
            let mut login = vec![0; 2 + "me".len() + 1 + "secret".len()];
            near.read_exact(&mut login).await.unwrap();
            assert_eq!(login, b"\x01\x02me\x06secret");
            near.write_all(&[1, 0]).await.unwrap();
            let mut request = vec![0; 5 + "api.example.com".len() + 2];
            near.read_exact(&mut request).await.unwrap();
            assert_eq!(&request[..5], [5, 1, 0, 3, 15]);
            assert_eq!(&request[5..], b"api.example.com\x01\xbb");
            near.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0])
                .await
                .unwrap();
            let mut far = TcpStream::connect(address).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
        });
        get(&server, format!("socks5://me:secret@{proxy}"))
            .await
            .unwrap();
        socks.abort();
    }
}
