//! What can go wrong in the manager.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::mysql::MysqlError;

/// Why the manager could not do something.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// A file could not be read, written or moved.
    #[error("cannot {action} {path}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A secret is there and empty.
    #[error("{0} is empty")]
    EmptySecret(PathBuf),
    /// The volume's term can't be told, so no command can be obeyed.
    #[error("the term in {path} is not a number: {text:?}")]
    Term {
        /// The file.
        path: PathBuf,
        /// What is in it.
        text: String,
    },
    /// mysqld's executable is nowhere.
    #[error("no mysqld in PATH, /usr/sbin or /usr/libexec: is this a MySQL server image?")]
    NoMysqld,
    /// A process could not be started, or ended otherwise than it should.
    #[error("{what}: {why}")]
    Process {
        /// Which.
        what: &'static str,
        /// Why, with what it wrote.
        why: String,
    },
    /// The certificate or its key is not one.
    #[error("{path}: {why}")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The listener could not be opened.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: std::net::SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The server refused, or did not answer.
    #[error(transparent)]
    Mysql(#[from] MysqlError),
}

impl InstanceError {
    /// An error about a file.
    pub(super) fn file(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File {
            action,
            path: path.to_owned(),
            source,
        }
    }
}
