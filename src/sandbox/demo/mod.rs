//! `mainstay demo`: the whole system at work on one machine, with nothing installed.
//!
//! An API server in this process, a node that runs pods as models or as processes, and three replicas
//! of the operator as child processes, each with its own token. A client writes rows and keeps a
//! ledger. It promises:
//! - a row counts as acknowledged only when the server said so, and as lost only when its absence was
//!   seen; what can't be looked at is said to be unknown;
//! - whether MySQL is real or modelled is said wherever a result is;
//! - it leaves nothing behind: no process, no file (but where they are to be kept), and the terminal
//!   as it was.
//!
//! `script` and `play` say what is done, `ledger`, `gather`, `screen` and `lines` what is shown; they
//! are pure. `start` builds the parts, `world` holds them, `run` is the loop around them.

mod act;
mod error;
mod faults;
mod folder;
mod gather;
mod keys;
mod kinds;
mod ledger;
mod lines;
mod meter;
mod mysqld;
mod observer;
mod operators;
mod play;
mod random;
mod readings;
mod run;
mod screen;
mod script;
mod setup;
mod snapshot;
mod sql;
mod start;
mod summary;
mod text;
mod until;
mod view;
mod world;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use error::DemoError;
pub use run::run;
pub use script::ScriptError;

/// How a demo is to run.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// End with the script; without one, take the standard tour.
    pub once: bool,
    /// The script.
    pub script: Option<PathBuf>,
    /// Model MySQL even where there is a mysqld.
    pub modelled: bool,
    /// The mysqld to run; `None` to look for one.
    pub mysqld: Option<PathBuf>,
    /// Folder of kubeconfigs, logs and data, which stays; `None` for a temporary one.
    pub dir: Option<PathBuf>,
    /// Keep a temporary folder.
    pub keep: bool,
    /// Where the API server listens.
    pub listen: SocketAddr,
    /// What is logged into the folder.
    pub log: String,
}
