//! The client itself: a cheap handle on what its clones share.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;

use super::credentials::Credentials;
use super::limiter::Limiter;
use super::transport::tls::Identity;
use super::transport::{Dial, Transport};
use super::{ClientOptions, Config, ConfigError, Fence};

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
}

/// A connection with its limits.
pub(super) struct Lane {
    pub(super) transport: Transport,
    pub(super) limiter: Option<Limiter>,
    pub(super) deadline: Duration,
    /// Whether a request without answer condemns the connection. Pings need 15 s to find a dead one.
    pub(super) reconnects_on_timeout: bool,
}

impl Client {
    /// A client for `config`'s server. Nothing is sent until the first request.
    ///
    /// # Errors
    /// [`ConfigError::Option`] for limits that would let nothing through, [`ConfigError::Tls`] when
    /// there are no roots to trust.
    pub fn new(config: Config, options: ClientOptions) -> Result<Self, ConfigError> {
        Self::build(config, &options, None)
    }

    /// The same over connections that `dial` opens (a simulated network, a pipe in memory).
    pub fn with_dial(
        config: Config,
        options: ClientOptions,
        dial: Arc<dyn Dial>,
    ) -> Result<Self, ConfigError> {
        Self::build(config, &options, Some(dial))
    }

    fn build(
        config: Config,
        options: &ClientOptions,
        dial: Option<Arc<dyn Dial>>,
    ) -> Result<Self, ConfigError> {
        options.check()?;
        let identity = Arc::new(Identity::new(config.tls.identity.clone()));
        let transport = Transport::new(&config, Arc::clone(&identity), dial)?;
        let limiter = Limiter::new(options.qps, options.burst, options.max_in_flight);
        Ok(Self {
            shared: Arc::new(Shared {
                server: config.server,
                namespace: config.namespace,
                user_agent: HeaderValue::from_str(&options.user_agent)
                    .expect("checked with the other options"),
                credentials: Credentials::new(config.auth, identity),
            }),
            lane: Arc::new(Lane {
                transport,
                limiter: Some(limiter),
                deadline: options.deadline,
                reconnects_on_timeout: false,
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

    /// The election lane: a connection of its own, 5 s for each call, no limiter, no fence. After a
    /// call without answer it connects anew.
    #[must_use]
    pub fn election_lane(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            lane: Arc::new(Lane {
                transport: self.lane.transport.separate(),
                limiter: None,
                deadline: ELECTION_DEADLINE,
                reconnects_on_timeout: true,
            }),
            fence: Fence::open(),
        }
    }

    /// The configuration's default namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.shared.namespace
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
