//! Requests through the API server that are not about its objects: the pod proxy.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::answer::{self, Cut};
use super::call::{Call, Subject, Verb, Wanted};
use super::limiter::Priority;
use super::request::ReplyBody;
use super::{Client, Error};

/// A raw request through the API server (the pod proxy), answered as a stream of chunks.
#[derive(Clone)]
pub struct RawRequest {
    /// Anything but GET and HEAD passes the fence and is sent once.
    pub method: Method,
    /// Path and query below the server's URL, percent-encoded.
    pub path_and_query: String,
    /// Headers besides our own.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Body; may be empty.
    pub body: Bytes,
    /// Deadline until the response head; `None` for the client's own.
    pub deadline: Option<Duration>,
}

/// The answer to a [`RawRequest`], whatever its status (but 401).
#[derive(Debug)]
pub struct RawResponse {
    /// Status of the pod, or of the API server where it could not reach the pod.
    pub status: StatusCode,
    /// Headers as they came.
    pub headers: HeaderMap,
    /// Body, as it comes.
    pub body: RawBody,
}

/// A body that is read as it comes.
pub struct RawBody {
    body: Incoming,
    subject: Subject,
    /// Where it comes from: for messages.
    url: String,
}

impl RawBody {
    /// The next chunk; `None` at the end. Cancel-safe.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, Error>> {
        loop {
            match self.body.frame().await? {
                Ok(frame) => {
                    // Trailers are passed over.
                    if let Ok(data) = frame.into_data() {
                        return Some(Ok(data));
                    }
                }
                Err(error) => {
                    return Some(Err(broken(&self.subject, &self.url, &error.to_string())));
                }
            }
        }
    }

    /// The whole body.
    ///
    /// # Errors
    /// [`Error::Decode`] when it is longer than `limit` bytes, [`Error::Unavailable`] when it breaks
    /// off.
    pub async fn collect(self, limit: usize) -> Result<Bytes, Error> {
        let Self { body, subject, url } = self;
        let collected = answer::collect(body, limit).await;
        collected.map_err(|(cut, _)| match cut {
            Cut::Broken(message) => broken(&subject, &url, &message),
            Cut::TooLarge => {
                let message = format!("the answer is larger than {limit} bytes");
                answer::undecodable(&subject, &[], &message).at_url(&url)
            }
        })
    }
}

fn broken(subject: &Subject, url: &str, message: &str) -> Error {
    Error::Unavailable {
        what: subject.what.clone(),
        code: None,
        unsent: false,
        message: format!("{url}: the answer broke off: {message}"),
    }
}

impl Client {
    /// Sends `request` and returns its answer, also an error status. A GET is repeated when the
    /// connection breaks before the head of the answer, anything else only when it was not sent.
    ///
    /// # Errors
    /// Those of the way to the API server; a status is no error here, but for 401
    /// ([`Error::Unauthorized`]).
    pub async fn raw(&self, request: RawRequest) -> Result<RawResponse, Error> {
        let subject = subject(&request.method, &request.path_and_query);
        let mut call = Call::new(subject, request.method, request.path_and_query, 0);
        call.headers.extend(request.headers);
        call.body = request.body;
        call.deadline = request.deadline;
        call.wanted = Wanted::AnyStatus;
        let reply = self.run(&call).await?;
        let url = self.url_of(&call);
        match reply.body {
            ReplyBody::Stream(body) => Ok(RawResponse {
                status: reply.status,
                headers: reply.headers,
                body: RawBody {
                    body,
                    subject: call.subject,
                    url,
                },
            }),
            ReplyBody::Whole(_) => unreachable!("a stream was wanted"),
        }
    }
}

fn subject(method: &Method, path_and_query: &str) -> Subject {
    let verb = match *method {
        Method::GET | Method::HEAD => Verb::Get,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE => Verb::Delete,
        _ => Verb::Create,
    };
    // The query may hold what is nobody's business.
    let path = path_and_query.split('?').next().unwrap_or_default();
    let proxy = path.contains("/pods/") && path.contains("/proxy");
    let label = if proxy { "pods/proxy" } else { "raw" };
    let namespace = path
        .split_once("/namespaces/")
        .and_then(|(_, rest)| rest.split('/').next());
    Subject {
        what: format!("{method} {path}"),
        verb,
        label,
        resource: label.to_owned(),
        namespace: namespace.map(str::to_owned),
        key: String::new(),
        gvk: label.to_owned(),
        priority: Priority::Normal,
    }
}

impl fmt::Debug for RawRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers and body may hold secrets.
        let path = self.path_and_query.split('?').next();
        f.debug_struct("RawRequest")
            .field("method", &self.method)
            .field("path", &path)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for RawBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawBody")
            .field("of", &self.subject.what)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};

    #[tokio::test]
    async fn raw_requests_stream_any_status() {
        let (chunks, reply) = Reply::stream();
        let server = FakeServer::replying([reply, Reply::status(503, "no endpoints")]);
        let client = server.client();
        let path = "/api/v1/namespaces/ns/pods/https:a-0:8443/proxy/status?wait=1";
        let request = RawRequest {
            method: Method::GET,
            path_and_query: path.to_owned(),
            headers: vec![],
            body: Bytes::new(),
            deadline: None,
        };
        let mut response = client.raw(request.clone()).await.unwrap();
        for word in ["one", "two"] {
            chunks.send(Ok(word.into())).unwrap();
            assert_eq!(response.body.chunk().await.unwrap().unwrap(), word);
        }
        drop(chunks);
        assert!(response.body.chunk().await.is_none());
        let refused = client.raw(request).await.unwrap();
        assert_eq!(refused.status, 503);
        assert!(matches!(
            refused.body.collect(3).await,
            Err(Error::Decode { .. })
        ));
        assert_eq!(server.requests()[0].path_and_query, path);
    }
}
