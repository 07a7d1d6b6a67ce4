//! How an instance manager is reached: its pod's address, or the API server's pod proxy.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use super::dial::{CONNECT_TIMEOUT, DialError, InstanceDial};
use crate::client::{Client, RawBody, RawRequest};
use crate::instance::{
    Command, CommandError, CommandRefusal, InstanceStatus, PORT, TERM_HEADER, TOKEN_HEADER,
};
use crate::runtime::ObjectKey;

/// How instances are reached (`--instance-access`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Access {
    /// The pod's address; where that is not routable, the proxy.
    #[default]
    Auto,
    /// The pod's address.
    Direct,
    /// The API server's pod proxy.
    Proxy,
}

/// Who an instance is and what it takes to be let in.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    /// Namespace.
    pub namespace: String,
    /// Pod name.
    pub pod: String,
    /// Pod UID.
    pub pod_uid: String,
    /// Pod address.
    pub ip: String,
    /// Name in its certificate.
    pub host: String,
    /// CA of the cluster's certificates, PEM.
    pub ca: Vec<u8>,
    /// The cluster's bearer token.
    pub token: String,
}

impl Address {
    /// The pod's key.
    #[must_use]
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(&self.namespace, &self.pod)
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{} at {}", self.namespace, self.pod, self.ip)
    }
}

/// A command that was not carried out, or of which that is not known.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailure {
    /// The instance has obeyed a leader of a higher term.
    #[error("the instance has obeyed term {term}, which is higher than ours")]
    StaleTerm {
        /// The term it remembers.
        term: u64,
    },
    /// It can't in its present state, or it tried and failed.
    #[error("{0}")]
    Refused(String),
    /// No answer: it may have been carried out.
    #[error("{0}")]
    Unreachable(String),
}

/// Until the head of a watch comes, once there is a connection.
const WATCH_TIMEOUT: Duration = Duration::from_secs(2);
/// Until an answer to a command: longer work goes on in the instance and is looked at again.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest answer to a command.
const ANSWER_LIMIT: usize = 4 << 20;

/// What is read at a time: a status is smaller, and each instance has such a buffer (hyper's least
/// otherwise is 8 KiB).
const READ_BUFFER: usize = 4096;

/// The way to one instance.
pub(super) struct Line {
    /// The cluster that it belongs to.
    pub(super) cluster: ObjectKey,
    pub(super) address: Address,
    access: Access,
    dial: Arc<dyn InstanceDial>,
    /// In `Auto`: the address was found not to be routable.
    use_proxy: AtomicBool,
}

/// Body of an answer, whichever way it comes.
pub(super) enum Body {
    Direct(Incoming),
    Proxy(RawBody),
}

impl Body {
    /// The next piece; `None` at the end. Dropping the future loses nothing but the connection.
    pub(super) async fn chunk(&mut self) -> Option<Result<Bytes, String>> {
        match self {
            Self::Proxy(body) => Some(body.chunk().await?.map_err(|e| e.to_string())),
            Self::Direct(body) => loop {
                match body.frame().await? {
                    Err(error) => return Some(Err(error.to_string())),
                    Ok(frame) => {
                        if let Ok(data) = frame.into_data() {
                            return Some(Ok(data));
                        }
                    }
                }
            },
        }
    }

    async fn collect(mut self) -> Result<Vec<u8>, String> {
        let mut whole = Vec::new();
        while let Some(chunk) = self.chunk().await {
            whole.extend_from_slice(&chunk?);
            if whole.len() > ANSWER_LIMIT {
                return Err(format!("answer of more than {ANSWER_LIMIT} bytes"));
            }
        }
        Ok(whole)
    }
}

impl Line {
    pub(super) fn new(
        cluster: ObjectKey,
        address: Address,
        access: Access,
        dial: Arc<dyn InstanceDial>,
    ) -> Self {
        Self {
            cluster,
            address,
            access,
            dial,
            use_proxy: AtomicBool::new(false),
        }
    }

    /// Opens the stream of statuses.
    pub(super) async fn watch(&self, client: &Client) -> Result<Body, String> {
        let (status, body) = self
            .request(
                client,
                Method::GET,
                "/v1/watch",
                None,
                Bytes::new(),
                WATCH_TIMEOUT,
            )
            .await?;
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(format!("answers {status}"))
    }

