//! What is answered over HTTPS.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::body::{Body, Frame};
use subtle::ConstantTimeEq as _;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::{
    Command, CommandError, CommandRefusal, InstanceStatus, TERM_HEADER, TOKEN_HEADER,
    board::{Board, Facts, shape},
    commander::Order,
    container::Container,
    poller::Refresh,
};
use crate::sync::watch;

/// A watcher hears at least this often, so that it can tell a dead link.
const WATCH_BEAT: Duration = Duration::from_secs(1);
/// Largest command.
const COMMAND_BYTES: usize = 64 << 10;

/// Body of an answer.
pub(super) type Answer = Response<BoxBody<Bytes, Infallible>>;

/// What the answers are made from.
#[derive(Clone)]
pub(super) struct Api {
    pub(super) container: Arc<dyn Container>,
    pub(super) board: Board,
    pub(super) orders: mpsc::Sender<Order>,
    pub(super) refresh: Refresh,
}

impl Api {
    /// Answers a probe of the kubelet: why the container is not well, if it is not. `None` where the
    /// path is no probe's.
    pub(super) fn probe(&self, path: &str) -> Option<Result<(), String>> {
        let trouble = match path {
            "/livez" | "/startupz" => self.board.look(|facts| facts.hung(Instant::now())),
            "/readyz" => self.board.look(Facts::unready),
            _ => return None,
        };
        Some(trouble.map_or(Ok(()), Err))
    }

    /// Answers one request.
    pub(super) async fn answer<B>(self, request: Request<B>) -> Answer
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let path = request.uri().path();
        if let Some(well) = self.probe(path) {
            return match well {
                Ok(()) => text(StatusCode::OK, "ok\n".to_owned()),
                Err(why) => text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
            };
        }
        // Read for each request: a Secret that was changed counts at once.
        match self.container.token() {
            Ok(token) if is_authorised(request.headers(), &token) => {}
            Ok(_) => {
                return text(
                    StatusCode::UNAUTHORIZED,
                    "the cluster's token is needed\n".to_owned(),
                );
            }
            Err(error) => return text(StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
        }
        match (request.method(), path) {
            (&Method::GET, "/v1/status") => {
                self.refresh.now().await;
                json(StatusCode::OK, &self.board.look(Facts::status))
            }
            (&Method::GET, "/v1/watch") => watch_answer(self.board.subscribe()),
            (&Method::POST, "/v1/command") => self.command(request).await,
            (_, "/v1/status" | "/v1/watch" | "/v1/command") => text(
                StatusCode::METHOD_NOT_ALLOWED,
                "method not allowed\n".to_owned(),
            ),
            _ => text(StatusCode::NOT_FOUND, "not found\n".to_owned()),
        }
    }

    async fn command<B>(self, request: Request<B>) -> Answer
    where
        B: Body + Send,
        B::Data: Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let term = request
            .headers()
            .get(TERM_HEADER)
            .and_then(|term| term.to_str().ok()?.parse().ok());
        let Some(term) = term else {
            return text(
                StatusCode::BAD_REQUEST,
                format!("{TERM_HEADER} is missing or no number\n"),
            );
        };
        let body = match Limited::new(request.into_body(), COMMAND_BYTES)
            .collect()
            .await
        {
            Ok(body) => body.to_bytes(),
            Err(error) => return text(StatusCode::BAD_REQUEST, format!("{error}\n")),
        };
        let command: Command = match serde_json::from_slice(&body) {
            Ok(command) => command,
            Err(error) => {
                return text(
                    StatusCode::BAD_REQUEST,
                    format!("no such command: {error}\n"),
                );
            }
        };
        let (reply, done) = oneshot::channel();
        let queued = self
            .orders
            .try_send(Order::Obey {
                term,
                command,
                reply,
            })
            .is_ok();
        let done = if queued { done.await.ok() } else { None };
        match done {
            Some(Ok(status)) => json(StatusCode::OK, &status),
            Some(Err(error)) => json(refusal_code(error.refusal), &error),
            None => {
                let message = "other commands are waiting already".to_owned();
                let term = self.board.look(|facts| facts.term);
                let error = CommandError {
                    refusal: CommandRefusal::NotNow,
                    message,
                    term,
                };
                json(refusal_code(error.refusal), &error)
            }
        }
    }
}

