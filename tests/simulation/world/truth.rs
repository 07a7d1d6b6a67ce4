//! What is true, whatever anybody believes: looked at without a request, and held against what must
//! always be.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde_json::Value;
use tokio::time::sleep;

use super::{CLUSTER, NAMESPACE, Shared};

/// How often what must always be is looked at, besides at each message of the operators.
const LOOK: Duration = Duration::from_millis(50);
/// Looks from one to the next at what takes longer to see.
const THOROUGH: u64 = 20;

/// Where the cluster stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Settled {
    /// As its spec says.
    Yes,
    /// Not, and why.
    No(String),
}

/// Looks on until the world ends.
pub(super) async fn look_on(shared: Weak<Shared>) {
    let mut before = Before::default();
    for look in 0.. {
        sleep(LOOK).await;
        let Some(shared) = shared.upgrade() else {
            return;
        };
        shared.check_now();
        shared.check_fences();
        if before.roles_may_differ(&shared) {
            shared.check_roles();
        }
        before.note(&shared);
        if look % THOROUGH == 0 {
            shared.check_rows();
        }
    }
}

/// What was seen last, so that only changes are noted.
#[derive(Default)]
struct Before {
    writable: Vec<String>,
    open: Vec<String>,
    leaders: Vec<(String, u64)>,
    /// Version of the API server's objects, and who could acknowledge writes.
    roles: (u64, Vec<String>),
}

impl Before {
    /// Whether labels or servers have changed. To read all pods takes longer than all else here.
    fn roles_may_differ(&mut self, shared: &Shared) -> bool {
        let now = (shared.api.resource_version(), shared.mysqls.writable());
        let differ = now != self.roles;
        self.roles = now;
        differ
    }

    fn note(&mut self, shared: &Arc<Shared>) {
        let leaders: Vec<_> = {
            let replicas = shared.replicas.lock().unwrap();
            let leaders = replicas
                .iter()
                .filter(|(party, _)| !shared.network.is_dead(party))
                .filter_map(|(party, replica)| Some((party.to_string(), replica.term()?)));
            leaders.collect()
        };
        if leaders != self.leaders {
            shared.history.note("lease", format!("led by {leaders:?}"));
            self.leaders = leaders;
        }
        let writable = shared.mysqls.writable();
        if writable != self.writable {
            shared
                .history
                .note("mysql", format!("can acknowledge: {writable:?}"));
            self.writable = writable;
        }
        let open = shared.mysqls.open();
        for host in open.iter().filter(|host| !self.open.contains(host)) {
            shared.check_opened(host);
        }
        self.open = open;
    }
}

impl Shared {
    /// Never two servers that can both acknowledge writes.
    pub(crate) fn check_now(&self) {
        let writable = self.mysqls.writable();
        if writable.len() > 1 {
            self.history
                .violation(format!("two servers can acknowledge writes: {writable:?}"));
        }
    }

    /// The last copy of an acknowledged row is never wiped.
    fn check_rows(&self) {
        let lost = self.mysqls.lost();
        if let Some(row) = lost.first() {
            let told = self.mysqls.acknowledged().get(row).cloned();
            self.history.violation(format!(
                "row {row} is on no volume any more: {told:?}; {} such rows",
                lost.len()
            ));
        }
    }

    /// Who is opened for writes has everything that was ever acknowledged: clients read there, and what
    /// they write follows on it.
    fn check_opened(&self, host: &str) {
        let visible = self.mysqls.rows(host);
        let missing: Vec<_> = self
            .mysqls
            .acknowledged()
            .into_iter()
            .filter(|(row, _)| !visible.contains_key(row))
            .collect();
        if let Some((row, told)) = missing.first() {
            self.history.violation(format!(
                "{host} is opened for writes and lacks the acknowledged row {row}: {told:?}; {} such rows",
                missing.len()
            ));
        }
    }

