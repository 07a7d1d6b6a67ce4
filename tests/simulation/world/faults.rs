//! What goes wrong on purpose, and how it is mended.

use std::time::Duration;

use mainstay::api::{MYSQL_CLUSTER, PROMOTE_ANNOTATION};
use mainstay::apiserver::{Fault, Rule};
use mainstay::client::{DeleteOptions, POD};
use serde_json::json;
use tokio::time::sleep;

use super::ways::{api, pod};
use super::{CLUSTER, MOST_INSTANCES, NAMESPACE, World};
use crate::network::Party;

/// The longest that a passing fault lasts; some outlast a lease, some a connection.
const LONGEST: u64 = 40;

impl World {
    /// A number below `limit`.
    pub(crate) fn pick(&mut self, limit: u64) -> u64 {
        self.chance.bits() % limit
    }

    fn lasting(&mut self) -> Duration {
        Duration::from_millis(500 + self.pick(LONGEST * 1000))
    }

    fn some_pod(&mut self) -> Party {
        let mut pods: Vec<String> = self.shared.hosts().into_keys().collect();
        if self.pick(2) == 0 {
            // Half of the faults hit where it hurts.
            let primary = self.shared.labelled("primary");
            if !primary.is_empty() {
                pods = primary;
            }
        }
        if pods.is_empty() {
            return pod(0);
        }
        let at = usize::try_from(self.pick(pods.len() as u64)).unwrap_or(0);
        pods[at].as_str().into()
    }

    fn some_replica(&mut self) -> Option<Party> {
        let leader = self.leader();
        let living = self.living();
        match leader {
            Some(leader) if self.pick(3) > 0 => Some(leader),
            _ if living.is_empty() => None,
            _ => {
                let at = usize::try_from(self.pick(living.len() as u64)).unwrap_or(0);
                Some(living[at].0.clone())
            }
        }
    }

    fn host(pod: &Party) -> String {
        mainstay::operator::resources::host(CLUSTER, NAMESPACE, pod)
    }

    /// One fault. It mends itself, or [`Self::mend`] does.
    pub(crate) async fn go_wrong(&mut self) {
        match self.pick(20) {
            0 | 1 => self.kill_a_replica(),
            2 => self.freeze_a_replica(),
            3 | 4 => self.cut_a_replica_from_the_api(),
            5 => self.cut_a_replica_from_a_pod(),
            6 | 7 => self.cut_two_pods(),
            8 => self.cut_a_pod_off(),
            9 => self.cut_the_node_from_the_api(),
            10 => self.slow_a_disk(),
            11 => self.set_a_clock_wrong(),
            12 => self.slow_a_party(),
            13 | 14 => self.disturb_the_api(),
            15 | 16 => self.kill_a_mysqld(),
            17 => self.kill_a_container(),
            18 => self.delete_a_pod().await,
            _ => self.change_its_mind().await,
        }
    }

    fn kill_a_replica(&mut self) {
        if let Some(party) = self.some_replica() {
            self.shared.history.fault("operator killed", &*party);
            self.kill_replica(&party);
        }
    }

    fn freeze_a_replica(&mut self) {
        if let Some(party) = self.some_replica() {
            let lasting = self.lasting();
            self.shared
                .history
                .fault("operator frozen", format!("{party} for {lasting:.1?}"));
            let network = self.shared.network.clone();
            network.freeze(&party);
            tokio::spawn(async move {
                sleep(lasting).await;
                network.thaw(&party);
            });
        }
    }

    fn cut(&mut self, one: Party, other: Party, kind: &'static str) {
        let lasting = self.lasting();
        let network = self.shared.network.clone();
        // A way that is cut is mostly cut both ways.
        let what = match self.pick(4) {
            0 => {
                network.hold(&one, &other);
                format!("{one} to {other}")
            }
            1 => {
                network.hold(&other, &one);
                format!("{other} to {one}")
            }
            _ => {
                network.cut(&one, &other);
                format!("{one} and {other}")
            }
        };
        self.shared
            .history
            .fault(kind, format!("{what} for {lasting:.1?}"));
        tokio::spawn(async move {
            sleep(lasting).await;
            network.heal(&one, &other);
        });
    }

    fn cut_a_replica_from_the_api(&mut self) {
        if let Some(party) = self.some_replica() {
            self.cut(party, api(), "operator and API server cut");
        }
    }

