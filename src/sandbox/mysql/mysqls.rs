//! The handle: what drives the network in time, and what tests and the demo do to it.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};

use super::{
    data::{Gtid, Row},
    network::Network,
    observe::Acknowledged,
    pace::Pace,
    process::ProcessId,
    session::{Door, Modelled},
    volume::Volume,
};
use crate::mysql::{MysqlError, Session as _, Statement};

/// When nothing is due.
const IDLE: Duration = Duration::from_hours(1);

/// Modelled MySQL servers and the network between them. Clones are one and the same.
#[derive(Clone)]
pub struct Mysqls {
    shared: Arc<Shared>,
}

struct Shared {
    network: Mutex<Network>,
    /// Wakes all who wait, in the order in which they began to: a watch channel would wake them in
    /// another order each time.
    changed: Arc<Notify>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.changed.notify_waiters();
    }
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
        let changed = Arc::<Notify>::default();
        let shared = Arc::new(Shared {
            network: Mutex::new(Network::new(seed, pace, Instant::now())),
            changed: changed.clone(),
        });
        tokio::spawn(drive(Arc::downgrade(&shared), changed));
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

    /// Tells the mysqld at `host` to shut down, as SIGTERM does. Only its manager may know when that is
    /// safe.
    pub fn terminate(&self, host: &str) {
        self.at(host, Network::terminate);
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

    /// Purges the binary log at `host` of all that is committed. Waits while a commit does.
    pub async fn purge(&self, host: &str) -> Option<()> {
        let mut session = self.root(host).await?;
        session.run(&Statement::FlushBinaryLogs, IDLE).await.ok()?;
        self.at(host, |network, id, _| {
            network.with(id, |_, data| data.purge())
        })?
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

    /// Inserts a row as a person does who makes the server writable for it, and read-only again.
    pub async fn write_errant(&self, host: &str, row: Row) -> Option<Gtid> {
        let mut session = self.root(host).await?;
        let set = |value: &str| Statement::Set("super_read_only", value.to_owned());
        session.run(&set("OFF"), IDLE).await.ok()?;
        let written = session.insert(row, IDLE).await.ok();
        session.run(&set("ON"), IDLE).await.ok()?;
        written
    }

    /// Runs a statement as root that goes through the binary log and changes no row.
    pub async fn write_ddl(&self, host: &str) -> Option<()> {
        let mut session = self.root(host).await?;
        let statement = Statement::Logged("DO 0".to_owned());
        session.run(&statement, IDLE).await.ok()
    }

    async fn root(&self, host: &str) -> Option<Modelled> {
        let process = self.look(|network| network.names.get(host).copied())?;
        let door = Door {
            mysqls: self.clone(),
            process,
            user: "root",
        };
        door.enter().await.ok()
    }

    /// Rows whose writers were told OK.
    #[must_use]
    pub fn acknowledged(&self) -> BTreeMap<Row, Acknowledged> {
        self.look(|network| network.ledger.clone())
    }

    /// Rows whose writers were told OK and that are on no volume any more, in any form.
    #[must_use]
    pub fn lost(&self) -> Vec<Row> {
        self.look(Network::lost)
    }

    /// Hosts of servers that accept writes now, whether or not they could acknowledge one.
    #[must_use]
    pub fn open(&self) -> Vec<String> {
        self.look(Network::opened)
    }

    /// Hosts of servers that could acknowledge a write that came now.
    #[must_use]
    pub fn writable(&self) -> Vec<String> {
        self.look(Network::writable)
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

    /// Whether two handles are of the same network.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
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
        self.shared.changed.notify_waiters();
        done
    }

    /// Looks again and again, whenever something has happened, until there is something to find.
    pub(super) async fn until<T>(
        &self,
        mut look: impl FnMut(&mut Network, Instant) -> Option<T>,
    ) -> T {
        loop {
            let changed = {
                let mut network = self.lock();
                let before = network.ids();
                let found = look(&mut network, Instant::now());
                if found.is_some() || network.ids() != before {
                    self.shared.changed.notify_waiters();
                }
                if let Some(found) = found {
                    return found;
                }
                // Begun under the lock: no change after this look is missed.
                self.shared.changed.notified()
            };
            changed.await;
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
async fn drive(shared: Weak<Shared>, changed: Arc<Notify>) {
    loop {
        let (due, change) = {
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
                changed.notify_waiters();
            }
            (network.due().unwrap_or(now + IDLE), changed.notified())
        };
        tokio::select! {
            biased;
            () = change => {}
            () = sleep_until(due) => {}
        }
    }
}

impl std::fmt::Debug for Mysqls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mysqls").finish_non_exhaustive()
    }
}
