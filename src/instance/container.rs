//! What the manager finds around itself.

use std::sync::Arc;

use crate::sync::watch;
use futures_util::future::BoxFuture;
use nix::sys::signal::Signal;

use super::{Follow, InstanceError, board::Board, process::Exit, stop::Stop};
use crate::mysql::{Access, Donor, Source};

/// The container that a manager runs in: secrets, volume, mysqld. [`super::local::Local`] is one of
/// files and processes; the sandbox has one that is only modelled, and the manager is the same.
pub(crate) trait Container: Send + Sync + 'static {
    /// Name by which other instances reach this one.
    fn host(&self) -> &str;

    /// The cluster's bearer token as it is now.
    fn token(&self) -> Result<String, InstanceError>;

    /// Where and how to follow, with the password as it is now.
    fn source(&self, follow: Follow) -> Result<Source, InstanceError>;

    /// Whom to clone, with the password as it is now.
    fn donor(&self, host: &str) -> Result<Donor, InstanceError>;

    /// Hash of the configuration as it is now.
    fn config_hash(&self) -> Result<String, InstanceError>;

    /// The highest term ever obeyed, from the volume; 0 on one that never obeyed any.
    fn term(&self) -> Result<u64, InstanceError>;

    /// Writes the term to the volume. Durable when it returns.
    fn keep_term(&self, term: u64) -> Result<(), InstanceError>;

    /// Keeps the binary logs of the data directory aside; they must be complete. Says where, or
    /// `None` where there is none.
    fn keep_binary_logs(&self) -> Result<Option<String>, InstanceError>;

    /// Makes all ready for a start, and creates the data directory where there is none: what a crash
    /// left half done is created anew; data is never touched. Gives up when told to stop.
    fn prepare<'a>(
        &'a self,
        board: &'a Board,
        stop: watch::Receiver<Stop>,
    ) -> BoxFuture<'a, Result<Prepared, InstanceError>>;
}

/// A container that is ready for a start of mysqld.
pub(crate) struct Prepared {
    /// Hash of the configuration that it starts with.
    pub(crate) config_hash: String,
    /// Starts mysqld, read-only and not replicating.
    pub(crate) start: Start,
}

/// Starts mysqld.
pub(crate) type Start = Box<dyn FnOnce() -> Result<Box<dyn Mysqld>, InstanceError> + Send>;

/// Accounts that the manager uses itself.
#[derive(Clone)]
pub(crate) struct Accounts {
    /// The manager's own.
    pub(crate) admin: Arc<dyn Access>,
    /// For what the former may not do: data and accounts.
    pub(crate) root: Arc<dyn Access>,
}

/// A process that can be signalled as long as it has not ended.
pub(crate) trait Signals: Send + Sync {
    /// Sends a signal; false if the process has ended.
    fn signal(&self, signal: Signal) -> bool;
}

/// A mysqld that was started.
pub(crate) trait Mysqld: Send {
    /// For its signals.
    fn signals(&self) -> Arc<dyn Signals>;

    /// The accounts, with the passwords that this start gave them.
    fn accounts(&self) -> Accounts;

    /// Waits for its end. Can be cancelled and waited for again.
    fn wait(&mut self) -> BoxFuture<'_, Exit>;

    /// It answers: what came before did not keep it from starting, and what was only there for the
    /// start is removed.
    fn answers(&mut self);

    /// It has ended: the errors in its log, if any. What was only there for it is removed.
    fn ended(&mut self) -> BoxFuture<'_, Result<Option<String>, InstanceError>>;
}
