//! The instance manager: PID 1 of a MySQL container.
//!
//! It creates the data directory, starts mysqld read-only and not replicating, keeps it running,
//! tells the operator its state and takes the operator's commands. What it promises:
//! - a server becomes writable, or begins to replicate, by a command only, never by a start;
//! - a command of an older term than one obeyed before is refused, across restarts;
//! - no commit that lacks its acknowledgements is ever answered (see `mysql`'s `role.rs`);
//! - data is never wiped, except by the command to clone.
//!
//! Tasks, each with its own file: the supervisor runs mysqld, the poller reads its state, the
//! commander changes it, the listener serves both, all of them over the board of facts, and over a
//! container: one of files and processes, or one that the sandbox models.

mod api;
mod aside;
mod board;
mod cloning;
mod commander;
mod commands;
mod container;
mod datadir;
mod error;
mod files;
mod hosts;
mod install;
mod listener;
mod local;
mod manager;
mod mysqld;
mod poller;
mod process;
mod protocol;
mod run;
mod settings;
mod stop;
mod supervisor;
mod term;
mod tls;

pub(crate) use board::{Board, Process};
pub(crate) use container::{Accounts, Container, Mysqld, Prepared, Signals};
pub use error::InstanceError;
pub use install::install;
pub(crate) use manager::Manager;
pub(crate) use process::Exit;
pub use protocol::{
    AppAccount, Command, CommandError, CommandRefusal, Follow, InstancePhase, InstanceStatus, PORT,
    Promote, TERM_HEADER, TOKEN_HEADER,
};
pub use run::run;
pub use settings::{Settings, find_mysqld};
pub(crate) use stop::Stop;
pub(crate) use supervisor::RESTART_EXIT;
