//! What the manager asks of a server.

use std::{fmt, time::Duration};

use futures_util::future::BoxFuture;

use super::{Channel, MysqlError, ServerState, Statement};

/// How long a statement may take that only reads or sets something.
pub const STATEMENT: Duration = Duration::from_secs(5);

/// An answer that is on its way.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, MysqlError>>;

/// One session with one server process: [`super::Connection`] with a real one. Everything that
/// Mainstay does to a server is made of these; what is made of them is the same for a server that
/// is only modelled.
///
/// Every statement has a deadline; a session whose statement was not answered, or not waited for, is
/// closed and never used again.
pub trait Session: fmt::Debug + Send {
    /// Whether another statement can be sent.
    fn is_usable(&self) -> bool;

    /// Runs a statement.
    fn run<'a>(&'a mut self, statement: &'a Statement, within: Duration) -> Answer<'a, ()>;

    /// Reads the channel; `None` where no source is configured.
    fn channel(&mut self) -> Answer<'_, Option<Channel>>;

    /// Reads everything of the state but the channel and the counters.
    fn globals(&mut self) -> Answer<'_, ServerState>;

    /// Reads the counters of the semi-sync source.
    fn counters(&mut self) -> Answer<'_, Counters>;

    /// What of `set` is not executed, by the server's own judgement; `None` where all of it is.
    fn missing<'a>(&'a mut self, set: &'a str) -> Answer<'a, Option<String>>;

    /// Waits until `set` is executed; false when it is not after `within` (whole seconds).
    fn wait_executed<'a>(&'a mut self, set: &'a str, within: Duration) -> Answer<'a, bool>;

    /// All sessions with the server, its own threads included.
    fn processes(&mut self) -> Answer<'_, Vec<Process>>;

    /// State and error of the last clone that the server received, if any.
    fn clone_status(&mut self) -> Answer<'_, Option<(String, String)>>;

    /// `@@partial_revokes`.
    fn partial_revokes(&mut self) -> Answer<'_, bool>;
}

/// How to reach a server process, as one account: [`super::Login`] for a real one.
pub trait Access: Send + Sync {
    /// Opens a session.
    fn open(&self) -> Answer<'_, Box<dyn Session>>;
}

/// Counters of the semi-sync source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `Rpl_semi_sync_source_clients`: replicas attached that acknowledge.
    pub clients: u32,
    /// `Rpl_semi_sync_source_wait_sessions`: commits that wait for an acknowledgement now.
    pub waiting: u32,
}

/// A row of `SHOW PROCESSLIST`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub id: u64,
    /// Account, or the server's name for a thread of its own.
    pub user: String,
    /// What kind of statement it runs.
    pub command: String,
    /// The statement.
    pub info: String,
}