fn refusal_code(refusal: CommandRefusal) -> StatusCode {
    match refusal {
        CommandRefusal::StaleTerm => StatusCode::CONFLICT,
        CommandRefusal::NotNow => StatusCode::SERVICE_UNAVAILABLE,
        CommandRefusal::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Whether a request carries the token, told in a time that does not depend on how much of it is
/// right.
fn is_authorised(headers: &HeaderMap, token: &str) -> bool {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
    let own = headers.get(TOKEN_HEADER).map(http::HeaderValue::as_bytes);
    [bearer, own]
        .into_iter()
        .flatten()
        .any(|given| given.ct_eq(token.as_bytes()).into())
}

fn watch_answer(facts: watch::Receiver<Facts>) -> Answer {
    let lines = statuses(facts).map(|status| {
        let mut line = serde_json::to_vec(&status).unwrap_or_default();
        line.push(b'\n');
        Ok(Frame::data(Bytes::from(line)))
    });
    let mut answer = Response::new(BoxBody::new(StreamBody::new(lines)));
    let json_lines = http::HeaderValue::from_static("application/x-ndjson");
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, json_lines);
    answer
}

/// The status now, then on each change of shape, and at least every [`WATCH_BEAT`].
fn statuses(facts: watch::Receiver<Facts>) -> impl Stream<Item = InstanceStatus> + Send + Sync {
    let last: Option<(InstanceStatus, Instant)> = None;
    stream::unfold((facts, last), |(mut facts, last)| async move {
        let due = last.as_ref().map(|(_, sent)| *sent + WATCH_BEAT);
        loop {
            let status = facts.borrow_and_update().status();
            let now = Instant::now();
            let shape = shape(&status);
            if last.as_ref().is_none_or(|(sent, _)| *sent != shape)
                || due.is_some_and(|due| now >= due)
            {
                return Some((status, (facts, Some((shape, now)))));
            }
            tokio::select! {
                biased;
                changed = facts.changed() => changed.ok()?,
                () = sleep_until(due.unwrap_or(now)) => {}
            }
        }
    })
}

fn text(code: StatusCode, text: String) -> Answer {
    answer(code, "text/plain; charset=utf-8", text.into_bytes())
}

fn json(code: StatusCode, value: &impl serde::Serialize) -> Answer {
    match serde_json::to_vec(value) {
        Ok(body) => answer(code, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}

fn answer(code: StatusCode, kind: &'static str, body: Vec<u8>) -> Answer {
    let mut answer = Response::new(BoxBody::new(Full::new(Bytes::from(body))));
    *answer.status_mut() = code;
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, http::HeaderValue::from_static(kind));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{instance::board::Process, mysql::ServerState};

    #[test]
    fn only_the_token_opens() {
        let with = |name: &'static str, value: &str| {
            HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
        };
        assert!(is_authorised(
            &with("authorization", "Bearer secret"),
            "secret"
        ));
        assert!(is_authorised(&with(TOKEN_HEADER, "secret"), "secret"));
        for (name, value) in [
            ("authorization", "secret"),
            ("authorization", "Bearer secre"),
            (TOKEN_HEADER, ""),
        ] {
            assert!(
                !is_authorised(&with(name, value), "secret"),
                "{name}: {value}"
            );
        }
        assert!(!is_authorised(&HeaderMap::new(), "secret"));
    }

    #[tokio::test(start_paused = true)]
    async fn watchers_hear_changes_at_once_and_a_beat_otherwise() {
        let board = Board::new("demo-0", "uid");
        let mut statuses = Box::pin(statuses(board.subscribe()));
        let began = Instant::now();
        assert_eq!(statuses.next().await.unwrap().starts, 0);
        board.change(|facts| facts.starts = 1);
        assert_eq!(statuses.next().await.unwrap().starts, 1);
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(statuses.next().await.unwrap().starts, 1);
        assert_eq!(began.elapsed(), WATCH_BEAT);
        board.change(|facts| {
            facts.process = Process::Up;
            facts.server = Some(ServerState::default());
        });
        assert!(statuses.next().await.unwrap().server.is_some());
        board.change(|facts| facts.server.as_mut().unwrap().gtid_executed = "new".to_owned());
        assert_eq!(
            statuses.next().await.unwrap().server.unwrap().gtid_executed,
            "new"
        );
        assert_eq!(
            began.elapsed(),
            2 * WATCH_BEAT,
            "progress waits for the beat"
        );
    }
}
