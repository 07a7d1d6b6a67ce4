//! What an observer who sees everything can tell.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{
    data::{Gtid, Row},
    network::Network,
    process::{DiskId, ProcessId, Stage},
};
use crate::mysql::{Channel, Counters, GtidSet, Process as Session, REPLICATION, ServerState};

/// A row whose writer was told OK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledged {
    /// Its transaction.
    pub gtid: Gtid,
    /// Host of the server that committed it.
    pub host: String,
    /// When its writer was told.
    pub at: Instant,
}

impl Network {
    /// `@@…` as [`crate::mysql::Session::globals`] reads them.
    pub(super) fn globals(&mut self, id: ProcessId) -> Option<ServerState> {
        self.with(id, |process, data| ServerState {
            version: "9.7.4".to_owned(),
            server_uuid: data.uuid.to_string(),
            super_read_only: process.super_read_only && process.read_only,
            gtid_executed: data.executed.to_string(),
            gtid_purged: data.purged.to_string(),
            semi_sync_source: process.source_on,
            semi_sync_wait_for: process.wait_for,
            semi_sync_replica: process.replica_on,
            ..ServerState::default()
        })
    }

    /// The counters of the semi-sync source.
    pub(super) fn counters(&self, id: ProcessId) -> Option<Counters> {
        let process = self.processes.get(&id)?;
        let clients = self
            .links
            .values()
            .filter(|it| it.source == id && it.acknowledges);
        let clients = u32::try_from(clients.count()).unwrap_or(u32::MAX);
        // Only the first waits; those behind it wait for their turn to commit.
        let first = process.committing.front();
        let waits =
            first.is_some_and(|it| process.acknowledgements(it.position) < process.needed());
        Some(Counters {
            clients: if process.source_on { clients } else { 0 },
            waiting: u32::from(waits),
        })
    }

    /// The channel; `None` where no source is configured.
    pub(super) fn channel(&mut self, id: ProcessId) -> Option<Channel> {
        let source = self.processes.get(&id)?.receiver.link;
        let source = source.and_then(|link| Some(self.links.get(&link)?.source));
        let source = source.and_then(|it| self.with(it, |_, data| data.uuid.to_string()));
        // The source's own times; only their differences count.
        let seconds = |at: Instant| 1.0 + at.duration_since(self.epoch).as_secs_f64();
        let process = self.processes.get(&id)?;
        let data = self.disks.get(&process.disk)?.data.as_ref()?;
        let configured = data.source.as_ref()?;
        let (receiver, applier) = (&process.receiver, &process.applier);
        let state = match (receiver.running, receiver.link) {
            (false, _) => "OFF",
            (true, None) => "CONNECTING",
            (true, Some(_)) => "ON",
        };
        Some(Channel {
            host: configured.host.clone(),
            port: 3306,
            receiver_state: state.to_owned(),
            receiver_errno: receiver.errno,
            receiver_error: receiver.error.clone(),
            received: data.received.to_string(),
            signs: format!(
                "{state}/{}/{}",
                source.unwrap_or_default(),
                receiver.heartbeats
            ),
            applier_on: applier.running,
            applier_error: applier.error.clone(),
            queued: receiver.queued.map(seconds),
            applying: applier.applying.as_ref().map(|(one, _)| seconds(one.at)),
            applied: applier.applied.map(seconds),
        })
    }

    /// `SHOW PROCESSLIST`.
    pub(super) fn sessions(&self, id: ProcessId) -> Option<Vec<Session>> {
        let process = self.processes.get(&id)?;
        let sessions = process.sessions.iter().map(|(id, info)| Session {
            id: *id,
            user: info.user.to_owned(),
            command: "Query".to_owned(),
            info: info.info.to_owned(),
        });
        let dumps = self.links.iter().filter(|(_, link)| link.source == id);
        let dumps = dumps.map(|(link, _)| Session {
            id: link.0,
            user: REPLICATION.to_owned(),
            command: "Binlog Dump GTID".to_owned(),
            info: String::new(),
        });
        Some(sessions.chain(dumps).collect())
    }

    /// What of a set is not executed.
    pub(super) fn missing(&mut self, id: ProcessId, set: &GtidSet) -> Option<GtidSet> {
        self.with(id, |_, data| set.subtract(&data.executed))
    }

    /// Hosts of servers that accept a write that came now, whether or not they could acknowledge it.
    pub(super) fn opened(&self) -> Vec<String> {
        self.accepting()
            .map(|(_, process)| process.host.clone())
            .collect()
    }

    /// Hosts of servers that could acknowledge a write that came now: they accept it, and as many
    /// replicas as it needs are connected and would acknowledge it.
    pub(super) fn writable(&self) -> Vec<String> {
        self.accepting()
            .filter(|(id, process)| self.could_acknowledge(**id) >= process.needed())
            .map(|(_, process)| process.host.clone())
            .collect()
    }

    fn accepting(&self) -> impl Iterator<Item = (&ProcessId, &super::process::Process)> {
        self.processes.iter().filter(|(_, process)| {
            process.stage == Stage::Up
                && !process.frozen
                && !process.read_only
                && process.closing.is_none()
        })
    }

    fn could_acknowledge(&self, source: ProcessId) -> usize {
        let links = self.links.iter().filter(|(id, link)| {
            let receives = |process: &super::process::Process| {
                process.receiver.link == Some(**id) && !process.frozen
            };
            link.source == source
                && link.acknowledges
                && self.processes.get(&link.replica).is_some_and(receives)
                && !link.is_cut(self)
        });
        links.count()
    }

    /// Every volume that has the row in any form, by its id.
    pub(super) fn holders(&self, row: Row) -> Vec<DiskId> {
        let holds = |disk: &super::data::Disk| disk.data.as_ref().is_some_and(|it| it.holds(row));
        let disks = self.disks.iter().filter(|(_, disk)| holds(disk));
        disks.map(|(id, _)| *id).collect()
    }

    /// Rows that were acknowledged and are on no volume any more.
    pub(super) fn lost(&self) -> Vec<Row> {
        let rows = self.ledger.keys().copied();
        rows.filter(|row| self.holders(*row).is_empty()).collect()
    }

    /// The rows that are visible at each host that runs.
    pub(super) fn rows(&mut self, id: ProcessId) -> BTreeMap<Row, Gtid> {
        self.with(id, |_, data| data.rows.clone())
            .unwrap_or_default()
    }
}
