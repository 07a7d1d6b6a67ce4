//! The operator's metrics: of its part in the election, and of each cluster that it works on.
//!
//! They are written when a page of metrics is asked for, from what the caches hold at that moment. So
//! a cluster that is deleted has none any more, nor has any on a replica that does not lead; and the
//! work does not pay for them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::instances::{Instances, Voices};
use super::kinds::Cluster;
use super::stores::Stores;
use crate::client::Fence;
use crate::metric::{Page, metric_table};
use crate::runtime::{ElectionOptions, Health, Leadership, LeadershipWatch, ObjectKey, Store};

// `leader_election_master_status` is client-go's (component-base/metrics/prometheus/clientgo).
metric_table! {
    /// Every metric of the operator proper.
    pub OPERATOR_METRICS;
    LEADER_ELECTION = Gauge "leader_election_master_status" ["name"]
        "1 while this replica leads, else 0, by the name of the Lease.";
    LEASE_REMAINING = Gauge "mainstay_lease_remaining_seconds" []
        "How long writes are still let through if no renewal of the Lease succeeds any more; 0 on a standby.";
    PHASE = Gauge "mainstay_cluster_phase" ["namespace", "mysqlcluster", "phase": "Pending" "Bootstrapping" "Running" "Degraded" "FailingOver" "SwitchingOver" "Unavailable" "Offline" "Paused"]
        "1 for the phase that the cluster is in; there is no series for the others.";
    READY = Gauge "mainstay_cluster_ready" ["namespace", "mysqlcluster"]
        "1 while all instances that are wanted are ready (the condition Ready), else 0.";
    WRITABLE = Gauge "mainstay_cluster_writable" ["namespace", "mysqlcluster"]
        "1 while the primary accepts writes (the condition Available), else 0.";
    STALLED = Gauge "mainstay_cluster_stalled" ["namespace", "mysqlcluster"]
        "1 while nothing comes of the cluster as it is, a spec that can't be worked with or reconciles that go on failing (the condition Stalled), else 0.";
    INSTANCES = Gauge "mainstay_cluster_instances" ["namespace", "mysqlcluster"]
        "Instances that the spec asks for.";
    INSTANCES_READY = Gauge "mainstay_cluster_instances_ready" ["namespace", "mysqlcluster"]
        "Instances that do their part: the primary accepts writes, a replica replicates and keeps up.";
    INSTANCES_HEARD = Gauge "mainstay_cluster_instances_heard" ["namespace", "mysqlcluster"]
        "Instances whose manager this replica hears.";
    LAG = Gauge "mainstay_cluster_replication_lag_seconds" ["namespace", "mysqlcluster"]
        "How far the replica that is furthest behind, of those that are heard, is behind; no series where none says so.";
    ERRANT = Gauge "mainstay_cluster_errant_instances" ["namespace", "mysqlcluster"]
        "Instances with transactions that the primary has not; they are seeded anew.";
    FAILOVERS = Counter "mainstay_cluster_failovers_total" ["namespace", "mysqlcluster"]
        "Failovers that this replica completed since it leads.";
    SWITCHOVERS = Counter "mainstay_cluster_switchovers_total" ["namespace", "mysqlcluster"]
        "Switchovers that this replica completed since it leads.";
}

/// How often primaries moved, by cluster, while this replica leads. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Moves(Arc<Mutex<HashMap<ObjectKey, Moved>>>);

/// How often the primary of one cluster moved.
#[derive(Clone, Copy, Debug, Default)]
struct Moved {
    failovers: u32,
    switchovers: u32,
}

impl Moves {
    /// Counts what happened, if that is a move; `reason` is its Event's.
    pub(super) fn happened(&self, cluster: &ObjectKey, reason: &str) {
        let (failovers, switchovers) = match reason {
            "FailoverCompleted" => (1, 0),
            "SwitchoverCompleted" => (0, 1),
            _ => return,
        };
        let mut all = self.lock();
        let moved = all.entry(cluster.clone()).or_default();
        moved.failovers += failovers;
        moved.switchovers += switchovers;
    }

