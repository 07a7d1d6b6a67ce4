//! What can go wrong between the manager and its server.

use std::time::Duration;

use super::InvalidGtidSet;

/// Why something could not be done on a server.
#[derive(Debug, thiserror::Error)]
pub enum MysqlError {
    /// No connection: mysqld does not listen, does not answer or refuses the account.
    #[error("no connection to mysqld: {0}")]
    Connect(String),
    /// No answer in time. The connection is dropped; whether the statement took effect is unknown.
    #[error("{statement}: no answer within {within:?}")]
    Timeout {
        /// First words of the statement.
        statement: String,
        /// The deadline it had.
        within: Duration,
    },
    /// The connection broke. Whether the statement took effect is unknown.
    #[error("{statement}: connection lost: {why}")]
    Lost {
        /// First words of the statement.
        statement: String,
        /// What the driver says.
        why: String,
    },
    /// The server refused the statement.
    #[error("{statement}: {message} (MySQL error {code})")]
    Server {
        /// First words of the statement.
        statement: String,
        /// MySQL's error number.
        code: u16,
        /// The server's words.
        message: String,
    },
    /// The answer has not the columns that were asked for.
    #[error("{statement}: an answer that can't be read")]
    Answer {
        /// First words of the statement.
        statement: String,
    },
    /// The server's text is not a GTID set.
    #[error(transparent)]
    Gtid(#[from] InvalidGtidSet),
    /// The server's state forbids it now; nothing was done, or what was done is safe to repeat.
    #[error("{0}")]
    NotNow(String),
}

impl MysqlError {
    /// MySQL's error number, where the server refused the statement.
    #[must_use]
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Server { code, .. } => Some(*code),
            _ => None,
        }
    }
}
