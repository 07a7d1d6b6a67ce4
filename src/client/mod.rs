//! Speaks HTTP to an API server.
//!
//! A [`Client`] is a cheap handle. Every request runs the same way, readable in `request.rs`:
//! fence → breaker → in-flight limit → token bucket → credentials → transport → retry decision. What
//! it promises:
//! - each call ends within its deadline, with a value or a typed [`Error`];
//! - a write leaves the process only while its [`Fence`] permits, and is never repeated unless doing
//!   it twice is the same as once, or the server can't have taken it;
//! - the election lane ([`Client::election_lane`]) waits for nobody;
//! - no secret is in a message, a log or a debug print.

mod answer;
mod backoff;
mod breaker;
mod call;
mod config;
mod credentials;
mod environment;
mod error;
mod fence;
mod frame;
#[cfg(test)]
mod freezable;
#[cfg(any(fuzzing, test))]
pub mod fuzz;
mod handle;
mod herald;
mod jitter;
mod limiter;
mod options;
mod raw;
mod request;
mod resource;
mod retry;
mod secret;
mod stage;
mod telemetry;
#[cfg(test)]
pub(crate) mod testing;
mod transport;
mod verbs;
mod watch;

pub use backoff::Backoff;
pub use breaker::{BreakerLimits, BreakerState, BreakerWatch};
pub use config::{Config, ConfigError, ConfigSource};
pub use environment::Environment;
pub use error::Error;
pub use fence::{Closed, Fence, FenceKeeper};
pub use handle::Client;
pub use jitter::Jitter;
pub use options::{ClientOptions, DeleteOptions, ListOptions, Patch, WatchOptions};
pub use raw::{RawBody, RawRequest, RawResponse};
pub use resource::{
    CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, ENDPOINTS, EVENT, LEASE, NAMESPACE,
    PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET, Resource, SECRET, SERVICE,
};
pub use secret::Secret;
pub use telemetry::CLIENT_METRICS;
pub(crate) use transport::tls::anyone;
pub use transport::{Dial, Stream};
pub use verbs::ListPage;
#[cfg(test)]
pub(crate) use watch::read_object;
pub use watch::{Decoded, Undecoded, WatchFrame, WatchStream};
