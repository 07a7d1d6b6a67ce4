//! The handle: what drives the network in time, and what tests and the demo do to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::time::{Instant, sleep, sleep_until};

use super::{
    data::{Gtid, Row},
    network::Network,
    observe::Acknowledged,
    pace::Pace,
    process::{DiskId, ProcessId},
    session::Door,
};
use crate::mysql::MysqlError;
use crate::sync::watch;

/// When nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

/// Modelled MySQL servers and the network between them. Clones are one and the same.
#[derive(Clone)]
pub struct Mysqls {
    shared: Arc<Shared>,
}

struct Shared {
    network: Mutex<Network>,
    /// Counts what has happened.
    changed: watch::Sender<u64>,
}

/// How a client's insert ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It was answered with OK.
    Acknowledged(Gtid),
    /// It was refused: the server is read-only.
    ReadOnly,
    /// It was refused: the row is there.
    Duplicate,
    /// There was no connection. Nothing was written.
    Unreachable,
    /// The connection broke before the answer. Whether it was written is unknown.
    Lost,
}

impl Mysqls {
    /// No servers yet. The same seed gives the same run, on a runtime of one thread with paused time.
    ///
    /// # Panics
    /// Outside a tokio runtime: it runs a task there, which ends with the last handle.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::with_pace(seed, Pace::default())
    }

    /// The same with a pace of one's own.
    #[must_use]
    pub fn with_pace(seed: u64, pace: Pace) -> Self {
        let changed = watch::Sender::new(0);
        let changes = changed.subscribe();
        let network = Mutex::new(Network::new(seed, pace, Instant::now()));
        let shared = Arc::new(Shared { network, changed });
        tokio::spawn(drive(Arc::downgrade(&shared), changes));
        Self { shared }
    }

    /// Cuts the way between two hosts: what is sent is held up, and comes once it is healed unless
    /// the receiver has given up by then.
    pub fn cut(&self, a: &str, b: &str) {
        self.change(|network, now| network.cut(a, b, true, now));
    }

    /// Heals the way between two hosts.
    pub fn heal(&self, a: &str, b: &str) {
        self.change(|network, now| network.cut(a, b, false, now));
    }

    /// Heals everything.
    pub fn heal_all(&self) {
        self.change(|network, now| {
            network.cuts.clear();
            network.release(now);
        });
    }

    /// Stops the mysqld at `host` from doing anything, as SIGSTOP does. Its clients wait.
    pub fn freeze(&self, host: &str) {
        self.at(host, |network, id, now| network.freeze(id, true, now));
    }

    /// Lets a frozen mysqld go on.
    pub fn thaw(&self, host: &str) {
        self.at(host, |network, id, now| network.freeze(id, false, now));
    }

    /// Makes the disk at `host`, and its applier, slower by so much for each transaction.
    pub fn slow(&self, host: &str, disk: Duration, applier: Duration) {
        self.change(|network, _| network.slow.insert(host.to_owned(), (disk, applier)));
    }

    /// Makes the applier at `host` wait for a lock, as `FLUSH TABLES WITH READ LOCK` does, or lets it
    /// go on.
    pub fn hold_applier(&self, host: &str, held: bool) {
        self.at(host, |network, id, now| network.hold_applier(id, held, now));
    }

    /// Purges the binary log at `host` of all that is committed.
    pub fn purge(&self, host: &str) {
        self.at(host, |network, id, _| {
            network.with(id, |_, data| data.purge())
        });
    }

    /// Inserts a row as the application does. Cuts do not matter: the client is next to the server.
    /// One that stops waiting drops this, which closes its session.
    pub async fn write(&self, host: &str, row: Row) -> Written {
        let Some(process) = self.look(|network| network.names.get(host).copied()) else {
            return Written::Unreachable;
        };
        let door = Door {
            mysqls: self.clone(),
            process,
            user: "app",
        };
        let Ok(mut session) = door.enter().await else {
            return Written::Unreachable;
        };
        match session.insert(row, IDLE).await {
            Ok(gtid) => {
                let acknowledged = Acknowledged {
                    gtid: gtid.clone(),
                    host: host.to_owned(),
                    at: Instant::now(),
                };
                self.change(|network, _| network.ledger.insert(row, acknowledged));
                Written::Acknowledged(gtid)
            }
            Err(MysqlError::Server { code: 1290, .. }) => Written::ReadOnly,
            Err(MysqlError::Server { code: 1062, .. }) => Written::Duplicate,
            Err(_) => Written::Lost,
        }
    }

    /// Inserts a row as a person does who does not heed read-only. It is nobody's loss.
    pub async fn write_errant(&self, host: &str, row: Row) -> Option<Gtid> {
        let process = self.look(|network| network.names.get(host).copied())?;
        let door = Door {
            mysqls: self.clone(),
            process,
            user: "root",
        };
        let mut session = door.enter().await.ok()?;
        let before = self.change(|network, _| {
            network.with(process, |it, _| std::mem::take(&mut it.super_read_only))
        });
        let written = session.insert(row, IDLE).await.ok();
        self.change(|network, _| {
            network.with(process, |it, _| it.super_read_only |= before == Some(true))
        });
        written
    }

    /// Rows whose writers were told OK.
    #[must_use]
    pub fn acknowledged(&self) -> BTreeMap<Row, Acknowledged> {
        self.look(|network| network.ledger.clone())
    }

    /// Rows whose writers were told OK and that are on no volume any more, in any form.
    #[must_use]
    pub fn lost(&self) -> Vec<Row> {
        self.look(|network| network.lost())
    }

    /// Hosts of servers that could acknowledge a write that came now.
    #[must_use]
    pub fn writable(&self) -> Vec<String> {
        self.look(|network| network.writable())
    }

    /// The volumes that have a row in any form: committed, in the binary log, or received.
    #[must_use]
    pub fn holders(&self, row: Row) -> Vec<Volume> {
        let disks = self.look(|network| network.holders(row));
        let volume = |disk| Volume {
            mysqls: self.clone(),
            disk,
        };
        disks.into_iter().map(volume).collect()
    }

    /// The rows that are visible at `host`; none where no mysqld runs.
    #[must_use]
    pub fn rows(&self, host: &str) -> BTreeMap<Row, Gtid> {
        self.at(host, |network, id, _| network.rows(id))
            .unwrap_or_default()
    }

    /// Does something to the process at `host`, if there is one.
    fn at<T>(
        &self,
        host: &str,
        act: impl FnOnce(&mut Network, ProcessId, Instant) -> T,
    ) -> Option<T> {
        self.change(|network, now| {
            let id = network.names.get(host).copied()?;
            Some(act(network, id, now))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Network> {
        let network = &self.shared.network;
        network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Network) -> T) -> T {
        look(&self.lock())
    }

    /// Changes something, and has all who wait look again.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Network, Instant) -> T) -> T {
        let done = change(&mut self.lock(), Instant::now());
        self.shared.changed.send_modify(|count| *count += 1);
        done
    }

    /// Looks again and again, whenever something has happened, until there is something to find.
    pub(super) async fn until<T>(
        &self,
        mut look: impl FnMut(&mut Network, Instant) -> Option<T>,
    ) -> T {
        let mut changes = self.shared.changed.subscribe();
        loop {
            let (found, begun) = {
                let mut network = self.lock();
                let before = network.ids();
                let found = look(&mut network, Instant::now());
                (found, network.ids() != before)
            };
            if found.is_some() || begun {
                self.shared.changed.send_modify(|count| *count += 1);
            }
            if let Some(found) = found {
                return found;
            }
            // The sender is ours: it is there as long as we are.
            let _ = changes.changed().await;
        }
    }

    /// The way of a statement to the server and back.
    pub(super) async fn pause(&self) {
        let takes = {
            let mut network = self.lock();
            let range = network.pace.statement.clone();
            network.dice.within(&range)
        };
        sleep(takes).await;
    }
}

