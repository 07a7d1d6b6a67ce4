//! A Kubernetes API server in memory, over real HTTP.
//!
//! It serves JSON objects and knows nothing of MySQL. The object logic is pure: a state, a request
//! and the time give an answer and events; sockets stand around it and are thin. Faults are made at
//! its edge, by client, verb, resource and share.

mod discovery;
mod error;
mod info;
mod patch;
mod schema;

pub use error::{ApiError, Cause};
pub use info::{ColumnInfo, ResourceInfo, ScaleInfo};
