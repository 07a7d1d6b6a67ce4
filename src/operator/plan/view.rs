//! The instances of a cluster as a plan sees them, with the algebra done once.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::Record;
use crate::instance::{InstancePhase, InstanceStatus};
use crate::mysql::{GtidSet, Replication, ServerState, ThreadState};
use crate::operator::kinds::{Cluster, Pod};
use crate::operator::observe::{Observed, Sight};
use crate::operator::resources;

/// All instances that are wanted or exist.
#[derive(Debug)]
pub(super) struct View<'a> {
    /// Cluster name.
    pub(super) cluster: &'a str,
    /// Namespace.
    pub(super) namespace: &'a str,
    /// How many instances are wanted.
    pub(super) wanted: u32,
    /// Instances with volumes of an earlier cluster, until there is a first primary.
    adopted: &'a BTreeSet<u32>,
    /// By ordinal.
    pub(super) instances: BTreeMap<u32, Instance<'a>>,
}

/// One instance.
#[derive(Debug)]
pub(super) struct Instance<'a> {
    pub(super) ordinal: u32,
    pub(super) name: String,
    pub(super) pod: Option<&'a Pod>,
    pub(super) sight: Option<&'a Sight>,
    /// There, heard and answering queries. `None` says nothing about why not.
    pub(super) up: Option<Up<'a>>,
}

/// A server that answers now.
#[derive(Debug)]
pub(super) struct Up<'a> {
    pub(super) status: &'a InstanceStatus,
    pub(super) server: &'a ServerState,
    pub(super) executed: GtidSet,
    pub(super) purged: GtidSet,
    /// Executed or received: what it can have executed without any other server.
    pub(super) held: GtidSet,
}

impl<'a> View<'a> {
    pub(super) fn new(
        cluster: &'a Cluster,
        observed: &'a Observed,
        record: &Record,
        adopted: &'a BTreeSet<u32>,
    ) -> Self {
        let name = cluster.metadata.name.as_str();
        let wanted = if cluster.spec.offline {
            0
        } else {
            cluster.spec.instances
        };
        let on_record = record.holders().into_iter();
        let on_record = on_record.filter_map(|holder| resources::ordinal(name, holder));
        let ordinals = (0..wanted)
            .chain(observed.pods.keys().copied())
            .chain(on_record)
            .chain(adopted.iter().copied());
        let instances = ordinals
            .map(|ordinal| (ordinal, Instance::new(name, ordinal, observed)))
            .collect();
        Self {
            cluster: name,
            namespace: &cluster.metadata.namespace,
            wanted,
            adopted,
            instances,
        }
    }

    /// Whether an instance must have a pod: it is wanted, or it may be the one with the newest data
    /// of an adopted set, or it may hold acknowledged writes (one
    /// that is to go leaves the record first).
    pub(super) fn needs(&self, instance: &Instance<'_>, record: &Record) -> bool {
        instance.ordinal < self.wanted
            || self.adopted.contains(&instance.ordinal)
            || record.holders().contains(instance.name.as_str())
    }

    /// The instance of that name, if it belongs here.
    pub(super) fn named(&self, name: &str) -> Option<&Instance<'a>> {
        self.instances.get(&resources::ordinal(self.cluster, name)?)
    }

    /// DNS name of an instance.
    pub(super) fn host(&self, instance: &str) -> String {
        resources::host(self.cluster, self.namespace, instance)
    }

    /// Instances that answer.
    pub(super) fn up(&self) -> impl Iterator<Item = (&Instance<'a>, &Up<'a>)> {
        self.instances
            .values()
            .filter_map(|instance| Some((instance, instance.up.as_ref()?)))
    }
}