    /// The cluster is gone.
    pub(super) fn forget(&self, cluster: &ObjectKey) {
        self.lock().remove(cluster);
    }

    /// This replica leads no more.
    pub(super) fn clear(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectKey, Moved>> {
        // The map is whole after each operation, whoever panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes the operator's metrics.
pub(super) struct Figures {
    /// Name of the Lease.
    lease: String,
    leadership: LeadershipWatch,
    fence: Fence,
    clusters: Store<Cluster>,
    instances: Arc<Instances>,
    moves: Moves,
}

/// One cluster at this moment.
struct Seen {
    cluster: Arc<Cluster>,
    voices: Voices,
    moved: Moved,
}

impl Figures {
    /// Of where they come from.
    #[must_use]
    pub(super) fn new(
        election: &ElectionOptions,
        leadership: &LeadershipWatch,
        fence: Fence,
        stores: &Stores,
        instances: &Arc<Instances>,
    ) -> Self {
        Self {
            lease: election.name.clone(),
            leadership: leadership.clone(),
            fence,
            clusters: stores.clusters.clone(),
            instances: Arc::clone(instances),
            moves: Moves::default(),
        }
    }

    /// Has them on each page of metrics. Returns where moves of primaries are to be counted.
    pub(super) fn export(self, health: &Health) -> Moves {
        let moves = self.moves.clone();
        health.exporter(move |page| self.write(page));
        moves
    }

    fn write(&self, page: &mut Page) {
        let leads = matches!(self.leadership.current(), Leadership::Leader { .. });
        let mut status = page.family(OPERATOR_METRICS, LEADER_ELECTION);
        status.sample(&[&self.lease], f64::from(u8::from(leads)));
        let remaining = self.fence.remaining(Instant::now());
        page.one(
            OPERATOR_METRICS,
            LEASE_REMAINING,
            remaining.map(|remaining| remaining.as_secs_f64()),
        );
        if leads {
            write_clusters(page, &self.seen());
        }
    }

    /// All clusters; none before they were listed.
    fn seen(&self) -> Vec<Seen> {
        let clusters = self.clusters.list().unwrap_or_default();
        let voices = self.instances.voices();
        let moves = self.moves.lock().clone();
        let seen = clusters.into_iter().map(|cluster| {
            let key = cluster.metadata.key();
            Seen {
                voices: voices.get(&key).copied().unwrap_or_default(),
                moved: moves.get(&key).copied().unwrap_or_default(),
                cluster,
            }
        });
        seen.collect()
    }
}

/// How a figure comes of a cluster.
type Figure = fn(&Seen) -> Option<f64>;

const FIGURES: &[(&str, Figure)] = &[
    (READY, |seen| Some(seen.condition("Ready"))),
    (WRITABLE, |seen| Some(seen.condition("Available"))),
    (STALLED, |seen| Some(seen.condition("Stalled"))),
    (INSTANCES, |seen| Some(seen.cluster.spec.instances.into())),
    (INSTANCES_READY, |seen| {
        // "2/3"; nothing before the first status.
        let ready = seen.cluster.status.ready.split('/').next();
        Some(ready.and_then(|ready| ready.parse().ok()).unwrap_or(0.0))
    }),
    (INSTANCES_HEARD, |seen| Some(seen.voices.heard.into())),
    (LAG, |seen| seen.voices.lag_seconds),
    (ERRANT, |seen| {
        let rows = seen.cluster.status.instances.iter();
        Some(rows.filter(|row| row.errant.is_some()).count() as f64)
    }),
    (FAILOVERS, |seen| Some(seen.moved.failovers.into())),
    (SWITCHOVERS, |seen| Some(seen.moved.switchovers.into())),
];

impl Seen {
    fn condition(&self, kind: &str) -> f64 {
        let mut conditions = self.cluster.status.conditions.iter();
        let is = conditions.any(|it| it.kind == kind && it.status == "True");
        f64::from(u8::from(is))
    }
}

fn write_clusters(page: &mut Page, all: &[Seen]) {
    let mut phases = page.family(OPERATOR_METRICS, PHASE);
    for seen in all {
        let meta = &seen.cluster.metadata;
        let phase = format!("{:?}", seen.cluster.status.phase);
        phases.sample(&[&meta.namespace, &meta.name, &phase], 1.0);
    }
    for (name, figure) in FIGURES {
        let mut family = page.family(OPERATOR_METRICS, name);
        for seen in all {
            let meta = &seen.cluster.metadata;
            if let Some(value) = figure(seen) {
                family.sample(&[&meta.namespace, &meta.name], value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(status: &serde_json::Value, voices: Voices) -> Seen {
        let cluster = json!({
            "metadata": {"name": "demo", "namespace": "shop", "uid": "u", "resourceVersion": "1"},
            "spec": {"instances": 3},
            "status": status,
        });
        Seen {
            cluster: serde_json::from_value(cluster).unwrap(),
            voices,
            moved: Moved::default(),
        }
    }

    fn page(seen: Seen) -> String {
        let mut page = Page::default();
        write_clusters(&mut page, &[seen]);
        page.into_text()
    }

    fn has(text: &str, samples: &[&str]) {
        for sample in samples {
            assert!(
                text.contains(&format!("\n{sample}\n")),
                "{sample} in {text}"
            );
        }
    }

    #[test]
    fn a_cluster_is_as_its_status_says() {
        let text = page(seen(
            &json!({
                "phase": "Degraded",
                "ready": "2/3",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "", "message": "",
                     "lastTransitionTime": "", "observedGeneration": 1},
                    {"type": "Available", "status": "True", "reason": "", "message": "",
                     "lastTransitionTime": "", "observedGeneration": 1},
                ],
                "instances": [
                    {"name": "demo-0", "ready": true},
                    {"name": "demo-1", "errant": "aaaaaaaa-0000-0000-0000-000000000000:1"},
                ],
            }),
            Voices {
                heard: 2,
                lag_seconds: Some(1.5),
            },
        ));
        let of = |name: &str, value: &str| {
            format!("{name}{{namespace=\"shop\",mysqlcluster=\"demo\"}} {value}")
        };
        has(
            &text,
            &[
                "mainstay_cluster_phase{namespace=\"shop\",mysqlcluster=\"demo\",phase=\"Degraded\"} 1",
                &of(READY, "0"),
                &of(WRITABLE, "1"),
                &of(STALLED, "0"),
                &of(INSTANCES, "3"),
                &of(INSTANCES_READY, "2"),
                &of(INSTANCES_HEARD, "2"),
                &of(LAG, "1.5"),
                &of(ERRANT, "1"),
                &of(FAILOVERS, "0"),
            ],
        );
    }

    #[test]
    fn what_is_not_known_is_not_zero() {
        let text = page(seen(&json!({}), Voices::default()));
        assert!(!text.contains(LAG), "{text}");
        has(
            &text,
            &["mainstay_cluster_instances_ready{namespace=\"shop\",mysqlcluster=\"demo\"} 0"],
        );
    }

    #[test]
    fn moves_are_counted_until_the_cluster_is_gone() {
        let (moves, demo) = (Moves::default(), ObjectKey::new("shop", "demo"));
        for reason in [
            "FailoverStarted",
            "FailoverCompleted",
            "SwitchoverCompleted",
        ] {
            moves.happened(&demo, reason);
        }
        moves.happened(&ObjectKey::new("shop", "other"), "FailoverCompleted");
        let moved = moves.lock()[&demo];
        assert_eq!((moved.failovers, moved.switchovers), (1, 1));
        moves.forget(&demo);
        assert_eq!(moves.lock().len(), 1);
        moves.clear();
        assert!(moves.lock().is_empty());
    }
}
