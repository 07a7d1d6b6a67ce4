//! What is on a disk, and so survives the process.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
};

use tokio::time::Instant;

use super::process::ProcessId;
use crate::mysql::GtidSet;

/// A row, by its primary key.
pub type Row = u64;

/// Identifies a transaction.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Gtid {
    /// Of the server that first committed it.
    pub uuid: Arc<str>,
    /// Its number there.
    pub number: u64,
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.uuid, self.number)
    }
}

/// A transaction in a binary log or a relay log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) gtid: Gtid,
    /// `server_id` of the server that first committed it.
    pub(super) server_id: u32,
    /// The row that it inserts; none for other statements.
    pub(super) row: Option<Row>,
    /// When it was committed first.
    pub(super) at: Instant,
}

/// A volume's content.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    /// The data directory, once it is complete.
    pub(super) data: Option<Data>,
    /// The process that has the data open.
    pub(super) open: Option<ProcessId>,
    /// The manager's term.
    pub(super) term: u64,
    /// Binary logs kept aside, the newest last.
    pub(super) aside: VecDeque<Vec<Transaction>>,
}

/// A source as `mysql.slave_master_info` keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    pub(super) host: String,
    pub(super) auto_position: bool,
}

/// A data directory.
#[derive(Clone, Debug)]
pub(super) struct Data {
    /// `server_uuid`, from `auto.cnf`.
    pub(super) uuid: Arc<str>,
    /// The binary log: with `sync_binlog=1` all that is in it is durable. Not yet committed in the
    /// engine, and so neither visible nor in `gtid_executed`: what comes after `committed`.
    log: Vec<Transaction>,
    /// How many transactions were purged from the log's beginning: positions do not change by it.
    base: usize,
    committed: usize,
    /// `gtid_executed`.
    pub(super) executed: GtidSet,
    /// What is executed or in the log: numbers that are taken.
    pub(super) logged: GtidSet,
    /// `gtid_purged`.
    pub(super) purged: GtidSet,
    /// What is visible in the table.
    pub(super) rows: BTreeMap<Row, Gtid>,
    pub(super) source: Option<Source>,
    /// The relay log, from the first transaction that is not applied. `relay_log_recovery=OFF`: what
    /// was received is there after a crash.
    pub(super) relay: VecDeque<Transaction>,
    /// `RECEIVED_TRANSACTION_SET`.
    pub(super) received: GtidSet,
    /// `performance_schema.clone_status`: state and error.
    pub(super) clone_status: Option<(String, String)>,
    /// Whether mysqld was shut down, so that there is nothing to recover.
    pub(super) clean: bool,
}

impl Data {
    /// A new data directory.
    pub(super) fn new(uuid: &str) -> Self {
        Self {
            uuid: uuid.into(),
            log: Vec::new(),
            base: 0,
            committed: 0,
            executed: GtidSet::default(),
            logged: GtidSet::default(),
            purged: GtidSet::default(),
            rows: BTreeMap::new(),
            source: None,
            relay: VecDeque::new(),
            received: GtidSet::default(),
            clone_status: None,
            clean: true,
        }
    }

    /// What a clone of `donor` leaves of this directory: the donor's committed data and channel, no
    /// logs, this one's own UUID.
    pub(super) fn cloned_from(&self, donor: &Self) -> Self {
        Self {
            executed: donor.executed.clone(),
            logged: donor.executed.clone(),
            purged: donor.executed.clone(),
            rows: donor.rows.clone(),
            source: donor.source.clone(),
            clone_status: Some(("Completed".to_owned(), String::new())),
            ..Self::new(&self.uuid)
        }
    }

    /// What is left of this directory when a clone fails after the data was dropped.
    pub(super) fn dropped(&self, why: &str) -> Self {
        Self {
            clone_status: Some(("Failed".to_owned(), why.to_owned())),
            clean: false,
            ..Self::new(&self.uuid)
        }
    }

    /// What the next transaction that begins here is called.
    pub(super) fn next_gtid(&self) -> Gtid {
        Gtid {
            uuid: self.uuid.clone(),
            number: self.logged.next(&self.uuid),
        }
    }

    /// Position after the last transaction in the log.
    pub(super) fn end(&self) -> usize {
        self.base + self.log.len()
    }

