//! Sessions with modelled servers.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{Servers, Session, Target};
use crate::operator::kinds::Pod;
use crate::sandbox::demo::ledger::Rows;
use crate::sandbox::{Mysqls, Written};

/// Whether a client's packets reach a pod, and its answers the client.
pub(crate) type Reach = Arc<dyn Fn(&Pod) -> bool + Send + Sync>;

/// Modelled servers, for a client whose way to them can be cut.
pub(crate) struct ModelledServers {
    mysqls: Mysqls,
    reach: Reach,
}

impl ModelledServers {
    /// A client of `mysqls`.
    pub(crate) fn new(mysqls: Mysqls, reach: Reach) -> Self {
        Self { mysqls, reach }
    }
}

impl Servers for ModelledServers {
    fn connect(&self, target: &Target) -> BoxFuture<'static, Result<Box<dyn Session>, String>> {
        let session = ModelledSession {
            host: target.host(),
            mysqls: self.mysqls.clone(),
            pod: target.pod.clone(),
            reach: self.reach.clone(),
        };
        Box::pin(async move {
            session.arrive().await;
            Ok(Box::new(session) as Box<dyn Session>)
        })
    }
}

struct ModelledSession {
    mysqls: Mysqls,
    host: String,
    pod: Arc<Pod>,
    reach: Reach,
}

impl ModelledSession {
    /// What is sent over a cut way never arrives; who sent it waits until it gives up.
    async fn arrive(&self) {
        if !(self.reach)(&self.pod) {
            std::future::pending::<()>().await;
        }
    }
}

impl Session for ModelledSession {
    fn insert(&mut self, row: u64) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async move {
            self.arrive().await;
            let written = self.mysqls.write(&self.host, row).await;
            self.arrive().await;
            match written {
                Written::Acknowledged(_) => Ok(()),
                Written::ReadOnly => Err("the server is read-only".to_owned()),
                Written::Duplicate => Err("the row is there".to_owned()),
                Written::Unreachable => Err("the server refuses connections".to_owned()),
                Written::Lost => Err("the connection broke".to_owned()),
            }
        })
    }

    fn rows(&mut self) -> BoxFuture<'_, Result<Rows, String>> {
        Box::pin(async move {
            self.arrive().await;
            match self.mysqls.rows(&self.host).into_keys().collect::<Rows>() {
                rows if rows.is_empty() => Err("no server, or an empty one".to_owned()),
                rows => Ok(rows),
            }
        })
    }
}
