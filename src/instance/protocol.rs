//! What operator and instance manager say to each other over HTTPS.
//!
//! | request | answer |
//! |---|---|
//! | `GET /v1/status` | [`InstanceStatus`], read now |
//! | `GET /v1/watch` | a stream of [`InstanceStatus`], one JSON object a line: at once, on every change of shape, at least every second |
//! | `POST /v1/command` with [`Command`], the term in [`TERM_HEADER`] | [`InstanceStatus`] after it, or [`CommandError`] with 409 (stale term, refused), 503 (not now), 500 |
//! | `GET /livez`, `/readyz`, `/startupz` | the kubelet's probes, no token |
//!
//! All under `/v1` needs the cluster's token: `Authorization: Bearer …`, or [`TOKEN_HEADER`] where a
//! proxy consumes the former.

use serde::{Deserialize, Serialize};

use crate::mysql::ServerState;

/// TCP port of the instance manager.
pub const PORT: u16 = 8443;
/// Carries the cluster's bearer token where `Authorization` is consumed on the way.
pub const TOKEN_HEADER: &str = "x-mainstay-token";
/// Carries the leader's term.
pub const TERM_HEADER: &str = "x-mainstay-term";

/// What one instance says of itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Pod name.
    pub name: String,
    /// Pod UID: tells a pod from its successor of the same name.
    pub pod_uid: String,
    /// Highest leader's term ever obeyed, from the volume.
    pub term: u64,
    /// What the manager is doing.
    pub phase: InstancePhase,
    /// Why, for a person; empty when there is nothing to say.
    pub message: String,
    /// How often mysqld was started by this manager.
    pub starts: u64,
    /// Whether `Promote` was carried out since mysqld's last start, and no order took it back: what
    /// `Open` and `SetAcks` need.
    pub promoted: bool,
    /// Whether SIGTERM was received: the pod is going away.
    pub stopping: bool,
    /// Hash of the rendered my.cnf that mysqld was started with.
    pub config_hash: String,
    /// Hash of the application account that was last ensured by this instance.
    pub app_hash: String,
    /// The server's state; `None` while mysqld does not answer.
    pub server: Option<ServerState>,
}

/// What the manager is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstancePhase {
    /// Creating the data directory and the accounts.
    Initialising,
    /// mysqld was started and does not answer yet (crash recovery included).
    Starting,
    /// mysqld answers.
    Running,
    /// Receiving a clone of another instance.
    Cloning,
    /// mysqld ended and will be started again, after a delay when it ends at once.
    Restarting,
    /// mysqld is being stopped, or stays stopped.
    Stopping,
}

/// An order. All are idempotent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum Command {
    /// Stop the receiver (IO thread); the applier goes on. The fence of a failover.
    StopReceiver,
    /// Stop accepting writes: super_read_only within a bound, client sessions of the old role
    /// closed, semi-sync source off only once nothing waits. Where that fails (writes wait for an
    /// acknowledgement that can't come), mysqld is killed and comes back read-only.
    Demote,
    /// Replicate from another instance (which may be the present source: then it only sees to it
    /// that both threads run).
    Follow(Follow),
    /// Apply all that was received, forget the source, acknowledge rules set, still read-only.
    Promote(Promote),
    /// As the promoted primary: accept writes.
    Open,
    /// Set how many acknowledgements a commit needs. `0` switches semi-sync off (one instance only).
    SetAcks {
        /// `rpl_semi_sync_source_wait_for_replica_count`.
        acks: u32,
    },
    /// Keep the binary logs aside, then replace all data by a clone of `source_host`, then follow it.
    Clone(Follow),
    /// On the writable primary: the application's database and account exist with this password.
    EnsureApp(AppAccount),
}

/// Whom to replicate from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Follow {
    /// DNS name of the source.
    pub source_host: String,
    /// Whether this replica's acknowledgements count (`rpl_semi_sync_replica_enabled`).
    pub acknowledge: bool,
}

/// How to become the primary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Promote {
    /// Must be a subset of `gtid_executed` before the instance goes on (proved by the server).
    pub required: String,
    /// `rpl_semi_sync_source_wait_for_replica_count`; 0 for semi-sync off.
    pub acks: u32,
}

/// The application's account.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppAccount {
    /// Account name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Database it owns.
    pub database: String,
    /// Identifies this account's content in [`InstanceStatus::app_hash`].
    pub hash: String,
}

impl std::fmt::Debug for AppAccount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AppAccount")
            .field("username", &self.username)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

/// Body of a failed command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandError {
    /// Why, as a class.
    pub refusal: CommandRefusal,
    /// Why, for a person.
    pub message: String,
    /// Highest term obeyed so far.
    pub term: u64,
}

/// Class of a command's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandRefusal {
    /// The command's term is older than one already obeyed.
    StaleTerm,
    /// The instance can't do this in its state (mysqld not running, required set missing, …).
    NotNow,
    /// It was tried and failed.
    Failed,
}
