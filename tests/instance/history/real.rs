//! Real instances.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use mainstay::instance::{Command, CommandError, InstanceStatus};
use mysql_async::{Conn, prelude::Queryable as _};
use nix::sys::signal::Signal;
use tokio::task::JoinHandle;

use super::{Number, World, Wrote};
use crate::{
    harness::{APP, Cluster},
    process::{Instance, connect},
};

/// Processes on loopback addresses.
pub(crate) struct Real {
    cluster: Arc<Cluster>,
    instances: BTreeMap<Number, Instance>,
    /// Sessions that hold a lock.
    locks: BTreeMap<Number, Conn>,
}

impl Real {
    pub(crate) async fn new(mysqld: PathBuf) -> Self {
        Self {
            cluster: Cluster::new(mysqld).await,
            instances: BTreeMap::new(),
            locks: BTreeMap::new(),
        }
    }
}

impl World for Real {
    fn host(&self, number: Number) -> String {
        self.cluster.host(number)
    }

    fn start(&mut self, number: Number) {
        let instance = self.cluster.start(number);
        self.instances.insert(number, instance);
    }

    async fn status(&self, number: Number) -> Option<InstanceStatus> {
        self.instances.get(&number)?.status().await
    }

    async fn command(
        &self,
        number: Number,
        term: u64,
        command: &Command,
    ) -> Result<InstanceStatus, CommandError> {
        self.instances[&number].command(term, command).await
    }

    fn insert(&self, number: Number, row: u64) -> JoinHandle<Wrote> {
        let host = self.host(number);
        tokio::spawn(async move {
            let Ok(mut app) = connect(&host, "app", APP).await else {
                return Wrote::Unreachable;
            };
            let insert = format!("INSERT INTO my_app.t VALUES ({row})");
            match app.query_drop(insert).await {
                Ok(()) => Wrote::Acknowledged,
                Err(mysql_async::Error::Server(error)) => match error.code {
                    1290 => Wrote::ReadOnly,
                    1062 => Wrote::Duplicate,
                    _ => Wrote::Lost,
                },
                Err(_) => Wrote::Lost,
            }
        })
    }

    async fn insert_errant(&self, number: Number, row: u64) -> Option<()> {
        let mut root = self.instances[&number].root().await;
        for statement in [
            "SET GLOBAL super_read_only=OFF",
            &format!("INSERT INTO my_app.t VALUES ({row})"),
            "SET GLOBAL super_read_only=ON",
        ] {
            root.query_drop(statement).await.ok()?;
        }
        Some(())
    }

    async fn create_table(&self, number: Number) {
        let mut app = self.instances[&number].app().await.unwrap();
        app.query_drop("CREATE TABLE my_app.t (id BIGINT PRIMARY KEY)")
            .await
            .unwrap();
    }

    async fn purge(&self, number: Number) -> Option<()> {
        let mut root = self.instances[&number].root().await;
        // A log that is being read is not purged.
        loop {
            root.query_drop("FLUSH BINARY LOGS").await.ok()?;
            let (newest, ..): (String, u64, String, String, String) =
                root.query_first("SHOW BINARY LOG STATUS").await.ok()??;
            let purge = format!("PURGE BINARY LOGS TO '{newest}'");
            root.query_drop(purge).await.ok()?;
            let rest = "SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, @@GLOBAL.gtid_purged)";
            let rest: String = root.query_first(rest).await.ok()??;
            if rest.is_empty() {
                return Some(());
            }
        }
    }

    async fn hold_applier(&mut self, number: Number, held: bool) {
        if !held {
            if let Some(lock) = self.locks.remove(&number) {
                lock.disconnect().await.unwrap();
            }
            return;
        }
        let mut lock = self.instances[&number].root().await;
        lock.query_drop("FLUSH TABLES WITH READ LOCK")
            .await
            .unwrap();
        self.locks.insert(number, lock);
    }

    fn kill_mysqld(&self, number: Number) {
        self.instances[&number].signal_mysqld(Signal::SIGKILL);
    }

    fn kill(&mut self, number: Number) {
        self.instances.remove(&number);
    }

    fn erase(&mut self, number: Number) {
        std::fs::remove_dir_all(self.cluster.path(&format!("t-{number}"))).unwrap();
    }

    async fn terminate(&mut self, number: Number) -> Option<i32> {
        let mut instance = self.instances.remove(&number)?;
        instance.signal(Signal::SIGTERM);
        instance.ended().await
    }

    fn freeze(&self, number: Number, frozen: bool) {
        let signal = if frozen {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        };
        self.instances[&number].signal_mysqld(signal);
    }

    async fn rows(&self, number: Number) -> Vec<u64> {
        let mut root = self.instances[&number].root().await;
        // No table, no rows.
        root.query("SELECT id FROM my_app.t ORDER BY id")
            .await
            .unwrap_or_default()
    }
}
