//! The client itself: a cheap handle on what its clones share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};

use super::breaker::{Breaker, BreakerWatch};
use super::credentials::Credentials;
use super::herald::Herald;
use super::limiter::Limiter;
use super::transport::tls::Identity;
use super::transport::{Dial, Transport};
use super::{ClientOptions, Config, ConfigError, Environment, Fence};

/// Deadline of calls in the election lane: a renewal that takes longer is as good as lost, and the
/// renew deadline (10 s) still has room for a second one.
const ELECTION_DEADLINE: Duration = Duration::from_secs(5);

/// Speaks to one API server. Clones are cheap and share connection, credentials and limits.
#[derive(Clone)]
pub struct Client {
    pub(super) shared: Arc<Shared>,
    pub(super) lane: Arc<Lane>,
    pub(super) fence: Fence,
}

/// What all lanes have in common.
pub(super) struct Shared {
    pub(super) server: String,
    namespace: String,
    pub(super) user_agent: HeaderValue,
    pub(super) credentials: Arc<Credentials>,
    pub(super) environment: Environment,
    /// Sent with each request.
    pub(super) impersonation: HeaderMap,
}

/// A connection with its limits.
pub(super) struct Lane {
    pub(super) transport: Transport,
    /// What stands in front of it; none in front of the election lane.
    pub(super) limits: Option<Limits>,
    pub(super) deadline: Duration,
    /// Whether a request without answer condemns the connection. Pings need 15 s to find a dead one.
    pub(super) reconnects_on_timeout: bool,
    /// Whom to tell that the server answers.
    pub(super) herald: Option<Herald>,
}

/// What stands in front of a lane.
pub(super) struct Limits {
    pub(super) breaker: Breaker,
    pub(super) limiter: Limiter,
}

impl Client {
    /// A client for `config`'s server. Nothing is sent until the first request.
    ///
    /// # Errors
    /// [`ConfigError::Option`] for limits that would let nothing through, [`ConfigError::Tls`] when
    /// there are no roots to trust.
    pub fn new(config: Config, options: ClientOptions) -> Result<Self, ConfigError> {
        Self::build(config, options, None)
    }

    /// The same over connections that `dial` opens (a simulated network, a pipe in memory).
    pub fn with_dial(
        config: Config,
        options: ClientOptions,
        dial: Arc<dyn Dial>,
    ) -> Result<Self, ConfigError> {
        Self::build(config, options, Some(dial))
    }

    fn build(
        config: Config,
        options: ClientOptions,
        dial: Option<Arc<dyn Dial>>,
    ) -> Result<Self, ConfigError> {
        options.check()?;
        let identity = Arc::new(Identity::new(config.tls.identity.clone()));
        let transport = Transport::new(&config, Arc::clone(&identity), dial)?;
        let dice = options.environment.clone();
        let limits = Limits {
            breaker: Breaker::new(options.breaker, move |pause| dice.jitter().stretched(pause)),
            limiter: Limiter::new(options.qps, options.burst, options.max_in_flight),
        };
        Ok(Self {
            shared: Arc::new(Shared {
                server: config.server,
                namespace: config.namespace,
                user_agent: HeaderValue::try_from(options.user_agent)
                    .expect("checked with the other options"),
                credentials: Credentials::new(config.auth, identity, options.environment.clone()),
                environment: options.environment,
                impersonation: config.impersonation,
            }),
            lane: Arc::new(Lane {
                transport,
                limits: Some(limits),
                deadline: options.deadline,
                reconnects_on_timeout: false,
                herald: None,
            }),
            fence: Fence::open(),
        })
    }

    /// The same client with its mutating requests behind `fence`.
    #[must_use]
    pub fn with_fence(&self, fence: Fence) -> Self {
        Self {
            fence,
            ..self.clone()
        }
    }

