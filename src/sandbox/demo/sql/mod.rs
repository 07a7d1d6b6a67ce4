//! A client of the database: it writes rows to whoever the read-write Service leads to, and looks
//! for them later.

mod check;
mod modelled;
mod real;
mod writer;

use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::ledger::Rows;
use super::observer::Account;
use crate::operator::kinds::Pod;
use crate::operator::resources::{CLUSTER_LABEL, host};

pub(super) use check::missing;
pub(super) use modelled::ModelledServers;
pub(super) use real::RealServers;
pub(super) use writer::Writer;

/// The MySQL servers, as a client comes to them.
pub(super) trait Servers: Send + Sync + 'static {
    /// A session with the server of a pod. The caller limits the time, of this and of what follows.
    fn connect(&self, target: &Target) -> BoxFuture<'static, Result<Box<dyn Session>, String>>;
}

/// A session. After an error, or an answer that was not waited for, it is of no use any more.
pub(super) trait Session: Send {
    /// Inserts a row; `Ok` is an acknowledged commit.
    fn insert(&mut self, row: u64) -> BoxFuture<'_, Result<(), String>>;
    /// All rows that are there.
    fn rows(&mut self) -> BoxFuture<'_, Result<Rows, String>>;
}

/// Which server, as whom.
#[derive(Clone)]
pub(super) struct Target {
    /// The server's pod.
    pub(super) pod: Arc<Pod>,
    /// The account.
    pub(super) account: Account,
}

impl Target {
    /// The server's DNS name.
    fn host(&self) -> String {
        let meta = &self.pod.metadata;
        let cluster = meta.labels.get(CLUSTER_LABEL);
        host(cluster.unwrap_or_default(), &meta.namespace, &meta.name)
    }
}

#[cfg(test)]
mod testing;
