//! The state of one MySQL server as its instance manager reads it.

use serde::{Deserialize, Serialize};

/// One reading of a running server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerState {
    /// `@@version`, such as `9.7.4`.
    pub version: String,
    /// `@@server_uuid`.
    pub server_uuid: String,
    /// `@@super_read_only`.
    pub super_read_only: bool,
    /// `@@gtid_executed`, as text without white space.
    pub gtid_executed: String,
    /// `@@gtid_purged`, as text without white space.
    pub gtid_purged: String,
    /// `@@rpl_semi_sync_source_enabled`.
    pub semi_sync_source: bool,
    /// `@@rpl_semi_sync_source_wait_for_replica_count`.
    pub semi_sync_wait_for: u32,
    /// `Rpl_semi_sync_source_clients`: replicas attached that acknowledge.
    pub semi_sync_clients: u32,
    /// `Rpl_semi_sync_source_wait_sessions`: commits that wait for an acknowledgement now.
    pub semi_sync_waiting: u32,
    /// `@@rpl_semi_sync_replica_enabled`: this replica acknowledges (from its receiver's next start).
    pub semi_sync_replica: bool,
    /// Replication as a replica; `None` where no source is configured.
    pub replication: Option<Replication>,
}

/// A replica's channel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Replication {
    /// Configured source host.
    pub source_host: String,
    /// The receiver (IO) thread.
    pub receiver: Receiver,
    /// The applier (SQL) thread.
    pub applier: ThreadState,
    /// `RECEIVED_TRANSACTION_SET`: received since the channel was set up, applied or not.
    pub received: String,
    /// Milliseconds since the source was last heard of (an event or a heartbeat), by the
    /// manager's monotonic clock.
    pub source_silent_ms: u64,
    /// Seconds the applier is behind what was received; `None` while unknown.
    pub lag_seconds: Option<f64>,
}

/// The receiver thread's state: `SERVICE_STATE` of `replication_connection_status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Receiver {
    /// ON, CONNECTING or OFF.
    pub state: ThreadState,
    /// Last error, empty when none.
    pub error: String,
}

/// State of a replication thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ThreadState {
    /// Running (for the receiver: connected to its source).
    On,
    /// The receiver runs but has no connection.
    Connecting,
    /// Stopped by a person or a command, without an error.
    #[default]
    Off,
    /// Stopped by an error, which is given.
    Failed(String),
}
