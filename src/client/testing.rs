//! A scripted API server for tests: hyper behind a pipe in memory (so that paused time works), TLS or
//! not, or behind a real socket. What it was asked is recorded.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::PrivatePkcs8KeyDer;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

use super::config::Trust;
use super::freezable::Freezable;
use super::transport::tls;
use super::{Client, ClientOptions, Config, Dial, Stream};

/// One request as the server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(crate) method: Method,
    pub(crate) path_and_query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) version: Version,
    pub(crate) at: Instant,
    /// Number of the connection that it came on, from 0.
    pub(crate) connection: usize,
}

/// What the server does with a request.
pub(crate) enum Reply {
    /// Answers with status, headers and the whole body.
    Answer(u16, Vec<(&'static str, String)>, Bytes),
    /// Answers 200 with a body of the chunks that are sent; an error breaks the connection off. The
    /// body ends with its sender.
    Stream(mpsc::UnboundedReceiver<io::Result<Bytes>>),
    /// Answers 200 with a body of this, which does not end.
    Endless(Bytes),
    /// Never answers.
    Hang,
    /// Reads the request and closes the connection.
    Close,
}

impl Reply {
    /// 200 with a JSON body.
    pub(crate) fn json(body: impl Into<String>) -> Self {
        Self::status(200, body)
    }

    /// An answer with a body.
    pub(crate) fn status(status: u16, body: impl Into<String>) -> Self {
        let json = ("content-type", "application/json".to_owned());
        Self::Answer(status, vec![json], Bytes::from(body.into()))
    }

    /// An error answer with Retry-After.
    pub(crate) fn retry_after(status: u16, after: &str) -> Self {
        Self::Answer(
            status,
            vec![("retry-after", after.to_owned())],
            Bytes::new(),
        )
    }

    /// A stream and the sender of its chunks.
    pub(crate) fn stream() -> (mpsc::UnboundedSender<io::Result<Bytes>>, Self) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (sender, Self::Stream(receiver))
    }
}

/// A handle on a scripted server; clones are the same server.
#[derive(Clone)]
pub(crate) struct FakeServer(Arc<Inner>);

type Script = Box<dyn FnMut(&Recorded) -> Reply + Send>;

struct Inner {
    script: Mutex<Script>,
    requests: Mutex<Vec<Recorded>>,
    tls: Option<tokio_rustls::TlsAcceptor>,
    certificate: Option<String>,
    connections: AtomicUsize,
    /// Connections below this number are dead: no byte passes any more.
    frozen_below: Arc<AtomicUsize>,
    /// Whether dials are not answered any more.
    mute: AtomicBool,
    /// Dials that are still to be refused.
    refusals: AtomicUsize,
    /// Told when connections are to be left.
    leave: Notify,
}

impl FakeServer {
    /// A server that does what `script` says.
    pub(crate) fn new(script: impl FnMut(&Recorded) -> Reply + Send + 'static) -> Self {
        Self::build(Box::new(script), None)
    }

    /// A server that gives these replies in this order, then hangs.
    pub(crate) fn replying(replies: impl IntoIterator<Item = Reply>) -> Self {
        let mut replies: VecDeque<_> = replies.into_iter().collect();
        Self::new(move |_| replies.pop_front().unwrap_or(Reply::Hang))
    }

    /// The same over TLS, with a certificate for `names` and these ALPN protocols.
    pub(crate) fn with_tls(
        names: &[&str],
        alpn: &[&str],
        script: impl FnMut(&Recorded) -> Reply + Send + 'static,
    ) -> Self {
        Self::with_tls_as(names, alpn, |_| (), script)
    }

    /// The same with TLS as `shape` makes it.
    pub(crate) fn with_tls_as(
        names: &[&str],
        alpn: &[&str],
        shape: impl FnOnce(&mut rustls::ServerConfig),
        script: impl FnMut(&Recorded) -> Reply + Send + 'static,
    ) -> Self {
        let names: Vec<String> = names.iter().map(ToString::to_string).collect();
        let pair = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![pair.cert.der().clone()], key.into())
            .unwrap();
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        shape(&mut config);
        Self::build(
            Box::new(script),
            Some((Arc::new(config).into(), pair.cert.pem())),
        )
    }

    /// A server over TLS and HTTP/2 that answers `{}`, and leaves watches open.
    pub(crate) fn readable() -> Self {
        Self::with_tls(&["fake"], &["h2"], |request| {
            if request.path_and_query.contains("watch=true") {
                Reply::Endless(Bytes::new())
            } else {
                Reply::json("{}")
            }
        })
    }

    fn build(script: Script, tls: Option<(tokio_rustls::TlsAcceptor, String)>) -> Self {
        let (tls, certificate) = tls.unzip();
        Self(Arc::new(Inner {
            script: Mutex::new(script),
            requests: Mutex::default(),
            tls,
            certificate,
            connections: AtomicUsize::new(0),
            frozen_below: Arc::default(),
            mute: AtomicBool::new(false),
            refusals: AtomicUsize::new(0),
            leave: Notify::new(),
        }))
    }

    /// Another server with the same certificate, that answers `{}`.
    pub(crate) fn twin(&self) -> Self {
        let tls = self.0.tls.clone().zip(self.0.certificate.clone());
        Self::build(Box::new(|_| Reply::json("{}")), tls)
    }

    /// A configuration for this server at `url`, which trusts its certificate.
    pub(crate) fn config_at(&self, url: impl Into<String>) -> Config {
        let mut config = Config::without_credentials(url);
        if let Some(certificate) = &self.0.certificate {
            let roots = tls::certificates(certificate.as_bytes()).unwrap();
            config.tls.trust = Trust::Roots(roots.into());
        }
        config
    }

