//! A writer that keeps a ledger of what was acknowledged.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use mysql_async::{Conn, OptsBuilder, prelude::Queryable as _};
use tokio::{sync::watch, task::JoinHandle};

use crate::{
    harness::{APP, MYSQL_PORT, until},
    process::Instance,
};

/// Inserts numbered rows, one after the other, until it is ended.
pub(crate) struct Ledger {
    acknowledged: Arc<Mutex<Vec<u64>>>,
    /// Host to write to; empty to end.
    host: watch::Sender<String>,
    writer: JoinHandle<()>,
}

impl Ledger {
    pub(crate) async fn begin(primary: &Instance) -> Self {
        let mut app = primary.app().await.unwrap();
        app.query_drop("CREATE TABLE my_app.ledger (id BIGINT PRIMARY KEY)")
            .await
            .unwrap();
        app.disconnect().await.unwrap();
        let acknowledged = Arc::<Mutex<Vec<u64>>>::default();
        let (host, hosts) = watch::channel(primary.host.clone());
        let writer = tokio::spawn(write(hosts, acknowledged.clone()));
        Self {
            acknowledged,
            host,
            writer,
        }
    }

    pub(crate) fn write_to(&self, primary: &Instance) {
        self.host.send_replace(primary.host.clone());
    }

    fn len(&self) -> usize {
        self.acknowledged.lock().unwrap().len()
    }

    /// Waits until twenty more rows are acknowledged.
    pub(crate) async fn grows(&self) {
        let before = self.len();
        until("rows are acknowledged", || async {
            (self.len() >= before + 20).then_some(())
        })
        .await;
    }

    pub(crate) async fn end(self) -> Ended {
        self.host.send_replace(String::new());
        self.writer.await.unwrap();
        Ended(self.acknowledged.lock().unwrap().clone())
    }
}

/// The rows that were acknowledged.
pub(crate) struct Ended(Vec<u64>);

impl Ended {
    /// Those that are not on all of `instances`, once they have caught up with one another.
    pub(crate) async fn missing_on(&self, instances: &[&Instance]) -> Vec<u64> {
        let mut missing = BTreeSet::new();
        let mut all = mainstay::mysql::GtidSet::default();
        for instance in instances {
            all = all.union(&instance.server().await.gtid_executed.parse().unwrap());
        }
        for instance in instances {
            instance.executed(&all.to_string()).await;
            let mut root = instance.root().await;
            let rows: Vec<u64> = root.query("SELECT id FROM my_app.ledger").await.unwrap();
            let rows = BTreeSet::from_iter(rows);
            missing.extend(self.0.iter().copied().filter(|id| !rows.contains(id)));
        }
        println!(
            "{} rows acknowledged, {} missing",
            self.0.len(),
            missing.len()
        );
        missing.into_iter().collect()
    }
}

async fn write(hosts: watch::Receiver<String>, acknowledged: Arc<Mutex<Vec<u64>>>) {
    let mut id = 0;
    loop {
        let host = hosts.borrow().clone();
        if host.is_empty() {
            return;
        }
        let options = OptsBuilder::default()
            .ip_or_hostname(&host)
            .tcp_port(MYSQL_PORT)
            .prefer_socket(false)
            .user(Some("app"))
            .pass(Some(APP));
        if let Ok(mut conn) = Conn::new(options).await {
            while *hosts.borrow() == host {
                id += 1;
                let insert = conn.query_drop(format!("INSERT INTO my_app.ledger VALUES ({id})"));
                match tokio::time::timeout(Duration::from_secs(5), insert).await {
                    Ok(Ok(())) => acknowledged.lock().unwrap().push(id),
                    _ => break,
                }
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
