//! What is known of MySQL: GTID sets, server state, accounts, configuration, statements, sessions.
//! Nothing here knows Kubernetes, and nothing here starts or stops a process.
//!
//! Statements are those of 8.4 and 9.7; what comments say was seen was seen on 9.7.4.

mod accounts;
mod clone;
pub mod config;
mod connection;
mod error;
mod gtid;
mod log;
mod option_file;
mod read;
mod replication;
mod role;
mod session;
mod state;
mod statement;
mod text;

pub use accounts::{ADMIN, CLONE, Passwords, REPLICATION, ensure_app, init_file, is_reserved};
pub use clone::{Donor, clone_failure, clone_from, prepare_clone, stop_cloning};
pub use connection::{CONNECT, Connection, Login};
pub use error::MysqlError;
pub use gtid::{GtidSet, InvalidGtidSet};
pub use log::{Errors, error_message};
pub use option_file::{InstanceConfig, render, render_initial};
pub use read::{Channel, Heard, read_state};
pub use replication::{
    Source, apply_and_forget, follow, forget_source, semi_sync_source_off, stop_receiver,
};
pub use role::{Demoted, attached_replicas, demote, open, promote, set_acks};
pub use session::{Access, Answer, Counters, Process, STATEMENT, Session};
pub use state::{Receiver, Replication, ServerState, ThreadState};
pub use statement::Statement;
pub use text::{grant_pattern, identifier, literal};