    fn cut_a_replica_from_a_pod(&mut self) {
        if let Some(party) = self.some_replica() {
            let pod = self.some_pod();
            self.cut(party, pod, "operator and instance cut");
        }
    }

    fn cut_the_node_from_the_api(&mut self) {
        self.cut("node".into(), api(), "node and API server cut");
    }

    fn cut_two_pods(&mut self) {
        let (one, other) = (self.some_pod(), self.some_pod());
        let lasting = self.lasting();
        let what = format!("{one} and {other} for {lasting:.1?}");
        self.shared.history.fault("instances cut", what);
        let mysqls = self.shared.mysqls.clone();
        let (one, other) = (Self::host(&one), Self::host(&other));
        mysqls.cut(&one, &other);
        tokio::spawn(async move {
            sleep(lasting).await;
            mysqls.heal(&one, &other);
        });
    }

    fn cut_a_pod_off(&mut self) {
        let (cut, lasting) = (self.some_pod(), self.lasting());
        self.cut_off(cut, lasting);
    }

    /// From everybody: its peers, the operators, the API server.
    pub(crate) fn cut_off(&self, cut: Party, lasting: Duration) {
        self.shared
            .history
            .fault("instance cut off", format!("{cut} for {lasting:.1?}"));
        let (mysqls, network) = (self.shared.mysqls.clone(), self.shared.network.clone());
        let hosts: Vec<String> = (0..MOST_INSTANCES)
            .map(|ordinal| Self::host(&pod(ordinal)))
            .collect();
        let mut others: Vec<Party> = self.living().into_iter().map(|(party, _)| party).collect();
        others.push(api());
        let host = Self::host(&cut);
        for other in hosts.iter().filter(|other| **other != host) {
            mysqls.cut(&host, other);
        }
        for other in &others {
            network.cut(&cut, other);
        }
        tokio::spawn(async move {
            sleep(lasting).await;
            for other in hosts.iter().filter(|other| **other != host) {
                mysqls.heal(&host, other);
            }
            for other in &others {
                network.heal(&cut, other);
            }
        });
    }

    fn slow_a_disk(&mut self) {
        let pod = self.some_pod();
        let millis = 20 + self.pick(1000);
        self.shared
            .history
            .fault("slow disk", format!("{pod}: {millis} ms each write"));
        let by = Duration::from_millis(millis);
        self.shared.mysqls.slow(&Self::host(&pod), by, by);
    }

    fn set_a_clock_wrong(&mut self) {
        let most: i64 = 2 * 3_600_000;
        let error = i64::try_from(self.pick(2 * most.unsigned_abs())).unwrap_or(0) - most;
        let Some(party) = self.some_replica() else {
            return;
        };
        let what = format!("{party} is {} s off", error / 1000);
        self.shared.history.fault("clock jump", what);
        if let Some(replica) = self.shared.replicas.lock().unwrap().get(&party) {
            replica.clock.set_error(error);
        }
    }

    fn slow_a_party(&mut self) {
        let party = match (self.pick(2), self.some_replica()) {
            (0, Some(replica)) => replica,
            _ => self.some_pod(),
        };
        let by = Duration::from_millis(20 + self.pick(1500));
        self.shared
            .history
            .fault("slow network", format!("{party}: {by:?} each way"));
        self.shared.network.slow_down(&party, by);
    }

