//! What is known of MySQL: GTID sets, server state, variables, versions, statements, connections.
//! Nothing here knows Kubernetes.

mod state;

pub use state::{Receiver, Replication, ServerState, ThreadState};
