//! A world of modelled MySQL servers, pods and one operator, for the plan to be played against.
//!
//! Semi-synchronous replication as MySQL does it: a commit is in the binary log (and so on its way
//! to replicas) before it is acknowledged; a crash makes it executed all the same.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::super::{Plan, plan};
use crate::api::{MySQLClusterSpec, MySQLClusterStatus, Phase};
use crate::instance::{Command, InstancePhase, InstanceStatus};
use crate::mysql::{GtidSet, Receiver, Replication, ServerState, ThreadState};
use crate::operator::kinds::{Cluster, Pod, VolumeClaim};
use crate::operator::observe::{Now, Observed, Sight, Suspicion};
use crate::operator::resources::{ROLE_LABEL, TEMPLATE_HASH_ANNOTATION, host, instance_name};

pub(super) const TERM: u64 = 1;

/// A volume and the server on it: its switches are MySQL's variables.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, Default)]
pub(super) struct Server {
    pub(super) executed: GtidSet,
    pub(super) purged: GtidSet,
    /// Why its applier can't go on.
    pub(super) broken: Option<String>,
    received: GtidSet,
    /// In the binary log, not acknowledged.
    pending: GtidSet,
    pub(super) running: bool,
    pub(super) read_only: bool,
    source: Option<u32>,
    receiver: bool,
    connected: bool,
    ss_replica: bool,
    ss_source: bool,
    wait_for: u32,
    promoted: bool,
    app_hash: String,
}

pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) servers: BTreeMap<u32, Server>,
    pub(super) pods: BTreeMap<u32, Pod>,
    pub(super) cut: BTreeSet<u32>,
    /// Connected, but what they are sent does not arrive for now.
    pub(super) slow: BTreeSet<u32>,
    heard: BTreeMap<u32, (bool, Instant, Option<InstanceStatus>)>,
    suspicions: BTreeMap<u32, Suspicion>,
    /// When each was given its last command.
    asked: BTreeMap<u32, Instant>,
    pub(super) acknowledged: GtidSet,
    transactions: u64,
    uids: u64,
    now: Instant,
    wall: Timestamp,
    pub(super) template: String,
    /// Commands and changes carried out, to see that a settled world is left alone.
    pub(super) acts: u64,
    pub(super) failovers: u64,
    pub(super) notes: Vec<String>,
}

fn uuid(ordinal: u32) -> String {
    format!("{ordinal:08x}-0000-0000-0000-000000000000")
}

