//! A demo that runs: its parts, what is known of them, and the look for acknowledged rows.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::faults::Faults;
use super::gather;
use super::ledger::Rows;
use super::meter::Meter;
use super::observer::Observer;
use super::operators::OperatorProcess;
use super::snapshot::{Rates, Snapshot};
use super::sql::{Servers, Target, Writer, missing};
use super::summary::Copy;
use crate::apiserver::ApiServer;
use crate::client::Client;
use crate::operator::kinds::Pod;
use crate::runtime::ObjectKey;
use crate::sandbox::Node;

/// How long a replica may take to catch up with what was acknowledged.
const CATCH_UP: Duration = Duration::from_secs(10);

/// The parts of a demo.
pub(super) struct World {
    /// When the demo began.
    pub(super) started: Instant,
    /// What stands for MySQL, in words.
    pub(super) mysql: String,
    /// What a cut is, in words.
    pub(super) cut_words: &'static str,
    /// For `kubectl`.
    pub(super) kubeconfig: PathBuf,
    /// The cluster that is shown.
    pub(super) cluster: ObjectKey,
    /// The demo's own client.
    pub(super) client: Client,
    /// The API server.
    pub(super) api: ApiServer,
    /// The node.
    pub(super) node: Node,
    /// What is known.
    pub(super) observer: Arc<Observer>,
    /// The operator's replicas.
    pub(super) operators: Vec<OperatorProcess>,
    /// The MySQL servers, as a client comes to them.
    pub(super) servers: Arc<dyn Servers>,
    /// The client that writes.
    pub(super) writer: Writer,
    /// Faults that hold.
    pub(super) faults: Arc<Faults>,
    /// What changes besides.
    pub(super) board: Mutex<Board>,
}

/// What the demo itself remembers.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// The last thing that was done, or why it was not.
    message: String,
    requests: Meter,
    lost: Option<u64>,
}

impl World {
    /// Shows a message until the next one.
    pub(super) fn say(&self, message: String) {
        tracing::info!(message, "told");
        self.board(|board| board.message = message);
    }

    /// All that is shown, as it is now.
    pub(super) fn snapshot(&self) -> Snapshot {
        self.observer.track();
        let now = Instant::now();
        let facts = self.observer.facts();
        let lease = facts.lease.as_deref();
        let replica = |operator: &OperatorProcess| {
            gather::replica(operator.name(), &operator.state(), lease, now)
        };
        let cluster = facts.cluster.as_deref().map(gather::cluster);
        Snapshot {
            age: now.duration_since(self.started),
            mysql: self.mysql.clone(),
            kubeconfig: self.kubeconfig.clone(),
            cluster: cluster.unwrap_or_default(),
            instances: gather::instances(&facts),
            replicas: self.operators.iter().map(replica).collect(),
            lease_holder: gather::holder(lease),
            events: gather::events(facts.events.iter().map(|event| &**event), Timestamp::now()),
            rates: self.rates(now),
            faults: self.faults.words(),
            message: self.board(|board| board.message.clone()),
        }
    }

    fn rates(&self, now: Instant) -> Rates {
        let requests = self.api.request_count();
        let (requests, lost) = self.board(|board| (board.requests.read(now, requests), board.lost));
        let ledger = self.writer.ledger();
        Rates {
            writing: ledger.is_writing(),
            writes: ledger.rate(now),
            acknowledged: ledger.acknowledged().len(),
            pause: ledger.pause(now).map(|pause| pause.length),
            longest: ledger.longest(now).map(|pause| pause.length),
            lost,
            requests,
        }
    }

    /// Looks once whether the primary has every acknowledged row, for the screen.
    pub(super) async fn look_for_lost(&self) {
        let acknowledged = self.writer.ledger().acknowledged().clone();
        let Some(target) = self.read_write_target() else {
            return;
        };
        let found = missing(&*self.servers, &target, &acknowledged, Duration::ZERO).await;
        match found {
            Ok(missing) => self.board(|board| board.lost = Some(missing.len())),
            // Not known is not lost; what was known before stays.
            Err(error) => tracing::info!(error, "the ledger can't be compared now"),
        }
    }

    /// What each instance lacks of the acknowledged rows, the primary first.
    pub(super) async fn copies(&self) -> Vec<Copy> {
        let acknowledged = self.writer.ledger().acknowledged().clone();
        if acknowledged.is_empty() {
            return Vec::new();
        }
        let facts = self.observer.facts();
        let primary = facts
            .cluster
            .as_ref()
            .and_then(|c| c.status.current_primary.clone());
        let mut pods = facts.pods;
        pods.sort_by_key(|pod| Some(pod.metadata.name.as_str()) != primary.as_deref());
        let copies = pods.into_iter().map(|pod| self.copy(pod, &acknowledged));
        futures_util::future::join_all(copies).await
    }

    async fn copy(&self, pod: Arc<Pod>, acknowledged: &Rows) -> Copy {
        let name = pod.metadata.name.to_string();
        let missing = match self.observer.account() {
            None => Err("there is no account".to_owned()),
            Some(account) => {
                let target = Target { pod, account };
                missing(&*self.servers, &target, acknowledged, CATCH_UP).await
            }
        };
        Copy { pod: name, missing }
    }

    fn read_write_target(&self) -> Option<Target> {
        read_write_target(&self.observer)
    }

    fn board<T>(&self, look: impl FnOnce(&mut Board) -> T) -> T {
        // Plain data: it is whole after any panic.
        look(&mut self.board.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Where the read-write Service leads, and the application's account.
pub(super) fn read_write_target(observer: &Observer) -> Option<Target> {
    Some(Target {
        pod: observer.read_write_pod()?,
        account: observer.account()?,
    })
}