/// Lets happen what is due, when it is.
async fn drive(shared: Weak<Shared>, mut changes: watch::Receiver<u64>) {
    loop {
        let due = {
            let Some(shared) = shared.upgrade() else {
                return;
            };
            let mut network = shared
                .network
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            if network.due().is_some_and(|due| due <= now) {
                network.advance(now);
                shared.changed.send_modify(|count| *count += 1);
                changes.mark_unchanged();
            }
            network.due().unwrap_or(now + IDLE)
        };
        tokio::select! {
            biased;
            changed = changes.changed() => if changed.is_err() {
                return;
            },
            () = sleep_until(due) => {}
        }
    }
}

/// A modelled disk: a data directory, the manager's term, binary logs kept aside. It survives the
/// instances that use it. Clones are one and the same.
#[derive(Clone)]
pub struct Volume {
    pub(super) mysqls: Mysqls,
    pub(super) disk: DiskId,
}

impl Volume {
    /// An empty one.
    #[must_use]
    pub fn new(mysqls: &Mysqls) -> Self {
        let disk = mysqls.change(|network, _| {
            let disk = DiskId(network.id());
            network.disks.entry(disk).or_default();
            disk
        });
        Self {
            mysqls: mysqls.clone(),
            disk,
        }
    }

    /// Removes all that is on it: the volume is deleted.
    pub fn erase(&self) {
        self.mysqls
            .change(|network, _| network.disks.remove(&self.disk));
    }

    /// Whether there is a complete data directory.
    #[must_use]
    pub fn has_data(&self) -> bool {
        let disk = self.disk;
        self.mysqls
            .look(|network| network.disks.get(&disk).is_some_and(|it| it.data.is_some()))
    }
}

impl PartialEq for Volume {
    fn eq(&self, other: &Self) -> bool {
        self.disk == other.disk && Arc::ptr_eq(&self.mysqls.shared, &other.mysqls.shared)
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "volume {}", self.disk.0)
    }
}

impl std::fmt::Debug for Mysqls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mysqls").finish_non_exhaustive()
    }
}
