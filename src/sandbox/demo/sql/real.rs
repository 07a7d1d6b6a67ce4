//! Sessions with mysqld.

use futures_util::future::BoxFuture;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, OptsBuilder};

use super::{Servers, Session, Target};
use crate::sandbox::Processes;
use crate::sandbox::demo::ledger::Rows;

/// Servers that are processes of this machine.
pub(crate) struct RealServers {
    processes: Processes,
}

impl RealServers {
    /// Those of a node's pods.
    pub(crate) fn new(processes: Processes) -> Self {
        Self { processes }
    }
}

impl Servers for RealServers {
    fn connect(&self, target: &Target) -> BoxFuture<'static, Result<Box<dyn Session>, String>> {
        let host = target.host();
        let Some(address) = self.processes.mysql(&host) else {
            return Box::pin(async move { Err(format!("nothing runs at {host}")) });
        };
        let account = &target.account;
        let options = OptsBuilder::default()
            .ip_or_hostname(address.ip().to_string())
            .tcp_port(address.port())
            // A socket that the server names may be another server's, at another address.
            .prefer_socket(false)
            .user(Some(&account.username))
            .pass(Some(&account.password))
            .db_name(Some(&account.database));
        Box::pin(async move {
            let connection = Conn::new(options)
                .await
                .map_err(|error| error.to_string())?;
            let session = RealSession {
                connection,
                has_table: false,
            };
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }
}

struct RealSession {
    connection: Conn,
    has_table: bool,
}

impl Session for RealSession {
    fn insert(&mut self, row: u64) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            if !self.has_table {
                let create = "CREATE TABLE IF NOT EXISTS ledger (n BIGINT UNSIGNED PRIMARY KEY)";
                self.connection
                    .query_drop(create)
                    .await
                    .map_err(|error| error.to_string())?;
                self.has_table = true;
            }
            let insert = format!("INSERT INTO ledger VALUES ({row})");
            self.connection
                .query_drop(insert)
                .await
                .map_err(|error| error.to_string())
        })
    }

    fn rows(&mut self) -> BoxFuture<'_, Result<Rows, String>> {
        Box::pin(async move {
            let rows: Vec<u64> = self
                .connection
                .query("SELECT n FROM ledger ORDER BY n")
                .await
                .map_err(|error| error.to_string())?;
            Ok(rows.into_iter().collect())
        })
    }
}
