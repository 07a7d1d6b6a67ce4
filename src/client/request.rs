//! The way of every request: fence → breaker → in-flight limit → token bucket → credentials →
//! transport → retry decision.

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::time::Instant;

use super::answer::{self, Cut, Status};
use super::breaker::judge;
use super::call::{Call, Wanted};
use super::credentials::Authorization;
use super::fence::Closed;
use super::retry::{self, Failure};
use super::stage::Stage;
use super::telemetry::{self, Sent};
use super::transport;
use super::{Client, Error};

/// Most of the body of an error answer that is read.
const ERROR_BODY_LIMIT: usize = 1 << 20;

/// A status that the call wanted, and its body.
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: ReplyBody,
}

pub(super) enum ReplyBody {
    Whole(Bytes),
    Stream(Incoming),
}

/// One attempt that failed: what the caller is told, and what the retry decision looks at.
type Failed = (Failure, Error);

impl Client {
    /// Runs `call` to its end: a reply, or the typed error that is left after all retries. The
    /// deadline holds for all of it; a write also ends when the fence closes.
    pub(super) async fn run(&self, call: &Call) -> Result<Reply, Error> {
        self.run_through(call, &Stage::new()).await
    }

    /// The same, and `stage` tells how far it came.
    pub(super) async fn run_through(&self, call: &Call, stage: &Stage) -> Result<Reply, Error> {
        if call.subject.verb.mutates() {
            let guarded = self.fence.guard(self.run_until_deadline(call, stage)).await;
            guarded.unwrap_or_else(|Closed| {
                let what = call.subject.what.clone();
                Err(Error::Fenced { what })
            })
        } else {
            self.run_until_deadline(call, stage).await
        }
    }

    async fn run_until_deadline(&self, call: &Call, stage: &Stage) -> Result<Reply, Error> {
        let allowed = call.deadline.unwrap_or(self.lane.deadline);
        let deadline = Instant::now() + allowed;
        let attempts = self.attempts(call, deadline, stage);
        if let Ok(result) = tokio::time::timeout_at(deadline, attempts).await {
            return result.map_err(|error| error.at_url(&self.url_of(call)));
        }
        let mut what = format!("{} ({stage})", call.subject.what);
        if stage.was_sent() {
            what = format!("{} ({stage} to {})", call.subject.what, self.url_of(call));
            if self.lane.reconnects_on_timeout {
                self.lane.transport.reconnect();
            }
            if let Some(herald) = &self.lane.herald {
                herald.silent();
            }
            if let Some(limits) = self
                .lane
                .limits
                .as_ref()
                .filter(|_| judge::tells_of_server(call))
            {
                limits.breaker.timed_out();
            }
        }
        Err(Error::Timeout {
            what,
            after: allowed,
        })
    }

    /// One attempt after the other, as long as the retry decision says so.
    async fn attempts(
        &self,
        call: &Call,
        deadline: Instant,
        stage: &Stage,
    ) -> Result<Reply, Error> {
        let mut backoff = retry::backoff(self.shared.environment.jitter());
        let mut renewed = None;
        let mut may_renew = true;
        let mut before = None;
        loop {
            let (generation, attempt) = self.attempt(call, renewed.take(), stage).await;
            let (failure, error) = match attempt {
                Ok(reply) => return Ok(reply),
                // The breaker opened over what failed before, which says more.
                Err((_, open @ Error::BreakerOpen { .. })) => return Err(before.unwrap_or(open)),
                Err(failed) => failed,
            };
            if matches!(error, Error::Unauthorized { .. }) && may_renew {
                may_renew = false;
                stage.enter(Stage::AUTHENTICATING);
                match self.shared.credentials.renew(generation).await {
                    Ok(Some(authorization)) => {
                        renewed = Some(authorization);
                        continue;
                    }
                    Ok(None) => return Err(error),
                    Err(message) => return Err(no_credentials(call, message)),
                }
            }
            let delay = retry::delay(failure, call.repeatable, &mut backoff);
            let at = delay
                .map(|delay| Instant::now() + delay)
                .filter(|at| *at < deadline);
            let Some(at) = at else {
                return Err(error);
            };
            tracing::debug!(%error, "sending again");
            before = Some(error);
            if !matches!(failure, Failure::NotSent(_) | Failure::Declined) {
                stage.repeat();
            }
            telemetry::retried(call.subject.verb.as_str(), failure.code());
            stage.enter(Stage::WAITING_TO_RETRY);
            tokio::time::sleep_until(at).await;
        }
    }

