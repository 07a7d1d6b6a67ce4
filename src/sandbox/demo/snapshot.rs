//! Everything that the screen shows, at one moment: plain values.

use std::path::PathBuf;
use std::time::Duration;

/// One moment of a demo.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Snapshot {
    /// Since the demo began.
    pub(super) age: Duration,
    /// What stands for MySQL, in words.
    pub(super) mysql: String,
    /// For `kubectl --kubeconfig`.
    pub(super) kubeconfig: PathBuf,
    /// The cluster.
    pub(super) cluster: ClusterView,
    /// Its instances, by name.
    pub(super) instances: Vec<InstanceView>,
    /// The operator's replicas, by name.
    pub(super) replicas: Vec<ReplicaView>,
    /// Who holds the operators' Lease, as the Lease has it; empty while nobody does.
    pub(super) lease_holder: String,
    /// Latest first.
    pub(super) events: Vec<EventView>,
    /// Figures.
    pub(super) rates: Rates,
    /// Faults that hold now, in words.
    pub(super) faults: Vec<String>,
    /// The last thing that was done, or why it was not.
    pub(super) message: String,
}

/// A MySQLCluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClusterView {
    /// Name; empty while it is not there.
    pub(super) name: String,
    /// Generation of its spec.
    pub(super) generation: i64,
    /// Generation that its status speaks of.
    pub(super) observed_generation: i64,
    /// Instances that the spec asks for.
    pub(super) wanted: u32,
    /// Phase, a word.
    pub(super) phase: String,
    /// Why, a sentence.
    pub(super) reason: String,
    /// `2/3`.
    pub(super) ready: String,
    /// The instance that accepts writes, or was the last to do so; empty for none.
    pub(super) primary: String,
    /// Where the primary moves to; empty for nowhere.
    pub(super) target: String,
    /// MySQL's version; empty before there is a primary.
    pub(super) version: String,
    /// Who may acknowledge commits, in words.
    pub(super) quorum: String,
    /// Kind and step of the operation under way; empty for none.
    pub(super) operation: String,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct InstanceView {
    /// Pod name.
    pub(super) pod: String,
    /// UID of the pod; empty while there is none.
    pub(super) uid: String,
    /// `primary`, `replica` or empty: what its label says, which Services select by.
    pub(super) role: String,
    /// Whether the operator calls it ready.
    pub(super) ready: bool,
    /// What it has executed; empty while unknown.
    pub(super) gtid: String,
    /// How far behind it is; `None` while unknown.
    pub(super) lag: Option<Lag>,
    /// Whether its manager is heard now.
    pub(super) heard: bool,
    /// How often its `mysqld` was started; `None` while unknown.
    pub(super) starts: Option<u64>,
    /// What it is doing, or why it is not ready.
    pub(super) state: String,
}

/// How far a replica is behind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lag {
    /// Transactions that the primary has executed and it has not.
    pub(super) transactions: u64,
    /// Seconds that its applier is behind what it has received; `None` while unknown.
    pub(super) seconds: Option<f64>,
}

/// A replica of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplicaView {
    /// Its name, which stays.
    pub(super) name: String,
    /// Its identity in the Lease, which each start makes anew.
    pub(super) identity: String,
    /// Its process; `None` while there is none.
    pub(super) pid: Option<u32>,
    /// Since it was started, or ended.
    pub(super) age: Duration,
    /// Whether it holds the Lease.
    pub(super) leads: bool,
    /// Its term, while it leads.
    pub(super) term: Option<u64>,
    /// Why it does not run; empty while it does.
    pub(super) why: String,
}

/// An Event of the API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EventView {
    /// Identifies it, repetitions included.
    pub(super) key: String,
    /// Since it was last seen.
    pub(super) age: Duration,
    /// Whether it is a warning.
    pub(super) warning: bool,
    /// Its reason, a word.
    pub(super) reason: String,
    /// Name of what it is about.
    pub(super) about: String,
    /// Its note, a sentence.
    pub(super) note: String,
    /// How often.
    pub(super) count: u32,
}

/// Figures.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rates {
    /// Whether rows are being written.
    pub(super) writing: bool,
    /// Rows acknowledged a second.
    pub(super) writes: f64,
    /// Rows acknowledged so far.
    pub(super) acknowledged: u64,
    /// Since the last acknowledged row, while rows are being written.
    pub(super) pause: Option<Duration>,
    /// The longest time without an acknowledged row.
    pub(super) longest: Option<Duration>,
    /// Acknowledged rows that the primary lacked when it was last looked at; `None` before.
    pub(super) lost: Option<u64>,
    /// Requests a second that the API server answered.
    pub(super) requests: f64,
}

impl Snapshot {
    /// The instance of that name.
    #[must_use]
    pub(super) fn instance(&self, pod: &str) -> Option<&InstanceView> {
        self.instances.iter().find(|instance| instance.pod == pod)
    }

    /// The replica of the operator that leads.
    #[must_use]
    pub(super) fn leader(&self) -> Option<&ReplicaView> {
        self.replicas.iter().find(|replica| replica.leads)
    }

    /// Why the cluster is not what its spec asks for, `instances` of them where that is given;
    /// `None` when it is.
    #[must_use]
    pub(super) fn not_ready(&self, instances: Option<u32>) -> Option<String> {
        let cluster = &self.cluster;
        if cluster.name.is_empty() {
            return Some("there is no cluster yet".to_owned());
        }
        let wanted = instances.unwrap_or(cluster.wanted);
        if cluster.wanted != wanted {
            return Some(format!("the spec asks for {} instances", cluster.wanted));
        }
        if cluster.observed_generation < cluster.generation {
            return Some("the operator has not seen the spec yet".to_owned());
        }
        if cluster.phase != "Running" || cluster.ready != format!("{wanted}/{wanted}") {
            let words = [&cluster.phase, &cluster.ready, &cluster.reason];
            let words = words
                .map(String::as_str)
                .into_iter()
                .filter(|w| !w.is_empty());
            return Some(words.collect::<Vec<_>>().join(", "));
        }
        None
    }
}
