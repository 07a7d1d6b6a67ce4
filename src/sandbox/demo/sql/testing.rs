//! Servers that do as a test tells them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;

use super::{Servers, Session, Target};
use crate::operator::kinds::Pod;
use crate::sandbox::demo::ledger::Rows;
use crate::sandbox::demo::observer::Account;

/// Servers by pod name, each made when it is first named.
#[derive(Clone, Default)]
pub(crate) struct FakeServers(Arc<Mutex<BTreeMap<String, FakeServer>>>);

#[derive(Default)]
struct FakeServer {
    rows: Rows,
    down: bool,
    hanging: bool,
}

impl FakeServers {
    pub(super) fn rows(&self, pod: &str) -> Rows {
        self.with(pod, |server| server.rows.clone())
    }

    /// Refuses and breaks its sessions.
    pub(super) fn set_down(&self, pod: &str, down: bool) {
        self.with(pod, |server| server.down = down);
    }

    /// Takes rows and does not answer.
    pub(super) fn set_hanging(&self, pod: &str, hanging: bool) {
        self.with(pod, |server| server.hanging = hanging);
    }

    pub(super) fn insert(&self, pod: &str, row: u64) {
        self.with(pod, |server| server.rows.insert(row));
    }

    fn with<T>(&self, pod: &str, look: impl FnOnce(&mut FakeServer) -> T) -> T {
        look(self.0.lock().unwrap().entry(pod.to_owned()).or_default())
    }
}

impl Servers for FakeServers {
    fn connect(&self, target: &Target) -> BoxFuture<'static, Result<Box<dyn Session>, String>> {
        let (servers, pod) = (self.clone(), target.pod.metadata.name.to_string());
        let down = self.with(&pod, |server| server.down);
        let session = FakeSession { servers, pod };
        Box::pin(async move {
            if down {
                return Err("refused".to_owned());
            }
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }
}

struct FakeSession {
    servers: FakeServers,
    pod: String,
}

impl Session for FakeSession {
    fn insert(&mut self, row: u64) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            let (down, hanging) = self.servers.with(&self.pod, |server| {
                if !server.down {
                    server.rows.insert(row);
                }
                (server.down, server.hanging)
            });
            if hanging {
                std::future::pending::<()>().await;
            }
            if down { Err("gone".to_owned()) } else { Ok(()) }
        })
    }

    fn rows(&mut self) -> BoxFuture<'_, Result<Rows, String>> {
        Box::pin(async move {
            let (down, rows) = self.servers.with(&self.pod, |s| (s.down, s.rows.clone()));
            if down {
                Err("gone".to_owned())
            } else {
                Ok(rows)
            }
        })
    }
}

/// The target that is called so.
pub(crate) fn target(pod: &str) -> Target {
    let mut value = Pod::default();
    value.metadata.name = pod.into();
    Target {
        pod: Arc::new(value),
        account: Account {
            username: "app".into(),
            password: "secret".into(),
            database: "app".into(),
        },
    }
}