    /// Sends `call` once, with `authorization` or the current credential, and says which it was.
    async fn attempt(
        &self,
        call: &Call,
        authorization: Option<Authorization>,
        stage: &Stage,
    ) -> (u64, Result<Reply, Failed>) {
        let limits = self.lane.limits.as_ref();

        // Breaker: a retry is no way around it either.
        stage.enter(Stage::BREAKER);
        let permit = match limits {
            None => None,
            Some(limits) => {
                let Ok(permit) = limits.breaker.admit().await else {
                    let what = call.subject.what.clone();
                    return (0, Err((Failure::Refused, Error::BreakerOpen { what })));
                };
                Some(permit)
            }
        };

        // In-flight limit: watches do not count, nor do they wait behind requests that hang.
        stage.enter(Stage::LIMITED);
        let waiting = Instant::now();
        let slot = match limits {
            Some(limits) if call.wanted != Wanted::Stream => Some(limits.limiter.slot().await),
            _ => None,
        };

        // Token bucket: every attempt pays, so retries are no way around it.
        if let Some(limits) = limits {
            limits.limiter.token(call.subject.priority).await;
            telemetry::limiter_waited(waiting.elapsed());
        }

        // Credentials.
        stage.enter(Stage::AUTHENTICATING);
        let authorization = match authorization {
            Some(renewed) => Ok(renewed),
            None => self.shared.credentials.authorization(Instant::now()).await,
        };
        let authorization = match authorization {
            Ok(authorization) => authorization,
            Err(why) => return (0, Err((Failure::Refused, no_credentials(call, why)))),
        };

        // Transport.
        stage.enter(Stage::SENT);
        let generation = authorization.generation;
        let result = match self.http_request(call, authorization) {
            Ok(request) => self.exchange(call, request).await,
            Err(error) => Err((Failure::Refused, error)),
        };
        drop(slot);
        let failure = result.as_ref().err().map(|(failure, _)| *failure);
        if let Some(herald) = &self.lane.herald {
            herald.ended(failure);
        }
        if let (Some(limits), Some(mut permit)) = (limits, permit) {
            permit.judge(judge::verdict(call, failure));
            match failure {
                None => limits.limiter.succeeded(),
                Some(failure) if failure.is_too_many() => limits.limiter.overloaded(),
                Some(_) => {}
            }
        }
        (generation, result)
    }

    async fn exchange(&self, call: &Call, request: Request<Full<Bytes>>) -> Result<Reply, Failed> {
        let mut sent = Sent::start(
            call.subject.verb.as_str(),
            call.subject.label,
            call.body.len(),
        );
        let response = self.lane.transport.send(request).await.map_err(|error| {
            let failure = match (error.unconnected, error.unsent) {
                (Some(attempt), _) => Failure::NotSent(attempt),
                (None, true) => Failure::Declined,
                (None, false) => Failure::Broken,
            };
            (failure, unavailable(call, error.unsent, error.message))
        })?;
        sent.answered(response.status());
        let (head, body) = response.into_parts();
        let body = match call.wanted {
            Wanted::AnyStatus if head.status != StatusCode::UNAUTHORIZED => ReplyBody::Stream(body),
            _ if !head.status.is_success() => {
                let response = Response::from_parts(head, body);
                return Err(refusal(call, response, self.shared.environment.now()).await);
            }
            Wanted::Stream | Wanted::AnyStatus => ReplyBody::Stream(body),
            Wanted::Whole(limit) => {
                let body = whole(call, body, limit).await?;
                telemetry::response_size(call.subject.verb.as_str(), body.len());
                ReplyBody::Whole(body)
            }
        };
        Ok(Reply {
            status: head.status,
            headers: head.headers,
            body,
        })
    }

    fn http_request(
        &self,
        call: &Call,
        authorization: Authorization,
    ) -> Result<Request<Full<Bytes>>, Error> {
        let impossible = |message| Error::Request {
            what: call.subject.what.clone(),
            message,
        };
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() =
            transport::url(&self.shared.server, &call.path_and_query).map_err(impossible)?;
        let headers = request.headers_mut();
        *headers = call.headers.clone();
        headers.extend(self.shared.impersonation.clone());
        headers.insert(header::USER_AGENT, self.shared.user_agent.clone());
        if let Some(header) = authorization.header {
            headers.insert(header::AUTHORIZATION, header);
        }
        Ok(request)
    }

    /// Where `call` goes, for messages: neither a user nor the query is shown.
    pub(super) fn url_of(&self, call: &Call) -> String {
        transport::shown(&self.shared.server, &call.path_and_query)
    }
}

async fn whole(call: &Call, body: Incoming, limit: usize) -> Result<Bytes, Failed> {
    answer::collect(body, limit)
        .await
        .map_err(|(cut, begun)| match cut {
            Cut::Broken(message) => {
                let message = format!("the answer broke off: {message}");
                (Failure::Broken, unavailable(call, false, message))
            }
            Cut::TooLarge => {
                let message = format!("the answer is larger than {limit} bytes");
                (
                    Failure::Unreadable,
                    answer::undecodable(&call.subject, &begun, &message),
                )
            }
        })
}

fn unavailable(call: &Call, unsent: bool, message: String) -> Error {
    Error::Unavailable {
        what: call.subject.what.clone(),
        code: None,
        unsent,
        message,
    }
}

/// An answer that is an error: its Status, and what it says about retries.
async fn refusal(call: &Call, response: Response<Incoming>, now: jiff::Timestamp) -> Failed {
    let (head, body) = response.into_parts();
    // One that is too long or breaks off still has a beginning to quote.
    let body = answer::collect(body, ERROR_BODY_LIMIT).await;
    let status = Status::from_body(&body.unwrap_or_else(|(_, begun)| begun));
    let retry_after = retry::retry_after(&head.headers, now);
    let failure = Failure::Answered {
        status: head.status,
        retry_after,
    };
    let told = retry_after.or_else(|| status.retry_after());
    (failure, status.into_error(&call.subject, head.status, told))
}

fn no_credentials(call: &Call, message: String) -> Error {
    let what = call.subject.what.clone();
    Error::Credentials { what, message }
}

#[cfg(test)]
#[path = "request_tests.rs"]
mod tests;
