//! Speaks HTTP to an API server.
//!
//! A [`Client`] is a cheap handle. Every request runs the same way, readable in `request.rs`:
//! fence → in-flight limit → token bucket → credentials → transport → retry decision.

mod error;
mod fence;
mod resource;
mod stub;

pub use error::Error;
pub use fence::{Fence, FenceKeeper};
pub use resource::{
    CONFIG_MAP, EVENT, LEASE, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET, Resource,
    SECRET, SERVICE,
};
pub use stub::*;