impl<'a> Instance<'a> {
    fn new(cluster: &str, ordinal: u32, observed: &'a Observed) -> Self {
        let pod = observed.pods.get(&ordinal).map(AsRef::as_ref);
        // What was heard of a predecessor of the same name says nothing about this pod.
        let sight = observed
            .sights
            .get(&ordinal)
            .filter(|sight| pod.is_some_and(|pod| pod.metadata.uid == sight.pod_uid));
        Self {
            ordinal,
            name: resources::instance_name(cluster, ordinal),
            pod,
            sight,
            up: sight.and_then(Up::new),
        }
    }

    /// Whether its pod is on the way out.
    pub(super) fn leaving(&self) -> bool {
        self.pod.is_none_or(|pod| pod.metadata.is_terminating())
            || self
                .sight
                .and_then(|sight| sight.status.as_ref())
                .is_some_and(|status| status.stopping)
    }

    /// Whether this is certain to serve nothing now: its manager is heard and says that mysqld does
    /// not run, or there is no pod (whose process, on a node cut off, may linger: a failover
    /// never relies on this, only on the proof of its quorum).
    pub(super) fn not_serving(&self) -> bool {
        match (self.pod, self.sight) {
            (None, _) => true,
            (Some(pod), _) if matches!(pod.status.phase.as_str(), "Failed" | "Succeeded") => true,
            (Some(_), Some(sight)) if sight.fresh => sight.status.as_ref().is_some_and(|status| {
                status.server.is_none() || status.phase != InstancePhase::Running
            }),
            // A new pod that was never heard of runs no server that anyone relies on yet.
            (Some(pod), sight) => {
                pod.status.pod_ip.is_empty() || sight.is_some_and(|sight| sight.status.is_none())
            }
        }
    }

    /// How long it has not been heard of, if it is not heard of now.
    pub(super) fn unheard_for(&self, now: Instant) -> Option<std::time::Duration> {
        let sight = self.sight?;
        (!sight.fresh).then(|| now.duration_since(sight.since))
    }

    /// Whether it was confirmed to have transactions of its own.
    pub(super) fn is_errant(&self) -> bool {
        self.suspicion().is_some_and(|s| s.confirmed())
    }

    /// A surplus that is being looked at, or confirmed.
    pub(super) fn suspicion(&self) -> Option<&'a crate::operator::observe::Suspicion> {
        self.sight?.suspicion.as_ref()
    }

    /// The phase that its manager reports, while it is heard.
    pub(super) fn phase(&self) -> Option<InstancePhase> {
        let sight = self.sight.filter(|sight| sight.fresh)?;
        Some(sight.status.as_ref()?.phase)
    }
}

impl<'a> Up<'a> {
    fn new(sight: &'a Sight) -> Option<Self> {
        let status = sight.status.as_ref().filter(|_| sight.fresh)?;
        let server = status.server.as_ref()?;
        if status.phase != InstancePhase::Running {
            return None;
        }
        let executed: GtidSet = server.gtid_executed.parse().ok()?;
        let purged = server.gtid_purged.parse().ok()?;
        let received = match &server.replication {
            Some(replication) => replication.received.parse().ok()?,
            None => GtidSet::default(),
        };
        Some(Self {
            status,
            server,
            held: executed.union(&received),
            executed,
            purged,
        })
    }

    pub(super) fn writable(&self) -> bool {
        !self.server.super_read_only
    }

    pub(super) fn replication(&self) -> Option<&'a Replication> {
        self.server.replication.as_ref()
    }

    /// Whether it can't receive anything until it is told to.
    pub(super) fn receiver_stopped(&self) -> bool {
        self.replication().is_none_or(|replication| {
            matches!(
                replication.receiver.state,
                ThreadState::Off | ThreadState::Failed(_)
            )
        })
    }

    /// Whether it replicates from `host`, both threads on.
    pub(super) fn replicates_from(&self, host: &str) -> bool {
        self.replication().is_some_and(|replication| {
            replication.source_host == host
                && replication.receiver.state == ThreadState::On
                && replication.applier == ThreadState::On
        })
    }
}
