//! A world of modelled MySQL servers, pods and one operator, for the plan to be played against.
//!
//! Semi-synchronous replication as MySQL does it: a commit is in the binary log (and so on its way
//! to replicas) before it is acknowledged; a crash makes it executed all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::server::{Server, uuid};
use crate::api::{MySQLClusterSpec, MySQLClusterStatus};
use crate::instance::InstanceStatus;
use crate::mysql::GtidSet;
use crate::operator::kinds::{Cluster, Pod, VolumeClaim};
use crate::operator::observe::Suspicion;

pub(super) const TERM: u64 = 1;

pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) servers: BTreeMap<u32, Server>,
    pub(super) pods: BTreeMap<u32, Pod>,
    pub(super) cut: BTreeSet<u32>,
    /// Connected, but what they are sent does not arrive for now.
    pub(super) slow: BTreeSet<u32>,
    pub(super) heard: BTreeMap<u32, (bool, Instant, Option<InstanceStatus>)>,
    pub(super) suspicions: BTreeMap<u32, Suspicion>,
    /// When each was given its last command.
    pub(super) asked: BTreeMap<u32, Instant>,
    pub(super) acknowledged: GtidSet,
    pub(super) transactions: u64,
    pub(super) uids: u64,
    pub(super) now: Instant,
    pub(super) wall: Timestamp,
    pub(super) template: String,
    /// Commands and changes carried out, to see that a settled world is left alone.
    pub(super) acts: u64,
    pub(super) failovers: u64,
    pub(super) notes: Vec<String>,
}

/// A claim as old as the world.
pub(super) fn volume() -> VolumeClaim {
    let mut claim = VolumeClaim::default();
    claim.metadata.creation_timestamp = Some("1970-01-01T00:00:00Z".into());
    claim
}

impl World {
    pub(super) fn new(instances: u32) -> Self {
        let mut cluster = Cluster::default();
        cluster.metadata.name = "demo".into();
        cluster.metadata.namespace = "ns".into();
        cluster.metadata.uid = "c".into();
        cluster.metadata.generation = 1;
        cluster.spec = MySQLClusterSpec {
            instances,
            ..MySQLClusterSpec::default()
        };
        Self {
            cluster,
            servers: BTreeMap::new(),
            pods: BTreeMap::new(),
            cut: BTreeSet::new(),
            slow: BTreeSet::new(),
            heard: BTreeMap::new(),
            suspicions: BTreeMap::new(),
            asked: BTreeMap::new(),
            acknowledged: GtidSet::default(),
            transactions: 0,
            uids: 0,
            now: Instant::now(),
            wall: Timestamp::UNIX_EPOCH,
            template: "t1".into(),
            acts: 0,
            failovers: 0,
            notes: Vec::new(),
        }
    }

    /// The cluster object is deleted, and one of the same name created later: volumes stay.
    pub(super) fn recreate(&mut self, instances: u32) {
        for server in self.servers.values_mut() {
            server.crash();
        }
        self.pods.clear();
        self.suspicions.clear();
        self.cluster.status = MySQLClusterStatus::default();
        self.cluster.spec.instances = instances;
        self.cluster.metadata.creation_timestamp = Some("2026-01-01T00:00:00Z".into());
    }

    /// Time alone goes by.
    pub(super) fn later(&mut self, by: Duration) {
        self.now += by;
        self.wall += by;
    }

    /// Time goes by: pods that should run come up, replicas receive and apply, clients write.
    pub(super) fn tick(&mut self, write: bool) {
        self.now += Duration::from_millis(500);
        self.wall += Duration::from_millis(500);
        for (ordinal, pod) in &mut self.pods {
            if pod.metadata.is_terminating() {
                continue;
            }
            if pod.status.pod_ip.is_empty() {
                pod.status.pod_ip = "10.0.0.1".into();
                pod.status.phase = "Running".into();
            }
            let server = self.servers.entry(*ordinal).or_default();
            if !server.running {
                server.start();
            }
        }
        let leaving: Vec<u32> = self
            .pods
            .iter()
            .filter(|(_, p)| p.metadata.is_terminating())
            .map(|(o, _)| *o)
            .collect();
        for ordinal in leaving {
            // A primary's manager waits for the operator, which had until now to move the role.
            let server = self.servers.entry(ordinal).or_default();
            if server.read_only || !server.running {
                server.running = false;
                self.pods.remove(&ordinal);
            } else {
                server.crash();
                self.pods.remove(&ordinal);
            }
        }
        self.replicate();
        if write {
            self.write();
        }
        self.replicate();
    }

    pub(super) fn replicate(&mut self) {
        let snapshot = self.servers.clone();
        for (ordinal, server) in &mut self.servers {
            server.connected = false;
            let Some(source) = server.source.filter(|_| server.running && server.receiver) else {
                continue;
            };
            let reachable = !self.cut.contains(ordinal) && !self.cut.contains(&source);
            if let Some(from) = snapshot.get(&source).filter(|s| s.running && reachable) {
                let held = server.executed.union(&server.received);
                if !from.purged.is_subset_of(&held) {
                    continue; // error 1236
                }
                server.connected = true;
                if self.slow.contains(ordinal) {
                    continue;
                }
                let sent = from.executed.union(&from.pending);
                // Seen of MySQL: what a server of its own number wrote is left out.
                let own = sent.subtract(&held).of(&uuid(*ordinal));
                server.received = server.received.union(&sent.subtract(&own));
                server.executed = server.executed.union(&server.received);
            }
        }
        // Acknowledgements for what is pending.
        let snapshot = self.servers.clone();
        for (ordinal, server) in &mut self.servers {
            if server.running && !server.pending.is_empty() {
                let acks = snapshot
                    .values()
                    .filter(|r| {
                        r.running
                            && r.connected
                            && r.ss_replica
                            && r.source == Some(*ordinal)
                            && server.pending.is_subset_of(&r.received)
                    })
                    .count();
                if !server.ss_source || acks >= server.wait_for as usize {
                    self.acknowledged = self.acknowledged.union(&server.pending);
                    server.executed = server.executed.union(&server.pending);
                    server.pending = GtidSet::default();
                }
            }
        }
    }

    /// A client writes to whoever accepts it.
    fn write(&mut self) {
        self.transactions += 1;
        let n = self.transactions;
        for (ordinal, server) in &mut self.servers {
            if server.running && !server.read_only {
                let gtid: GtidSet = format!("{}:{n}", uuid(*ordinal)).parse().unwrap();
                server.pending = server.pending.union(&gtid);
            }
        }
    }

    pub(super) fn kill(&mut self, ordinal: u32) {
        if let Some(server) = self.servers.get_mut(&ordinal) {
            server.crash();
        }
    }

    /// The pod object goes at once, its process with it.
    pub(super) fn delete_by_force(&mut self, ordinal: u32) {
        self.kill(ordinal);
        self.pods.remove(&ordinal);
    }

    pub(super) fn delete(&mut self, ordinal: u32) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.metadata.deletion_timestamp = Some("now".into());
        }
    }
}