    /// Transactions from a position on that are still in the log, with the position after each.
    pub(super) fn log_from(
        &self,
        position: usize,
    ) -> impl Iterator<Item = (usize, &Transaction)> + '_ {
        let skip = position.saturating_sub(self.base);
        let numbered = self.log.iter().enumerate().skip(skip);
        numbered.map(|(at, transaction)| (self.base + at + 1, transaction))
    }

    /// Appends to the log, durably. Returns the position after it.
    pub(super) fn append(&mut self, transaction: Transaction) -> usize {
        let Gtid { uuid, number } = &transaction.gtid;
        self.logged.insert(uuid, *number);
        self.log.push(transaction);
        self.end()
    }

    /// Position after the last committed transaction.
    pub(super) fn committed(&self) -> usize {
        self.committed
    }

    /// Commits the next transaction of the log in the engine.
    pub(super) fn commit_next(&mut self) -> Option<&Transaction> {
        let transaction = self.log.get(self.committed - self.base)?;
        self.committed += 1;
        let Gtid { uuid, number } = &transaction.gtid;
        self.executed.insert(uuid, *number);
        if let Some(row) = transaction.row {
            self.rows.insert(row, transaction.gtid.clone());
        }
        Some(transaction)
    }

    /// What crash recovery does: everything in the binary log is committed.
    pub(super) fn recover(&mut self) {
        while self.commit_next().is_some() {}
        let executed = &self.executed;
        self.relay
            .retain(|waiting| !executed.contains(&waiting.gtid.uuid, waiting.gtid.number));
    }

    /// Removes what is committed from the log.
    pub(super) fn purge(&mut self) {
        for transaction in self.log.drain(..self.committed - self.base) {
            let Gtid { uuid, number } = &transaction.gtid;
            self.purged.insert(uuid, *number);
        }
        self.base = self.committed;
    }

    /// The log, for keeping it aside.
    pub(super) fn log(&self) -> &[Transaction] {
        &self.log
    }

    /// Forgets what was received.
    pub(super) fn drop_relay_log(&mut self) {
        self.relay.clear();
        self.received = GtidSet::default();
    }

    /// Whether the transaction of `row` is anywhere: committed, in the binary log, or received.
    pub(super) fn holds(&self, row: Row) -> bool {
        let is = |transaction: &Transaction| transaction.row == Some(row);
        let waiting = &self.log[self.committed - self.base..];
        self.rows.contains_key(&row) || waiting.iter().any(is) || self.relay.iter().any(is)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn write(data: &mut Data, row: Row) {
        let gtid = data.next_gtid();
        data.append(Transaction {
            gtid,
            server_id: 1,
            row: Some(row),
            at: Instant::now(),
        });
    }

    #[test]
    fn what_is_in_the_log_survives_and_is_committed_by_recovery() {
        let mut data = Data::new(A);
        write(&mut data, 1);
        data.commit_next();
        write(&mut data, 2);
        assert_eq!(data.executed.to_string(), format!("{A}:1"));
        assert!(!data.rows.contains_key(&2) && data.holds(2));
        data.recover();
        assert_eq!(data.executed.to_string(), format!("{A}:1-2"));
        assert!(data.rows.contains_key(&2));
    }

    #[test]
    fn purging_changes_no_position() {
        let mut data = Data::new(A);
        write(&mut data, 1);
        write(&mut data, 2);
        data.commit_next();
        data.purge();
        assert_eq!(data.purged.to_string(), format!("{A}:1"));
        assert_eq!((data.end(), data.committed()), (2, 1));
        let left: Vec<_> = data.log_from(0).map(|(end, t)| (end, t.row)).collect();
        assert_eq!(left, [(2, Some(2))]);
        data.recover();
        write(&mut data, 3);
        assert_eq!(data.logged.to_string(), format!("{A}:1-3"));
    }

    #[test]
    fn a_clone_has_the_donors_rows_and_its_own_name() {
        let mut donor = Data::new(A);
        write(&mut donor, 1);
        donor.commit_next();
        write(&mut donor, 2);
        let own = Data::new("4e11fa47-71ca-11e1-9e33-c80aa9429562");
        let clone = own.cloned_from(&donor);
        assert_eq!(clone.uuid, own.uuid);
        assert_eq!(
            (clone.purged, clone.executed),
            (donor.executed.clone(), donor.executed)
        );
        assert_eq!(
            clone.rows.keys().collect::<Vec<_>>(),
            [&1],
            "what waits is not cloned"
        );
    }
}
