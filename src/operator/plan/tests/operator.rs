//! The one operator of the modelled world: what it sees, what it does, and what must come of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::{Plan, plan};
use super::model::{TERM, World, volume};
use super::server::uuid;
use crate::api::Phase;
use crate::instance::Command;
use crate::mysql::GtidSet;
use crate::operator::kinds::Pod;
use crate::operator::observe::{Now, Observed, Sight, Suspicion};
use crate::operator::resources::{ROLE_LABEL, TEMPLATE_HASH_ANNOTATION, host, instance_name};

impl World {
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
                .map_or_else(|| pod.metadata.uid.to_string(), |s| s.pod_uid.clone()),
            status: entry.2.clone(),
            read_at: Some(self.now),
            asked_at: self.asked.get(&ordinal).copied(),
            fresh,
            since: entry.1,
            mute_since: None,
            error: String::new(),
            told_to_follow: None,
            told_to_clone: None,
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
            pod.metadata.name = instance_name("demo", *ordinal).into();
            pod.metadata.uid = format!("p{}", self.uids).into();
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
                Some(role) => pod.metadata.labels.insert(ROLE_LABEL, role),
            }
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
