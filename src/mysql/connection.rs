//! One connection to the local server.

use std::{path::PathBuf, time::Duration};

use futures_util::FutureExt as _;
use mysql_async::{Conn, OptsBuilder, Row, prelude::FromRow, prelude::Queryable as _};

use super::{
    Access, Answer, Channel, Counters, MysqlError, Process, STATEMENT, ServerState, Session,
    Statement, read, text::literal, text::summary,
};

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
pub struct Connection {
    conn: Option<Conn>,
    /// A statement was sent and its answer not read yet.
    unanswered: bool,
}

impl Connection {
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

    /// Runs a statement and reads its rows.
    pub(super) async fn rows<T>(
        &mut self,
        statement: &str,
        within: Duration,
    ) -> Result<Vec<T>, MysqlError>
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
    pub(super) async fn row<T>(
        &mut self,
        statement: &str,
        within: Duration,
    ) -> Result<T, MysqlError>
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

impl Session for Connection {
    fn is_usable(&self) -> bool {
        self.conn.is_some() && !self.unanswered
    }

    fn run<'a>(&'a mut self, statement: &'a Statement, within: Duration) -> Answer<'a, ()> {
        async move {
            let statement = statement.to_string();
            self.rows::<Row>(&statement, within).await.map(drop)
        }
        .boxed()
    }

    fn channel(&mut self) -> Answer<'_, Option<Channel>> {
        read::channel(self).boxed()
    }

    fn globals(&mut self) -> Answer<'_, ServerState> {
        read::globals(self).boxed()
    }

    fn counters(&mut self) -> Answer<'_, Counters> {
        read::counters(self).boxed()
    }

    fn missing<'a>(&'a mut self, set: &'a str) -> Answer<'a, Option<String>> {
        async move {
            let set = literal(set);
            let prove = format!(
                "SELECT GTID_SUBSET({set}, @@GLOBAL.gtid_executed), \
                 REPLACE(GTID_SUBTRACT({set}, @@GLOBAL.gtid_executed), '\\n', '')"
            );
            let (has_all, rest) = self.row::<(bool, String)>(&prove, STATEMENT).await?;
            Ok((!has_all).then_some(rest))
        }
        .boxed()
    }

    fn wait_executed<'a>(&'a mut self, set: &'a str, within: Duration) -> Answer<'a, bool> {
        async move {
            let statement = format!(
                "SELECT WAIT_FOR_EXECUTED_GTID_SET({}, {})",
                literal(set),
                within.as_secs()
            );
            Ok(self.row::<i64>(&statement, within + STATEMENT).await? == 0)
        }
        .boxed()
    }

    fn processes(&mut self) -> Answer<'_, Vec<Process>> {
        read::processes(self).boxed()
    }

    fn clone_status(&mut self) -> Answer<'_, Option<(String, String)>> {
        async move {
            let status = "SELECT STATE, ERROR_MESSAGE FROM performance_schema.clone_status";
            Ok(self.rows(status, STATEMENT).await?.into_iter().next())
        }
        .boxed()
    }

    fn partial_revokes(&mut self) -> Answer<'_, bool> {
        self.row("SELECT @@GLOBAL.partial_revokes", STATEMENT)
            .boxed()
    }
}

impl Access for Login {
    fn open(&self) -> Answer<'_, Box<dyn Session>> {
        async move { Ok(Box::new(Connection::open(self).await?) as Box<dyn Session>) }.boxed()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.close();
    }
}