    /// The election lane: a connection of its own, 5 s for each call, no breaker, no limiter, no fence.
    /// After a call without answer it connects anew. An answer here after silence ends the breaker's
    /// pause for this client.
    #[must_use]
    pub fn election_lane(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            lane: Arc::new(Lane {
                transport: self.lane.transport.separate(),
                limits: None,
                deadline: ELECTION_DEADLINE,
                reconnects_on_timeout: true,
                herald: Some(Herald::new(Arc::clone(&self.lane))),
            }),
            fence: Fence::open(),
        }
    }

    /// Clock and chance of this process.
    #[must_use]
    pub fn environment(&self) -> &Environment {
        &self.shared.environment
    }

    /// The configuration's default namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    /// The circuit breaker of the ordinary lane; `None` for the election lane.
    #[must_use]
    pub fn breaker(&self) -> Option<BreakerWatch> {
        Some(self.lane.limits.as_ref()?.breaker.watch())
    }

    /// URL of the API server.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.shared.server
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.shared.server)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{FakeServer, Reply};
    use super::super::{Error, LEASE, POD, RawRequest, WatchOptions};
    use super::*;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    async fn renew(lane: &Client) -> Result<Value, Error> {
        let body = json!({"metadata": {"resourceVersion": "1"}});
        lane.replace(LEASE, Some("ns"), "mainstay", None, &body)
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn kueue_6256_a_saturated_bucket_does_not_delay_the_election_lane() {
        let server = FakeServer::new(|_| Reply::json("{}"));
        let options = ClientOptions {
            qps: 0.1,
            burst: 1,
            ..ClientOptions::default()
        };
        let client = server.limited_client(options);
        let lane = client.election_lane();
        let _: Value = client.get(POD, Some("ns"), "a").await.unwrap();
        let ordinary = tokio::spawn(async move {
            let second: Result<Value, _> = client.get(POD, Some("ns"), "a").await;
            let third: Result<Value, _> = client.get(POD, Some("ns"), "a").await;
            (second, third)
        });
        tokio::task::yield_now().await;
        let start = Instant::now();
        for _ in 0..5 {
            renew(&lane).await.unwrap();
        }
        assert!(
            start.elapsed() < Duration::from_millis(10),
            "{:?}",
            start.elapsed()
        );
        let requests = server.requests();
        assert_ne!(
            requests[0].connection, requests[1].connection,
            "a connection of its own"
        );
        ordinary.await.unwrap().0.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn k125530_the_election_lane_leaves_a_dead_link_after_one_call() {
        let server = FakeServer::with_tls(&["fake"], &["h2"], |_| Reply::json("{}"));
        let lane = server.client().election_lane();
        renew(&lane).await.unwrap();
        server.freeze();
        let start = Instant::now();
        assert!(matches!(renew(&lane).await, Err(Error::Timeout { .. })));
        assert_eq!(start.elapsed(), ELECTION_DEADLINE);
        renew(&lane).await.unwrap();
        assert!(start.elapsed() < Duration::from_secs(6));
    }

    #[tokio::test(start_paused = true)]
    async fn watches_neither_wait_for_the_in_flight_limit_nor_use_it_up() {
        let server = FakeServer::new(|request| {
            if request.path_and_query.contains("watch=true") {
                Reply::Endless(bytes::Bytes::new())
            } else {
                Reply::Hang
            }
        });
        let client = server.limited_client(ClientOptions {
            max_in_flight: 1,
            ..ClientOptions::default()
        });
        let options = WatchOptions::default();
        let _open = client.watch(POD, None, &options).await.unwrap();
        let get = client.get::<Value>(POD, Some("ns"), "a");
        let (hung, watch) = tokio::join!(get, client.watch(POD, None, &options));
        assert!(hung.unwrap_err().to_string().contains("(sent to "));
        watch.unwrap();
        let opened = server.requests()[2].at - server.requests()[1].at;
        assert!(opened < Duration::from_secs(1), "{opened:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_in_flight_limit_holds_and_its_waiters_time_out_unsent() {
        let server = FakeServer::replying([]);
        let options = ClientOptions {
            max_in_flight: 2,
            ..ClientOptions::default()
        };
        let client = server.limited_client(options);
        let get = || client.get::<Value>(POD, Some("ns"), "a");
        let request = RawRequest {
            method: http::Method::GET,
            path_and_query: "/healthz".to_owned(),
            headers: Vec::new(),
            body: bytes::Bytes::new(),
            deadline: Some(Duration::from_secs(5)),
        };
        let (_, _, third) = tokio::join!(get(), get(), client.raw(request));
        assert_eq!(server.requests().len(), 2);
        let third = third.unwrap_err().to_string();
        assert!(
            third.contains("not sent, still waiting for our own rate limit"),
            "{third}"
        );
    }

    #[tokio::test]
    async fn impossible_options_are_refused_at_once() {
        let dial = Arc::new(FakeServer::replying([]));
        let options = ClientOptions {
            qps: -1.0,
            ..ClientOptions::default()
        };
        let config = Config::without_credentials("http://fake");
        let error = Client::with_dial(config, options, dial)
            .unwrap_err()
            .to_string();
        assert!(error.contains("qps"), "{error}");
    }
}
