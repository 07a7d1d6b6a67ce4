//! What is known of MySQL: GTID sets, server state, variables, versions, statements, connections.
//! Nothing here knows Kubernetes.

pub mod config;
mod gtid;
mod state;

pub use gtid::{GtidSet, InvalidGtidSet};
pub use state::{Receiver, Replication, ServerState, ThreadState};