    /// Takes TLS as it does.
    pub(crate) fn acceptor(&self) -> tokio_rustls::TlsAcceptor {
        self.0.tls.clone().unwrap()
    }

    /// Its certificate, PEM.
    pub(crate) fn certificate(&self) -> &str {
        self.0.certificate.as_deref().unwrap()
    }

    /// A client over pipes in memory. With TLS the server has to be called `fake`.
    pub(crate) fn client(&self) -> Client {
        self.limited_client(ClientOptions::default())
    }

    /// A client over pipes in memory, with limits.
    pub(crate) fn limited_client(&self, options: ClientOptions) -> Client {
        let scheme = if self.0.tls.is_some() {
            "https"
        } else {
            "http"
        };
        self.client_with(self.config_at(format!("{scheme}://fake")), options)
    }

    /// A client over pipes in memory, with its own configuration.
    pub(crate) fn client_with(&self, config: Config, options: ClientOptions) -> Client {
        Client::with_dial(config, options, Arc::new(self.clone())).unwrap()
    }

    /// The requests so far.
    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.0.requests.lock().unwrap().clone()
    }

    /// Connections so far.
    pub(crate) fn dials(&self) -> usize {
        self.0.connections.load(Ordering::SeqCst)
    }

    /// Lets no byte pass any more on the connections that there are.
    pub(crate) fn freeze(&self) {
        let connections = self.0.connections.load(Ordering::SeqCst);
        self.0.frozen_below.store(connections, Ordering::SeqCst);
    }

    /// Answers no dial any more.
    pub(crate) fn mute(&self) {
        self.0.mute.store(true, Ordering::SeqCst);
    }

    /// Refuses the next `dials` connections.
    pub(crate) fn refuse(&self, dials: usize) {
        self.0.refusals.store(dials, Ordering::SeqCst);
    }

    /// Asks clients to leave the connections that there are (GOAWAY): what is under way goes on.
    pub(crate) fn go_away(&self) {
        self.0.leave.notify_waiters();
    }

    /// Also serves a real socket on a free port of the loopback.
    pub(crate) async fn listen(&self) -> SocketAddr {
        self.listen_at(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0))
            .await
    }

    /// Also serves a real socket there.
    pub(crate) async fn listen_at(&self, address: SocketAddr) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(server.clone().serve(stream));
            }
        });
        address
    }

    async fn serve(self, stream: impl Stream + 'static) {
        let number = self.0.connections.fetch_add(1, Ordering::SeqCst);
        let stream = Freezable {
            stream,
            number,
            frozen_below: Arc::clone(&self.0.frozen_below),
        };
        let mut builder = auto::Builder::new(TokioExecutor::new());
        let stream: Box<dyn Stream> = match &self.0.tls {
            None => Box::new(stream),
            Some(acceptor) => match acceptor.accept(stream).await {
                Ok(stream) => {
                    // Begins with its settings, as servers do that know what is spoken.
                    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
                        builder = builder.http2_only();
                    }
                    Box::new(stream)
                }
                Err(_) => return,
            },
        };
        let service = service_fn(|request| self.clone().answer(number, request));
        let mut connection =
            std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        tokio::select! {
            biased;
            () = self.0.leave.notified() => {
                connection.as_mut().graceful_shutdown();
                let _ = connection.await;
            }
            _ = connection.as_mut() => {}
        }
    }

    async fn answer(
        self,
        connection: usize,
        request: Request<Incoming>,
    ) -> Result<Response<UnsyncBoxBody<Bytes, io::Error>>, io::Error> {
        let (head, body) = request.into_parts();
        let recorded = Recorded {
            method: head.method,
            path_and_query: head.uri.path_and_query().unwrap().to_string(),
            headers: head.headers,
            body: body.collect().await.map_err(io::Error::other)?.to_bytes(),
            version: head.version,
            at: Instant::now(),
            connection,
        };
        self.0.requests.lock().unwrap().push(recorded.clone());
        let reply = (self.0.script.lock().unwrap())(&recorded);
        match reply {
            Reply::Answer(status, headers, body) => {
                let body = Full::new(body).map_err(|never: Infallible| match never {});
                let mut response = Response::new(body.boxed_unsync());
                *response.status_mut() = StatusCode::from_u16(status).unwrap();
                for (name, value) in headers {
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
                Ok(response)
            }
            Reply::Stream(chunks) => {
                let chunks = futures_util::stream::unfold(chunks, async |mut chunks| {
                    let chunk: io::Result<Bytes> = chunks.recv().await?;
                    Some((chunk.map(Frame::data), chunks))
                });
                Ok(Response::new(BodyExt::boxed_unsync(StreamBody::new(
                    chunks,
                ))))
            }
            Reply::Endless(bytes) => {
                let begun = futures_util::stream::iter([Ok(Frame::data(bytes))]);
                let body = StreamBody::new(begun.chain(futures_util::stream::pending()));
                Ok(Response::new(BodyExt::boxed_unsync(body)))
            }
            Reply::Hang => std::future::pending().await,
            Reply::Close => Err(io::Error::other("closed by the script")),
        }
    }
}

impl Dial for FakeServer {
    fn dial(&self, _: Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let server = self.clone();
        Box::pin(async move {
            if server.0.mute.load(Ordering::SeqCst) {
                return std::future::pending().await;
            }
            let one_less = |left: usize| left.checked_sub(1);
            let refusals = &server.0.refusals;
            if refusals
                .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less)
                .is_ok()
            {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = tokio::io::duplex(64 << 10);
            tokio::spawn(server.serve(far));
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }
}
