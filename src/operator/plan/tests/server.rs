//! One modelled MySQL server.

use crate::instance::{InstancePhase, InstanceStatus};
use crate::mysql::{GtidSet, Receiver, Replication, ServerState, ThreadState};
use crate::operator::kinds::Pod;
use crate::operator::resources::{host, instance_name};

use super::model::TERM;

/// Its `server_uuid`.
pub(super) fn uuid(ordinal: u32) -> String {
    format!("{ordinal:08x}-0000-0000-0000-000000000000")
}

/// A volume and the server on it: its switches are MySQL's variables.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) executed: GtidSet,
    pub(super) purged: GtidSet,
    /// Why its applier can't go on.
    pub(super) broken: Option<String>,
    pub(super) received: GtidSet,
    /// In the binary log, not acknowledged.
    pub(super) pending: GtidSet,
    pub(super) running: bool,
    pub(super) read_only: bool,
    pub(super) source: Option<u32>,
    pub(super) receiver: bool,
    pub(super) connected: bool,
    pub(super) ss_replica: bool,
    pub(super) ss_source: bool,
    pub(super) wait_for: u32,
    pub(super) promoted: bool,
    pub(super) app_hash: String,
}

impl Server {
    pub(super) fn start(&mut self) {
        (self.running, self.read_only) = (true, true);
        (
            self.receiver,
            self.connected,
            self.ss_replica,
            self.ss_source,
        ) = Default::default();
        (self.wait_for, self.promoted) = (1, false);
    }

    pub(super) fn crash(&mut self) {
        (self.running, self.connected) = (false, false);
        self.executed = self.executed.union(&self.pending);
        self.pending = GtidSet::default();
    }

    pub(super) fn status(&self, ordinal: u32, pod: &Pod, clients: u32) -> InstanceStatus {
        let replication = self.source.map(|source| Replication {
            source_host: host("demo", "ns", &instance_name("demo", source)),
            receiver: Receiver {
                state: match (self.receiver, self.connected) {
                    (true, true) => ThreadState::On,
                    (true, false) => ThreadState::Connecting,
                    _ => ThreadState::Off,
                },
                error: String::new(),
            },
            applier: if let Some(error) = &self.broken {
                ThreadState::Failed(error.clone())
            } else if self.receiver {
                ThreadState::On
            } else {
                ThreadState::Off
            },
            received: self.received.to_string(),
            source_silent_ms: if self.connected { 0 } else { 10_000 },
            lag_seconds: Some(0.0),
        });
        InstanceStatus {
            name: instance_name("demo", ordinal),
            pod_uid: pod.metadata.uid.to_string(),
            term: TERM,
            phase: if self.running {
                InstancePhase::Running
            } else {
                InstancePhase::Restarting
            },
            message: String::new(),
            starts: 1,
            promoted: self.promoted,
            stopping: pod.metadata.is_terminating(),
            config_hash: "c".into(),
            app_hash: self.app_hash.clone(),
            server: self.running.then(|| ServerState {
                version: "9.7.4".into(),
                server_uuid: uuid(ordinal),
                super_read_only: self.read_only,
                gtid_executed: self.executed.to_string(),
                gtid_purged: self.purged.to_string(),
                semi_sync_source: self.ss_source,
                semi_sync_wait_for: self.wait_for,
                semi_sync_clients: clients,
                semi_sync_waiting: u32::from(!self.pending.is_empty()),
                semi_sync_replica: self.ss_replica,
                replication,
            }),
        }
    }
}