    /// At the end: everybody has every acknowledged row, and the same rows.
    pub(crate) fn check_end(&self) {
        self.check_now();
        self.check_rows();
        let acknowledged = self.mysqls.acknowledged();
        for (pod, host) in self.hosts() {
            let visible = self.mysqls.rows(&host);
            if let Some(row) = acknowledged.keys().find(|row| !visible.contains_key(row)) {
                self.history
                    .violation(format!("{pod} lacks the acknowledged row {row} at the end"));
            }
        }
    }

    /// The cluster as it is stored.
    pub(crate) fn cluster(&self) -> Option<Value> {
        let all = self.api.objects("mysqlclusters.mysql.mainstay.dev");
        all.into_iter()
            .find(|one| one["metadata"]["name"] == CLUSTER)
    }

    /// Names of the pods with a role.
    pub(crate) fn labelled(&self, role: &str) -> Vec<String> {
        let pods = self.api.objects("pods");
        let name = |pod: &Value| Some(pod["metadata"]["name"].as_str()?.to_owned());
        let ours = pods
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["mysql.mainstay.dev/role"] == role);
        ours.filter_map(name).collect()
    }

    /// Puts what there is on record, for who has to find out why something did not come about.
    pub(crate) fn note_all(&self) {
        for resource in [
            "pods",
            "persistentvolumeclaims",
            "mysqlclusters.mysql.mainstay.dev",
        ] {
            for object in self.api.objects(resource) {
                let (meta, status) = (&object["metadata"], &object["status"]);
                let what = format!("{} {}: {status}", meta["name"], meta["uid"]);
                self.history.note(resource, what);
            }
        }
        for pod in self.node.pods() {
            self.history.note("node", format!("{pod:?}"));
        }
    }

    /// Whether the cluster is as its spec says.
    pub(crate) fn settled(&self) -> Settled {
        let Some(cluster) = self.cluster() else {
            return self.gone();
        };
        let no = |why: String| Settled::No(why);
        let (spec, status) = (&cluster["spec"], &cluster["status"]);
        if status["observedGeneration"] != cluster["metadata"]["generation"] {
            return no("the spec was not seen yet".to_owned());
        }
        let wanted = spec["instances"].as_u64().unwrap_or_default();
        let ready = format!("{wanted}/{wanted}");
        if status["ready"] != ready || status["phase"] != "Running" {
            return no(format!(
                "{} {}: {}",
                status["phase"], status["ready"], status["reason"]
            ));
        }
        if !status["operation"].is_null() || !status["targetPrimary"].is_null() {
            return no(format!("the primary moves: {}", status["operation"]));
        }
        if !status["quorum"]["next"].is_null() {
            return no(format!("the quorum changes: {}", status["quorum"]));
        }
        let pods = self.api.objects("pods").len() as u64;
        let primary = status["currentPrimary"].as_str().unwrap_or_default();
        let labelled = self.labelled("primary");
        if pods != wanted || labelled != [primary] {
            return no(format!(
                "{pods} pods, primary {primary}, labelled {labelled:?}"
            ));
        }
        let replicas = self.labelled("replica").len() as u64;
        if replicas + 1 != wanted {
            return no(format!("{replicas} replicas are labelled"));
        }
        let host = self.hosts().get(primary).cloned().unwrap_or_default();
        if self.mysqls.writable() != [host] {
            return no(format!("{:?} can acknowledge", self.mysqls.writable()));
        }
        Settled::Yes
    }

    /// A cluster that was deleted leaves its claims and the Secrets of its accounts, and nothing else.
    fn gone(&self) -> Settled {
        let mut left = BTreeSet::new();
        for resource in [
            "pods",
            "services",
            "configmaps",
            "poddisruptionbudgets.policy",
            "secrets",
        ] {
            for object in self.api.objects(resource) {
                let name = object["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned();
                let ours =
                    object["metadata"]["namespace"] == NAMESPACE && name.starts_with(CLUSTER);
                let stays = resource == "secrets"
                    && ["-app", "-root", "-internal"]
                        .iter()
                        .any(|end| name.ends_with(end));
                if ours && !stays {
                    left.insert(format!("{resource}/{name}"));
                }
            }
        }
        if left.is_empty() {
            Settled::Yes
        } else {
            Settled::No(format!("there are still {left:?}"))
        }
    }
}
