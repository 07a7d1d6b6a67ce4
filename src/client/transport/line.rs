//! One connection, seen from the end where requests go in.

use std::future::{Future, poll_fn};
use std::io;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::uri::{PathAndQuery, Scheme};
use http::{HeaderValue, Request, Response, Uri, header};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::client::legacy::connect::Connection as _;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::connections::{Body, lock};
use super::dial::{BoxError, CONNECTION_TIMEOUT, Connect};
use super::unsent::SendError;
use super::{CONNECTION_WINDOW, PING_INTERVAL, PING_TIMEOUT, STREAM_WINDOW};

/// The way onto a connection.
pub(super) struct Line {
    pub(super) http2: bool,
    /// The only sender of its queue; `None` when the connection has ended.
    pub(super) sender: Mutex<Option<Sender>>,
}

pub(super) enum Sender {
    Http1(http1::SendRequest<Body>),
    Http2(http2::SendRequest<Body>),
}

impl Sender {
    /// Whether it would take a request now.
    fn is_ready(&self) -> bool {
        match self {
            Self::Http1(sender) => sender.is_ready() && !sender.is_closed(),
            Self::Http2(sender) => !sender.is_closed(),
        }
    }
}

/// Why a request got no answer.
pub(super) struct Failed {
    /// The request, if nothing of it was sent.
    pub(super) unsent: Option<Request<Body>>,
    pub(super) why: SendError,
}

/// Ends a line with its connection, however that ended.
struct Ended(Weak<Line>);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(line) = self.0.upgrade() {
            line.end();
        }
    }
}

impl Line {
    /// The way onto `connection`, which is driven to its end.
    fn start<E: std::error::Error>(
        sender: Sender,
        connection: impl Future<Output = Result<(), E>> + Send + 'static,
    ) -> Arc<Self> {
        let line = Arc::new(Self {
            http2: matches!(sender, Sender::Http2(_)),
            sender: Mutex::new(Some(sender)),
        });
        // Not a share of it: a connection that nobody can send on any more has to end.
        let ended = Ended(Arc::downgrade(&line));
        tokio::spawn(async move {
            let _ended = ended;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the API server ended");
            }
        });
        line
    }

    /// Gives what is left in the queue back to those who wait, and takes nothing any more.
    pub(super) fn end(&self) {
        let sender = lock(&self.sender).take();
        drop(sender);
    }

    /// Puts `request`, which is for `uri`, into the queue, and waits for its answer.
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
        uri: &Uri,
    ) -> Result<Response<Incoming>, Failed> {
        let queued = match &mut *lock(&self.sender) {
            Some(Sender::Http2(sender)) => {
                for_http2(&mut request, uri);
                Ok(Either::Left(sender.try_send_request(request)))
            }
            Some(Sender::Http1(sender)) => {
                for_http1(&mut request, uri);
                Ok(Either::Right(sender.try_send_request(request)))
            }
            None => Err(Failed {
                unsent: Some(request),
                why: SendError::unsent("the connection had ended".to_owned()),
            }),
        };
        let mut error = match queued?.await {
            Ok(response) => return Ok(response),
            Err(error) => error,
        };
        let unsent = error.take_message();
        if unsent.is_some() {
            // It may not have been told yet that its connection ends.
            self.end();
        }
        let why = SendError::new(&error.into_error());
        Err(Failed { unsent, why })
    }

    pub(super) fn is_ready(&self) -> bool {
        lock(&self.sender).as_ref().is_some_and(Sender::is_ready)
    }

    /// Whether it takes another request, once that is known.
    pub(super) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<bool> {
        match &mut *lock(&self.sender) {
            Some(Sender::Http1(sender)) => sender.poll_ready(cx).map(|ready| ready.is_ok()),
            Some(Sender::Http2(sender)) => sender.poll_ready(cx).map(|ready| ready.is_ok()),
            None => Poll::Ready(false),
        }
    }
}

/// A new connection to `server`, or an error within [`CONNECTION_TIMEOUT`].
pub(super) async fn open(connect: Connect, server: Uri) -> Result<Arc<Line>, BoxError> {
    let opened = tokio::time::timeout(CONNECTION_TIMEOUT, async {
        let server = root(server)?;
        let link = connect.link(server).await?;
        if link.connected().is_negotiated_h2() {
            let (sender, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .keep_alive_while_idle(true)
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .handshake(link)
                .await?;
            Ok::<_, BoxError>(Line::start(Sender::Http2(sender), connection))
        } else {
            let (sender, connection) = http1::handshake(link).await?;
            let line = Line::start(Sender::Http1(sender), connection);
            // It takes no request before it has begun to look for one.
            if !poll_fn(|cx| line.poll_ready(cx)).await {
                return Err("the server closed the connection at once".into());
            }
            Ok(line)
        }
    });
    opened.await.unwrap_or_else(|_| {
        let problem = format!("no connection within {CONNECTION_TIMEOUT:?}");
        Err(io::Error::new(io::ErrorKind::TimedOut, problem).into())
    })
}

/// The server of a URL, without what a request wants of it.
fn root(url: Uri) -> Result<Uri, http::Error> {
    let mut parts = url.into_parts();
    parts.path_and_query = Some(PathAndQuery::from_static("/"));
    Ok(Uri::from_parts(parts)?)
}

/// HTTP/2 has the whole URL in its own headers.
fn for_http2(request: &mut Request<Body>, uri: &Uri) {
    uri.clone_into(request.uri_mut());
    request.headers_mut().remove(header::HOST);
}

/// HTTP/1.1 has the path in its first line and the server in `Host`.
fn for_http1(request: &mut Request<Body>, uri: &Uri) {
    let path = uri.path_and_query().cloned();
    *request.uri_mut() = path
        .unwrap_or_else(|| PathAndQuery::from_static("/"))
        .into();
    let usual = if uri.scheme() == Some(&Scheme::HTTPS) {
        443
    } else {
        80
    };
    let host = uri.host().unwrap_or_default();
    let host = match uri.port_u16().filter(|port| *port != usual) {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    };
    // What a URL may have as its host, a header may have.
    if let Ok(host) = HeaderValue::try_from(host) {
        request.headers_mut().insert(header::HOST, host);
    }
}
