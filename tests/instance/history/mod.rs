//! Histories: what is done to a few instances, one after the other, and what comes of it.
//!
//! The same history runs on real mysqlds and on modelled ones, through the same manager. What came of
//! it on real ones is kept in `tests/instance/histories/`, and the model must come to the same:
//! answers to commands, who was acknowledged, and the state at the end.

mod modelled;
mod op;
mod random;
mod real;
mod run;
mod state;
mod written;

pub(crate) use modelled::Modelled;
pub(crate) use op::Op;
pub(crate) use random::random;
pub(crate) use real::Real;
pub(crate) use run::run;
pub(crate) use written::written;

use std::fmt;

use mainstay::instance::{Command, CommandError, InstanceStatus};
use tokio::task::JoinHandle;

/// An instance by its number.
pub(crate) type Number = u8;

/// How an insert ended for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrote {
    Acknowledged,
    ReadOnly,
    Duplicate,
    Unreachable,
    Lost,
}

impl fmt::Display for Wrote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Acknowledged => "acknowledged",
            Self::ReadOnly => "read-only",
            Self::Duplicate => "duplicate",
            Self::Unreachable => "unreachable",
            Self::Lost => "connection lost",
        })
    }
}

/// Instances, real or modelled. All have one table with a primary key.
pub(crate) trait World {
    /// Name by which other instances reach this one.
    fn host(&self, number: Number) -> String;
    /// Starts an instance. Its volume stays from one to the next.
    fn start(&mut self, number: Number);
    /// What it says of itself, if it answers.
    async fn status(&self, number: Number) -> Option<InstanceStatus>;
    /// Gives it a command.
    async fn command(
        &self,
        number: Number,
        term: u64,
        command: &Command,
    ) -> Result<InstanceStatus, CommandError>;
    /// Begins to insert a row as the application.
    fn insert(&self, number: Number, row: u64) -> JoinHandle<Wrote>;
    /// Inserts a row as root, read-only or not; `None` if it is interrupted.
    async fn insert_errant(&self, number: Number, row: u64) -> Option<()>;
    /// Creates the table.
    async fn create_table(&self, number: Number);
    /// Purges the binary log; `None` if it is interrupted.
    async fn purge(&self, number: Number) -> Option<()>;
    /// Makes the applier wait for a lock, or lets it go on.
    async fn hold_applier(&mut self, number: Number, held: bool);
    /// SIGKILL for mysqld alone.
    fn kill_mysqld(&self, number: Number);
    /// SIGKILL for all.
    fn kill(&mut self, number: Number);
    /// Empties the volume of an instance that is down.
    fn erase(&mut self, number: Number);
    /// SIGTERM for the manager; its exit code.
    async fn terminate(&mut self, number: Number) -> Option<i32>;
    /// SIGSTOP or SIGCONT for mysqld.
    fn freeze(&self, number: Number, frozen: bool);
    /// The rows that are visible.
    async fn rows(&self, number: Number) -> Vec<u64>;
}
