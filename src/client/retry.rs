//! Whether a request that failed is sent again, and when.

use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use jiff::{Timestamp, fmt::rfc2822};

use super::transport::Attempt;
use super::{Backoff, Jitter};

/// Longest wait that a server may ask for.
pub(super) const RETRY_AFTER_CAP: Duration = Duration::from_secs(30);
/// Delay before the first retry where the server says nothing; it doubles.
const FIRST_DELAY: Duration = Duration::from_millis(200);
/// Longest delay between two retries where the server says nothing.
const LONGEST_DELAY: Duration = Duration::from_secs(5);

/// How one attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// There was no connection to send the request on.
    NotSent(Attempt),
    /// The connection was being left: the server did not take the request.
    Declined,
    /// The connection broke: the request may or may not have been carried out.
    Broken,
    /// The server answered with an error.
    Answered {
        status: StatusCode,
        retry_after: Option<Duration>,
    },
    /// The answer came, but it is not what it should be.
    Unreadable,
    /// We did not send it, and sending it now is of no use: the breaker, no credential.
    Refused,
}

impl Failure {
    /// The status of the answer, where there was one.
    pub(super) fn code(self) -> Option<StatusCode> {
        match self {
            Self::Answered { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the server said that it has too much to do.
    pub(super) fn is_too_many(self) -> bool {
        matches!(self, Self::Answered { status, .. } if status == StatusCode::TOO_MANY_REQUESTS)
    }
}

/// The delays of one call.
pub(super) fn backoff(jitter: Jitter) -> Backoff {
    Backoff::new(FIRST_DELAY, LONGEST_DELAY, jitter)
}

/// The time until the request may be sent again, or `None` if it must not be. A request is
/// `repeatable` when carrying it out twice is the same as once.
pub(super) fn delay(failure: Failure, repeatable: bool, backoff: &mut Backoff) -> Option<Duration> {
    match failure {
        Failure::NotSent(_) | Failure::Declined => Some(backoff.next_delay()),
        Failure::Broken if repeatable => Some(backoff.next_delay()),
        Failure::Answered {
            status,
            retry_after,
        } => {
            let status = status.as_u16();
            match retry_after {
                // The server says that it refused the request, and when it is welcome.
                Some(after) if matches!(status, 429 | 503) => {
                    Some(backoff.stretched(after).max(backoff.next_delay()))
                }
                Some(after) if repeatable && status == 504 => Some(backoff.stretched(after)),
                _ if repeatable && matches!(status, 429 | 503 | 504) => Some(backoff.next_delay()),
                _ => None,
            }
        }
        Failure::Broken | Failure::Unreadable | Failure::Refused => None,
    }
}

/// The server's Retry-After, in seconds or as a date, at most 30 s. A date in the past is no wait;
/// nonsense is nothing.
pub(super) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // Too many digits for a number are still "very long".
        value.parse().map_or(RETRY_AFTER_CAP, Duration::from_secs)
    } else {
        let date = rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
        Duration::try_from(date.duration_since(now)).unwrap_or_default()
    };
    Some(wait.min(RETRY_AFTER_CAP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{Client, ClientOptions, DeleteOptions, Error, POD, Patch};
    use serde_json::{Value, json};
    use tokio::time::Instant;

    const OBJECT: &str = r#"{"metadata":{"name":"a"}}"#;

    async fn get(client: &Client) -> Result<Value, Error> {
        client.get(POD, Some("ns"), "a").await
    }

    async fn create(client: &Client) -> Result<Value, Error> {
        client.create(POD, Some("ns"), &json!({})).await
    }

    fn answered(status: u16, retry_after: Option<u64>) -> Failure {
        Failure::Answered {
            status: StatusCode::from_u16(status).unwrap(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    fn again(failure: Failure, repeatable: bool) -> bool {
        delay(failure, repeatable, &mut backoff(Jitter::seeded(1))).is_some()
    }

    #[test]
    fn k2007_only_what_is_safe_is_sent_again() {
        for (failure, repeatable, once_only) in [
            (Failure::NotSent(Attempt::Own), true, true),
            (Failure::Declined, true, true),
            (Failure::Broken, true, false),
            (Failure::Unreadable, false, false),
            (answered(429, None), true, false),
            (answered(429, Some(1)), true, true),
            (answered(503, None), true, false),
            (answered(503, Some(1)), true, true),
            (answered(504, None), true, false),
            (answered(504, Some(1)), true, false),
            (answered(500, None), false, false),
            (answered(409, Some(1)), false, false),
            (answered(404, None), false, false),
        ] {
            assert_eq!(again(failure, true), repeatable, "{failure:?} repeatable");
            assert_eq!(again(failure, false), once_only, "{failure:?} once only");
        }
    }

    #[test]
    fn k34938_retry_after_is_seconds_or_a_date_and_capped() {
        let now: Timestamp = "2015-10-21T07:28:00Z".parse().unwrap();
        let parse = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::RETRY_AFTER, value.parse().unwrap());
            retry_after(&headers, now).map(|wait| wait.as_secs())
        };
        assert_eq!(parse("7"), Some(7));
        assert_eq!(parse("3600"), Some(30));
        assert_eq!(parse("99999999999999999999999999"), Some(30));
        assert_eq!(parse("Wed, 21 Oct 2015 07:28:09 GMT"), Some(9));
        assert_eq!(parse("Wed, 21 Oct 2015 07:00:00 GMT"), Some(0));
        assert_eq!(parse("Fri, 21 Oct 2095 07:28:00 GMT"), Some(30));
        assert_eq!(parse("-5"), None);
        assert_eq!(parse("soon"), None);
        assert_eq!(parse(""), None);
    }

    #[test]
    fn the_servers_wait_is_never_cut_short() {
        for seed in 0..50 {
            let mut backoff = backoff(Jitter::seeded(seed));
            let wait = delay(answered(429, Some(2)), false, &mut backoff).unwrap();
            assert!(
                wait >= Duration::from_secs(2) && wait <= Duration::from_secs(3),
                "{wait:?}"
            );
        }
    }

    #[tokio::test(start_paused = true)]
    async fn k2007_a_post_is_not_sent_again_after_504_or_a_broken_connection() {
        let server = FakeServer::replying([Reply::status(504, ""), Reply::Close]);
        let error = create(&server.client()).await.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Unavailable {
                    code: Some(504),
                    ..
                }
            ),
            "{error}"
        );
        let error = create(&server.client()).await.unwrap_err();
        assert!(
            matches!(error, Error::Unavailable { unsent: false, .. }),
            "{error}"
        );
        assert_eq!(server.requests().len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_post_is_sent_again_when_refused_with_a_time_or_not_sent_at_all() {
        let server = FakeServer::replying([Reply::retry_after(429, "2"), Reply::json(OBJECT)]);
        server.refuse(2);
        create(&server.client()).await.unwrap();
        let requests = server.requests();
        assert_eq!(requests.len(), 2);
        let waited = requests[1].at - requests[0].at;
        assert!(
            waited >= Duration::from_secs(2) && waited < Duration::from_secs(3),
            "{waited:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_be_repeated_survives_errors_of_the_moment() {
        let server = FakeServer::replying([
            Reply::status(503, "<html>"),
            Reply::status(504, ""),
            Reply::Close,
            Reply::status(429, ""),
            Reply::json(OBJECT),
        ]);
        get(&server.client()).await.unwrap();
        assert_eq!(server.requests().len(), 5);

        let body = json!({"metadata": {"resourceVersion": "1"}});
        let apply = Patch::Apply {
            body: &body,
            force: true,
        };
        let server = FakeServer::replying([Reply::Close, Reply::json(OBJECT)]);
        let _: Value = server
            .client()
            .patch(POD, Some("ns"), "a", None, apply)
            .await
            .unwrap();
        let server = FakeServer::replying([Reply::Close, Reply::json(OBJECT)]);
        let _: Value = server
            .client()
            .replace(POD, Some("ns"), "a", None, &body)
            .await
            .unwrap();
        let options = DeleteOptions {
            uid: Some("u".to_owned()),
            ..DeleteOptions::default()
        };
        let server = FakeServer::replying([Reply::Close, Reply::json(OBJECT)]);
        server
            .client()
            .delete(POD, Some("ns"), "a", &options)
            .await
            .unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_can_not_be_repeated_is_sent_once() {
        let server = FakeServer::new(|_| Reply::Close);
        let client = server.client();
        let body = json!({});
        let merge = client.patch::<Value>(POD, Some("ns"), "a", None, Patch::Merge(&body));
        assert!(merge.await.is_err());
        let unconditional = client.replace::<_, Value>(POD, Some("ns"), "a", None, &body);
        assert!(unconditional.await.is_err());
        let options = DeleteOptions::default();
        assert!(client.delete(POD, Some("ns"), "a", &options).await.is_err());
        assert_eq!(server.requests().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn k34938_a_server_that_asks_for_more_time_than_there_is_gets_it() {
        let start = Instant::now();
        let server = FakeServer::replying([Reply::retry_after(429, "3600")]);
        let error = get(&server.client()).await.unwrap_err();
        let Error::TooManyRequests { retry_after, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(retry_after, Some(Duration::from_secs(30)), "capped");
        assert!(
            start.elapsed() < Duration::from_secs(1),
            "no use in waiting"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn k34938_retries_pay_tokens() {
        let mut replies: Vec<_> = (0..3).map(|_| Reply::retry_after(429, "0")).collect();
        replies.push(Reply::json(OBJECT));
        let server = FakeServer::replying(replies);
        let options = ClientOptions {
            qps: 2.0,
            burst: 1,
            ..ClientOptions::default()
        };
        let client = server.limited_client(options);
        get(&client).await.unwrap();
        let requests = server.requests();
        for pair in requests.windows(2) {
            let apart = (pair[1].at - pair[0].at).as_secs_f64();
            assert!(
                apart >= 0.99,
                "{apart} s between two requests at one a second, half of two"
            );
        }
    }
}
