//! Why a demo did not start, or ended other than on request.

use std::io;
use std::path::PathBuf;

use super::script::ScriptError;
use crate::client::{ConfigError, Error};

/// Why a demo did not start, or ended other than on request.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// `--dir` is in use.
    #[error("{} is not empty: a demo begins with a folder of its own", .0.display())]
    FolderInUse(PathBuf),
    /// Something of the demo's folder.
    #[error("{}: {error}", path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// The system's words.
        error: io::Error,
    },
    /// The script is not understood.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The mysqld that was named is of no use.
    #[error("{}: {why}", path.display())]
    Mysqld {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// No port for the API server.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The system's words.
        error: io::Error,
    },
    /// The certificate or the kubeconfig that was just made does not work.
    #[error("a certificate for the API server: {0}")]
    Certificate(String),
    /// The client's configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The API server refuses what the demo sets up.
    #[error("setting up: {0}")]
    SetUp(#[from] Error),
    /// The terminal.
    #[error("the terminal: {0}")]
    Terminal(io::Error),
    /// Signals can't be listened to.
    #[error("signals: {0}")]
    Signals(io::Error),
    /// A part ended that must live as long as the demo.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
}

impl DemoError {
    /// Names the file of an I/O error.
    pub(super) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}