    pub(super) async fn command(
        &self,
        client: &Client,
        command: &Command,
        term: u64,
    ) -> Result<InstanceStatus, CommandFailure> {
        let body = serde_json::to_vec(command)
            .map_err(|e| CommandFailure::Refused(format!("can't be written: {e}")))?;
        let exchange = async {
            let (status, body) = self
                .request(
                    client,
                    Method::POST,
                    "/v1/command",
                    Some(term),
                    body.into(),
                    COMMAND_TIMEOUT,
                )
                .await?;
            Ok::<_, String>((status, body.collect().await?))
        };
        let (status, body) = tokio::time::timeout(COMMAND_TIMEOUT, exchange)
            .await
            .map_err(|_| CommandFailure::Unreachable(format!("no answer in {COMMAND_TIMEOUT:?}")))?
            .map_err(CommandFailure::Unreachable)?;
        if status.is_success() {
            return serde_json::from_slice(&body)
                .map_err(|e| CommandFailure::Refused(format!("speaks another language: {e}")));
        }
        match serde_json::from_slice::<CommandError>(&body) {
            Ok(error) if error.refusal == CommandRefusal::StaleTerm => {
                Err(CommandFailure::StaleTerm { term: error.term })
            }
            Ok(error) => Err(CommandFailure::Refused(error.message)),
            Err(_) => {
                let text = String::from_utf8_lossy(&body[..body.len().min(200)]).into_owned();
                Err(CommandFailure::Unreachable(format!(
                    "answers {status}: {text}"
                )))
            }
        }
    }

    async fn request(
        &self,
        client: &Client,
        method: Method,
        path: &str,
        term: Option<u64>,
        body: Bytes,
        deadline: Duration,
    ) -> Result<(StatusCode, Body), String> {
        let proxy = match self.access {
            Access::Direct => false,
            Access::Proxy => true,
            Access::Auto => self.use_proxy.load(Ordering::Relaxed),
        };
        if proxy {
            let answer = self
                .through_proxy(client, method, path, term, body, deadline)
                .await;
            if answer.is_err() {
                self.use_proxy.store(false, Ordering::Relaxed); // `Auto`: try the address again
            }
            return answer;
        }
        match self
            .direct(&method, path, term, body.clone(), deadline)
            .await
        {
            Ok(answer) => Ok(answer),
            Err(DialError::Unroutable(error)) if self.access == Access::Auto => {
                match self
                    .through_proxy(client, method, path, term, body, deadline)
                    .await
                {
                    Ok(answer) => {
                        self.use_proxy.store(true, Ordering::Relaxed);
                        Ok(answer)
                    }
                    Err(by_proxy) => Err(format!("{error}; through the API server: {by_proxy}")),
                }
            }
            Err(DialError::Unroutable(error) | DialError::Other(error)) => Err(error),
        }
    }

    async fn direct(
        &self,
        method: &Method,
        path: &str,
        term: Option<u64>,
        body: Bytes,
        deadline: Duration,
    ) -> Result<(StatusCode, Body), DialError> {
        let exchange = async {
            let other = |error: hyper::Error| DialError::Other(error.to_string());
            let stream = self.dial.dial(&self.address).await?;
            let (mut sender, connection) = http1::Builder::new()
                .read_buf_exact_size(Some(READ_BUFFER))
                .handshake(TokioIo::new(stream))
                .await
                .map_err(other)?;
            tokio::spawn(connection);
            let bearer = format!("Bearer {}", self.address.token);
            let mut bearer = HeaderValue::try_from(bearer)
                .map_err(|error| DialError::Other(error.to_string()))?;
            bearer.set_sensitive(true);
            let mut request = Request::builder()
                .method(method)
                .uri(path)
                .header(header::HOST, &self.address.host)
                .header(header::AUTHORIZATION, bearer);
            if let Some(term) = term {
                request = request.header(TERM_HEADER, term);
            }
            let request = request
                .body(Full::new(body))
                .map_err(|e| DialError::Other(e.to_string()))?;
            let answer = sender.send_request(request);
            // With its sender goes what a connection that ends just now may have left in its queue.
            drop(sender);
            let answer = answer.await.map_err(other)?;
            Ok((answer.status(), Body::Direct(answer.into_body())))
        };
        tokio::time::timeout(CONNECT_TIMEOUT + deadline, exchange)
            .await
            .unwrap_or_else(|_| Err(DialError::Other(format!("no answer in {deadline:?}"))))
    }

    async fn through_proxy(
        &self,
        client: &Client,
        method: Method,
        path: &str,
        term: Option<u64>,
        body: Bytes,
        deadline: Duration,
    ) -> Result<(StatusCode, Body), String> {
        let Address { namespace, pod, .. } = &self.address;
        // The API server consumes `Authorization`; the token travels in a header of its own.
        let mut token = HeaderValue::from_str(&self.address.token).map_err(|e| e.to_string())?;
        token.set_sensitive(true);
        let mut headers = vec![(http::HeaderName::from_static(TOKEN_HEADER), token)];
        if let Some(term) = term {
            headers.push((http::HeaderName::from_static(TERM_HEADER), term.into()));
        }
        let answer = client
            .raw(RawRequest {
                method,
                path_and_query: format!(
                    "/api/v1/namespaces/{namespace}/pods/https:{pod}:{PORT}/proxy{path}"
                ),
                headers,
                body,
                deadline: Some(deadline),
            })
            .await
            .map_err(|e| e.to_string())?;
        Ok((answer.status, Body::Proxy(answer.body)))
    }
}
