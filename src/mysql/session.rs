//! One connection to the local server.

use std::{path::PathBuf, time::Duration};

use futures_util::FutureExt as _;
use mysql_async::{Conn, OptsBuilder, Row, prelude::FromRow, prelude::Queryable as _};

use super::{MysqlError, text::summary};

/// How long a statement may take that only reads or sets something.
pub const STATEMENT: Duration = Duration::from_secs(5);
/// How long connecting may take.
pub const CONNECT: Duration = Duration::from_secs(3);

/// Told to the driver so that it does not ask the server for it.
const MAX_PACKET: usize = 16 << 20;
/// What every session starts with. The mode is that of [`super::text::literal`]; connections stay
/// open for as long as the server runs; nothing that waits for a lock waits for longer than the
/// client does by much (the server's default is a year).
const SETUP: &str =
    "SET SESSION sql_mode='', wait_timeout=31536000, lock_wait_timeout=10, time_zone='+00:00'";

/// How to reach the local server.
#[derive(Clone)]
pub struct Login {
    /// Its Unix socket.
    pub socket: PathBuf,
    /// Account.
    pub user: String,
    /// Password.
    pub password: String,
}

/// One connection over the Unix socket. Every statement has a deadline; a connection whose
/// statement was not answered, or not waited for, is closed and never used again.
#[derive(Debug)]
pub struct Session {
    conn: Option<Conn>,
    /// A statement was sent and its answer not read yet.
    unanswered: bool,
}

impl Session {
    /// Connects.
    pub async fn open(login: &Login) -> Result<Self, MysqlError> {
        let options = OptsBuilder::default()
            .socket(Some(login.socket.to_string_lossy()))
            .user(Some(&login.user))
            .pass(Some(&login.password))
            .max_allowed_packet(Some(MAX_PACKET))
            .wait_timeout(Some(31_536_000))
            .stmt_cache_size(0)
            .setup(vec![SETUP]);
        match tokio::time::timeout(CONNECT, Conn::new(options)).await {
            Ok(Ok(conn)) => Ok(Self {
                conn: Some(conn),
                unanswered: false,
            }),
            Ok(Err(error)) => Err(MysqlError::Connect(error.to_string())),
            Err(_) => Err(MysqlError::Connect(format!("no answer within {CONNECT:?}"))),
        }
    }

    /// The server's number for this connection, while it is open.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.conn.as_ref().map(Conn::id)
    }

    /// Whether another statement can be sent.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.conn.is_some() && !self.unanswered
    }

    /// Runs a statement that answers no rows.
    pub async fn run(&mut self, statement: &str, within: Duration) -> Result<(), MysqlError> {
        self.rows::<Row>(statement, within).await.map(drop)
    }

    /// Runs a statement and reads its rows.
    pub async fn rows<T>(&mut self, statement: &str, within: Duration) -> Result<Vec<T>, MysqlError>
    where
        T: FromRow + Send + 'static,
    {
        let lost = |why: String| MysqlError::Lost {
            statement: summary(statement),
            why,
        };
        if self.unanswered {
            self.close();
        }
        let conn = self
            .conn
            .as_mut()
            .ok_or_else(|| lost("closed before".to_owned()))?;
        self.unanswered = true;
        let answer = tokio::time::timeout(within, conn.query::<Row, _>(statement)).await;
        match answer {
            Ok(Ok(rows)) => {
                self.unanswered = false;
                let read = rows
                    .into_iter()
                    .map(T::from_row_opt)
                    .collect::<Result<_, _>>();
                read.map_err(|_| MysqlError::Answer {
                    statement: summary(statement),
                })
            }
            Ok(Err(mysql_async::Error::Server(refused))) => {
                self.unanswered = false;
                Err(MysqlError::Server {
                    statement: summary(statement),
                    code: refused.code,
                    message: refused.message,
                })
            }
            Ok(Err(error)) => {
                self.close();
                Err(lost(error.to_string()))
            }
            Err(_) => {
                self.close();
                Err(MysqlError::Timeout {
                    statement: summary(statement),
                    within,
                })
            }
        }
    }

    /// Runs a statement that answers exactly one row.
    pub async fn row<T>(&mut self, statement: &str, within: Duration) -> Result<T, MysqlError>
    where
        T: FromRow + Send + 'static,
    {
        let first = self.rows(statement, within).await?.into_iter().next();
        first.ok_or_else(|| MysqlError::Answer {
            statement: summary(statement),
        })
    }

    /// Closes now. Left to itself the driver would keep the socket, and a task, until the server
    /// answers; a server that hangs would use up our descriptors.
    fn close(&mut self) {
        if let Some(conn) = self.conn.take() {
            let _ = conn.disconnect().now_or_never();
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.close();
    }
}
