//! Modelled MySQL: servers in memory, as their instance managers and clients see them.
//!
//! A state machine for all servers and the network between them (`network.rs`, and an `impl` of it for
//! each concern), without a clock and without waiting; around it a handle that drives it in tokio's
//! time, and sessions that ask it. What it promises to do as MySQL 9.7 does:
//! - a write is durable in the binary log, and on its way to replicas, before it waits for its
//!   acknowledgements; recovery commits what is in the log, acknowledged or not; what was not in it is
//!   gone;
//! - acknowledgements are of positions, from replicas that have written to their relay logs; fewer
//!   wanted, or the semi-sync source off, answers with OK what waits;
//! - read-only waits for what is under way, and what comes waits behind it;
//! - relay logs survive a crash, and are lost when a stopped channel is changed or forgotten;
//! - a source refuses a replica that lacks what was purged, or has what the source never had.
//!
//! One table with a primary key stands for all data. Partial transactions, DDL and locks between rows
//! are left out.

mod clone;
mod commit;
mod connect;
mod container;
mod data;
mod link;
mod mysqls;
mod network;
mod observe;
mod pace;
mod process;
mod replica;
mod session;
mod statements;
mod volume;

pub(super) use container::{Files, Modelled};
pub use data::{Gtid, Row};
pub use mysqls::{Mysqls, Written};
pub use observe::Acknowledged;
pub use pace::Pace;
pub use volume::Volume;
