//! The instances of a cluster as a plan sees them, with the algebra done once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::Record;
use crate::instance::{InstancePhase, InstanceStatus};
use crate::mysql::{GtidSet, Replication, ServerState, ThreadState};
use crate::operator::kinds::{Cluster, Pod};
use crate::operator::observe::{Observed, Sight, Suspicion};
use crate::operator::resources;

/// How long a manager that runs is given to be heard of for the first time: connecting takes
/// milliseconds.
pub(super) const FIRST_WORD: Duration = Duration::from_secs(1);

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
            // A mysqld that runs and can't be read at the moment may well serve: unknown.
            (Some(_), Some(sight)) if sight.fresh => sight
                .status
                .as_ref()
                .is_some_and(|status| status.phase != InstancePhase::Running),
            // A pod whose manager was not started yet runs no server. That it was not heard of yet
            // says nothing where it was: an operator that takes the lead has heard of nobody.
            (Some(pod), sight) => {
                let never_heard = sight.is_none_or(|sight| sight.status.is_none());
                pod.status.pod_ip.is_empty() || (never_heard && !is_started(pod))
            }
        }
    }

    /// For how long it is not known what it does: it is not heard of, or its mysqld runs and does
    /// not answer its manager.
    pub(super) fn unheard_for(&self, now: Instant) -> Option<Duration> {
        let sight = self.sight?;
        let since = if sight.fresh {
            sight.mute_since?
        } else {
            sight.since
        };
        Some(now.duration_since(since))
    }

    /// Whether its manager runs and can be expected to speak for the first time any moment.
    pub(super) fn about_to_speak(&self, now: Instant) -> bool {
        let (Some(pod), Some(sight)) = (self.pod, self.sight) else {
            return false;
        };
        !sight.fresh
            && sight.status.is_none()
            && is_started(pod)
            && now.duration_since(sight.since) < FIRST_WORD
    }

    /// Whether it was confirmed to have transactions of its own.
    pub(super) fn is_errant(&self) -> bool {
        self.suspicion().is_some_and(Suspicion::confirmed)
    }

    /// A surplus that is being looked at, or confirmed.
    pub(super) fn suspicion(&self) -> Option<&'a Suspicion> {
        self.sight?.suspicion.as_ref()
    }

    /// The phase that its manager reports, while it is heard.
    pub(super) fn phase(&self) -> Option<InstancePhase> {
        let sight = self.sight.filter(|sight| sight.fresh)?;
        Some(sight.status.as_ref()?.phase)
    }
}

/// Whether the kubelet says that a container of the pod was started.
fn is_started(pod: &Pod) -> bool {
    let mut containers = pod.status.container_statuses.iter();
    containers.any(|container| container.state.running.is_some())
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