/// A claim as old as the world.
fn volume() -> VolumeClaim {
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

    fn replicate(&mut self) {
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
                server.received = server.received.union(&from.executed).union(&from.pending);
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

    fn sight(&mut self, ordinal: u32) -> Option<Sight> {
        let pod = self.pods.get(&ordinal)?;
        let server = self.servers.get(&ordinal)?;
        let fresh = !self.cut.contains(&ordinal) && !pod.status.pod_ip.is_empty();
        let entry = self.heard.entry(ordinal).or_insert((fresh, self.now, None));
        if entry.0 != fresh {
            *entry = (fresh, self.now, entry.2.clone());
        }
        if fresh {
            let attached = self
                .servers
                .values()
                .filter(|r| r.connected && r.ss_replica && r.source == Some(ordinal));
            let clients = u32::try_from(attached.count()).unwrap();
            entry.2 = Some(server.status(ordinal, pod, clients));
        }
        Some(Sight {
            pod_uid: entry
                .2
                .as_ref()
                .map_or_else(|| pod.metadata.uid.clone(), |s| s.pod_uid.clone()),
            status: entry.2.clone(),
            read_at: Some(self.now),
            asked_at: self.asked.get(&ordinal).copied(),
            fresh,
            since: entry.1,
            mute_since: None,
            error: String::new(),
            told_to_follow: None,
            suspicion: self.suspicions.get(&ordinal).cloned(),
        })
    }

    fn suspect(&mut self) {
        let Some(primary) = self.current() else {
            return;
        };
        self.suspicions.remove(&primary);
        let Some(executed) = self
            .servers
            .get(&primary)
            .filter(|s| s.running && !self.cut.contains(&primary))
            .map(|s| s.executed.clone())
        else {
            return;
        };
        for (ordinal, server) in self.servers.iter().filter(|(o, _)| **o != primary) {
            if !server.running || self.cut.contains(ordinal) {
                continue;
            }
            let surplus = server.executed.subtract(&executed);
            let surplus = surplus.subtract(&surplus.of(&uuid(primary)));
            match Suspicion::next(self.suspicions.get(ordinal), &surplus, self.now) {
                Some(s) => self.suspicions.insert(*ordinal, s),
                None => self.suspicions.remove(ordinal),
            };
        }
    }

    pub(super) fn current(&self) -> Option<u32> {
        let name = self.cluster.status.current_primary.as_ref()?;
        crate::operator::resources::ordinal("demo", name)
    }

    pub(super) fn observe(&mut self) -> (Observed, Now) {
        self.suspect();
        let ordinals: Vec<u32> = self.pods.keys().copied().collect();
        let sights = ordinals
            .iter()
            .filter_map(|o| Some((*o, self.sight(*o)?)))
            .collect();
        let observed = Observed {
            pods: self
                .pods
                .iter()
                .map(|(o, p)| (*o, Arc::new(p.clone())))
                .collect(),
            volumes: self
                .servers
                .keys()
                .map(|o| (*o, Arc::new(volume())))
                .collect(),
            claims: BTreeMap::new(),
            sights,
            app: None,
            templates: (0..9).map(|o| (o, self.template.clone())).collect(),
        };
        let now = Now {
            instant: self.now,
            wall: self.wall,
        };
        (observed, now)
    }

    /// One reconcile: steps until nothing more is to do. `budget` is how many effects the operator
    /// lives to carry out.
    pub(super) fn reconcile(&mut self, mut budget: usize) {
        for _ in 0..20 {
            let (observed, now) = self.observe();
            let step = plan(&self.cluster, &observed, None, TERM, now);
            self.notes.extend(
                step.notes
                    .iter()
                    .map(|n| format!("{}: {}", n.reason, n.text)),
            );
            self.failovers += step
                .notes
                .iter()
                .filter(|n| n.reason == "FailoverStarted")
                .count() as u64;
            if step.record_changed {
                if budget == 0 {
                    return;
                }
                budget -= 1;
                self.acts += 1;
                self.cluster.status = step.status;
                if step.clear_promote {
                    self.cluster.metadata.annotations.clear();
                }
                continue;
            }
            let before = self.acts;
            if !self.carry_out(&step, &mut budget) {
                return;
            }
            self.cluster.status = step.status;
            if self.acts == before {
                return;
            }
            self.replicate();
        }
    }

    fn carry_out(&mut self, step: &Plan, budget: &mut usize) -> bool {
        let mut spend = || {
            let alive = *budget > 0;
            *budget = budget.saturating_sub(1);
            alive
        };
        for (ordinal, role) in step.labels.iter().filter(|(_, r)| r.is_none()) {
            if !spend() {
                return false;
            }
            self.label(*ordinal, *role);
        }
        let open = step.open.map(|o| (o, Command::Open));
        for (ordinal, command) in step.commands.iter().cloned() {
            if !spend() {
                return false;
            }
            self.obey(ordinal, &command);
        }
        for (ordinal, role) in step.labels.iter().filter(|(_, r)| r.is_some()) {
            if !spend() {
                return false;
            }
            self.label(*ordinal, *role);
        }
        if let Some((ordinal, command)) = open {
            if !spend() {
                return false;
            }
            self.obey(ordinal, &command);
        }
        for ordinal in &step.delete_pods {
            if !spend() {
                return false;
            }
            self.acts += 1;
            self.delete(*ordinal);
        }
        for ordinal in &step.create_pods {
            if !spend() {
                return false;
            }
            self.acts += 1;
            self.uids += 1;
            let mut pod = Pod::default();
            pod.metadata.name = instance_name("demo", *ordinal);
            pod.metadata.uid = format!("p{}", self.uids);
            let hash = (TEMPLATE_HASH_ANNOTATION.to_owned(), self.template.clone());
            pod.metadata.annotations.extend([hash]);
            self.pods.insert(*ordinal, pod);
            self.servers.entry(*ordinal).or_default();
        }
        if step.clear_promote {
            self.acts += 1;
            self.cluster.metadata.annotations.clear();
        }
        true
    }

    fn label(&mut self, ordinal: u32, role: Option<&str>) {
        self.acts += 1;
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            match role {
                None => pod.metadata.labels.remove(ROLE_LABEL),
                Some(role) => pod.metadata.labels.insert(ROLE_LABEL.into(), role.into()),
            };
        }
    }

    fn obey(&mut self, ordinal: u32, command: &Command) {
        if self.cut.contains(&ordinal) || !self.servers.get(&ordinal).is_some_and(|s| s.running) {
            return;
        }
        self.acts += 1;
        self.asked.insert(ordinal, self.now);
        let by_host =
            |name: &str| (0..9).find(|o| host("demo", "ns", &instance_name("demo", *o)) == name);
        if let Command::Clone(follow) = command {
            let donor = self.servers[&by_host(&follow.source_host).unwrap()].clone();
            assert!(donor.running, "clone from a server that is down");
            let server = self.servers.get_mut(&ordinal).unwrap();
            assert!(server.read_only, "clone onto a writable server");
            (server.executed, server.purged) = (donor.executed.clone(), donor.executed);
            (server.received, server.pending, server.source) = Default::default();
            server.crash();
            return;
        }
        let acknowledged = self.acknowledged.clone();
        let server = self.servers.get_mut(&ordinal).unwrap();
        match command {
            Command::StopReceiver => server.receiver = false,
            Command::Demote => {
                server.promoted = false;
                if server.pending.is_empty() {
                    server.read_only = true;
                } else {
                    server.crash(); // hangs, is killed, comes back read-only
                }
            }
            Command::Follow(follow) => {
                assert!(server.read_only);
                server.promoted = false;
                let source = by_host(&follow.source_host);
                if server.source != source {
                    server.received = GtidSet::default();
                }
                (server.source, server.receiver) = (source, true);
                server.ss_replica = follow.acknowledge;
            }
            Command::Promote(promote) => {
                let required: GtidSet = promote.required.parse().unwrap();
                if server.broken.is_none() && required.is_subset_of(&server.executed) {
                    (server.source, server.receiver, server.connected) = (None, false, false);
                    server.ss_replica = false;
                    server.ss_source = promote.acks > 0;
                    server.wait_for = promote.acks;
                    server.promoted = true;
                }
            }
            Command::SetAcks { .. } | Command::Open if !server.promoted => {
                panic!("demo-{ordinal} refuses {command:?}: it was not promoted");
            }
            Command::SetAcks { acks } => {
                server.ss_source = *acks > 0;
                server.wait_for = *acks;
            }
            Command::Open => {
                let lost = acknowledged.subtract(&server.executed);
                assert!(
                    lost.is_empty(),
                    "demo-{ordinal} is opened without acknowledged {lost}: {:#?}",
                    self.notes
                );
                server.read_only = false;
            }
            Command::EnsureApp(account) => server.app_hash.clone_from(&account.hash),
            Command::Clone(_) => unreachable!(),
        }
    }

    pub(super) fn settled(&self) -> bool {
        self.cluster.status.phase == Phase::Running
            && self
                .cluster
                .status
                .quorum
                .as_ref()
                .is_some_and(|q| q.next.is_none())
    }

    /// Faults are over: the world must come to rest, with every acknowledged write.
    pub(super) fn must_settle(&mut self) {
        for _ in 0..200 {
            self.reconcile(usize::MAX);
            if self.settled() {
                let primary = &self.servers[&self.current().unwrap()];
                let lost = self.acknowledged.subtract(&primary.executed);
                assert!(lost.is_empty(), "lost {lost}: {:#?}", self.notes);
                let before = self.acts;
                self.tick(false);
                self.reconcile(usize::MAX);
                if self.acts == before {
                    return;
                }
            }
            self.tick(false);
        }
        panic!(
            "does not settle: {:#?}\n{:#?}\n{:#?}",
            self.cluster.status, self.servers, self.notes
        );
    }
}

impl Server {
    fn start(&mut self) {
        (self.running, self.read_only) = (true, true);
        (
            self.receiver,
            self.connected,
            self.ss_replica,
            self.ss_source,
        ) = Default::default();
        (self.wait_for, self.promoted) = (1, false);
    }

    fn crash(&mut self) {
        (self.running, self.connected) = (false, false);
        self.executed = self.executed.union(&self.pending);
        self.pending = GtidSet::default();
    }

    fn status(&self, ordinal: u32, pod: &Pod, clients: u32) -> InstanceStatus {
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
            pod_uid: pod.metadata.uid.clone(),
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