    fn disturb_the_api(&mut self) {
        let share = [0.1, 0.3, 1.0][usize::try_from(self.pick(3)).unwrap_or(0)];
        let (rule, kind) = match self.pick(12) {
            0 | 1 => (
                Rule::always(Fault::DropAfter).on("write").share(share),
                "answer to a done write lost",
            ),
            2 => (Rule::always(Fault::DropBefore).share(share), "request lost"),
            3 => (
                Rule::always(Fault::Status {
                    code: 503,
                    retry_after: Some(1),
                })
                .share(share),
                "503",
            ),
            4 => (
                Rule::always(Fault::Status {
                    code: 429,
                    retry_after: Some(2),
                })
                .share(share),
                "429",
            ),
            5 => (
                Rule::always(Fault::Status {
                    code: 500,
                    retry_after: None,
                })
                .share(share),
                "500",
            ),
            6 => (
                Rule::always(Fault::Delay { milliseconds: 3000 }).share(share),
                "slow request",
            ),
            7 => (
                Rule::always(Fault::DelayAnswer { milliseconds: 6000 }).share(share),
                "slow answer",
            ),
            8 => (
                Rule::always(Fault::Silent).on("watch"),
                "watch that misses events",
            ),
            9 => (Rule::always(Fault::Gone).on("watch").times(20), "410"),
            10 => (
                Rule::always(Fault::HalfFrame).on("watch").times(10),
                "half a frame",
            ),
            _ => (
                Rule::always(Fault::Stale {
                    versions: 1 + self.pick(60),
                })
                .on("list"),
                "stale list",
            ),
        };
        let client = match self.some_replica() {
            Some(replica) if self.pick(3) > 0 => replica.to_string(),
            _ => "operator".to_owned(),
        };
        let lasting = self.lasting();
        let what = format!("{client}, {share} of its requests, for {lasting:.1?}");
        self.shared.history.fault(kind, what);
        let faults = self.shared.api.faults().clone();
        let id = faults.add(rule.by(&client));
        tokio::spawn(async move {
            sleep(lasting).await;
            faults.remove(id);
        });
    }

    /// Now and then two at once, as when machines share what fails.
    fn kill_a_mysqld(&mut self) {
        for _ in 0..=u64::from(self.pick(3) == 0) {
            let pod = self.some_pod();
            if self.shared.node.kill_mysqld(NAMESPACE, &pod) {
                self.shared.history.fault("mysqld killed", &*pod);
            }
        }
    }

    fn kill_a_container(&mut self) {
        let pod = self.some_pod();
        if self.shared.node.kill_container(NAMESPACE, &pod) {
            self.shared.history.fault("container killed", &*pod);
        }
    }

    async fn delete_a_pod(&mut self) {
        let pod = self.some_pod();
        let force = self.pick(3) == 0;
        let what = if force { "by force" } else { "gracefully" };
        self.shared
            .history
            .fault("pod deleted", format!("{pod}, {what}"));
        let options = DeleteOptions {
            grace_period: force.then_some(Duration::ZERO),
            ..DeleteOptions::default()
        };
        let _ = self.user.delete(POD, Some(NAMESPACE), &pod, &options).await;
    }

    async fn change_its_mind(&mut self) {
        match self.pick(3) {
            0 => {
                let instances = 1 + self.pick(u64::from(MOST_INSTANCES));
                self.shared
                    .history
                    .fault("spec changed", format!("{instances} instances"));
                self.patch_cluster(&json!({"spec": {"instances": instances}}))
                    .await;
            }
            1 => {
                let size = 100 + self.pick(900);
                self.shared
                    .history
                    .fault("spec changed", "another configuration");
                let config = json!({"max_connections": size.to_string()});
                self.patch_cluster(&json!({"spec": {"config": config}}))
                    .await;
            }
            _ => {
                let target = self.some_pod();
                self.shared.history.fault("switchover asked for", &*target);
                let annotations = json!({PROMOTE_ANNOTATION: &*target});
                self.patch_cluster(&json!({"metadata": {"annotations": annotations}}))
                    .await;
            }
        }
    }

    /// Ends all that goes wrong, and starts replicas in the place of those that died.
    pub(crate) fn mend(&mut self) {
        self.shared.history.note("--", "all faults end");
        self.shared.network.heal_all();
        self.shared.mysqls.heal_all();
        self.shared.api.faults().clear();
        for ordinal in 0..MOST_INSTANCES {
            let host = Self::host(&pod(ordinal));
            let mysqls = &self.shared.mysqls;
            mysqls.slow(&host, Duration::ZERO, Duration::ZERO);
        }
        for replica in self.shared.replicas.lock().unwrap().values() {
            replica.clock.set_error(0);
        }
        self.restart_the_dead();
    }

    /// As a Deployment does.
    pub(crate) fn restart_the_dead(&mut self) {
        for name in ["operator-a", "operator-b", "operator-c"] {
            let known = {
                let replicas = self.shared.replicas.lock().unwrap();
                replicas.keys().any(|party| party.starts_with(name))
            };
            let alive = self
                .living()
                .iter()
                .any(|(party, _)| party.starts_with(name));
            if known && !alive {
                self.start_replica(name);
            }
        }
    }

    /// The cluster's kind, for [`Self::delete`].
    pub(crate) const CLUSTERS: mainstay::client::Resource = MYSQL_CLUSTER;
}
