//! What the operator works in: an API server, nodes and modelled MySQL in this process.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mainstay::api::{
    MYSQL_CLUSTER, MySQLClusterSpec, MySQLClusterStatus, PROMOTE_ANNOTATION, Phase, crd,
};
use mainstay::apiserver::{self, Access, ApiServer, ApiServerOptions};
use mainstay::client::{
    CUSTOM_RESOURCE_DEFINITION, Client, ClientOptions, Config, ConfigSource, DeleteOptions, Error,
    Jitter, ListOptions, NAMESPACE, POD, Patch,
};
use mainstay::runtime::Shutdown;
use mainstay::sandbox::{Models, Mysqls, Node, NodeOptions, Runtime};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::replica::Replica;
use super::trouble::{OPERATOR, Trouble, pick};
use super::wires;

/// Where all clusters are.
pub(crate) const PLACE: &str = "default";
const NODES: usize = 3;
/// Between two looks whether the definition is served, or clusters are as they should be.
const LOOK: Duration = Duration::from_millis(100);

/// What clusters are for, as their names begin.
pub(crate) mod kind {
    /// Three instances, written to, and hit by what goes wrong.
    pub(crate) const KEPT: &str = "kept-";
    /// No instances: their specs are changed all the time.
    pub(crate) const STILL: &str = "still-";
    /// Three instances; they come and go.
    pub(crate) const PASSING: &str = "passing-";
}

/// A cluster, as a person sees it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Cluster {
    metadata: Metadata,
    spec: MySQLClusterSpec,
    #[serde(default)]
    status: MySQLClusterStatus,
}

#[derive(Clone, Debug, Deserialize)]
struct Metadata {
    name: String,
    generation: i64,
}

impl Cluster {
    pub(crate) fn name(&self) -> &str {
        &self.metadata.name
    }

    pub(crate) fn primary(&self) -> Option<&str> {
        self.status.current_primary.as_deref()
    }

    /// Why it is not as its spec says.
    pub(crate) fn lacks(&self) -> Option<String> {
        let status = &self.status;
        let phase = if self.spec.offline {
            Phase::Offline
        } else {
            Phase::Running
        };
        let all = format!("{0}/{0}", self.spec.instances);
        let well = status.phase == phase
            && status.observed_generation == self.metadata.generation
            && (self.spec.offline || status.ready == all);
        let why = || {
            format!(
                "{} is {:?}, {}, seen {} of {}: {}",
                self.name(),
                status.phase,
                status.ready,
                status.observed_generation,
                self.metadata.generation,
                status.reason
            )
        };
        (!well).then(why)
    }
}

/// How a trouble ends.
pub(crate) enum Undo {
    Rule(u64),
    Api,
    Replica(usize),
    Pod(String),
    Node(String),
    Scale(String),
    Nothing,
}

pub(crate) struct World {
    pub(crate) mysqls: Mysqls,
    /// One a replica, named as [`Self::replica`] names it.
    kubeconfigs: Vec<PathBuf>,
    api: ApiServer,
    node: Node,
    pub(crate) person: Client,
}

impl World {
    /// A world for so many replicas, with the definition and no clusters.
    pub(crate) async fn new(folder: &Path, replicas: usize, seed: u64) -> Self {
        let access = Access::tls("soak", ["127.0.0.1".to_owned()]).expect("a certificate");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut tokens = BTreeMap::new();
        let mut user = |name: &str| {
            let token = format!("token-of-{name}");
            let file = folder.join(format!("{name}.kubeconfig"));
            let kubeconfig = access.kubeconfig(address, name, &token);
            std::fs::write(&file, kubeconfig).expect("it can be written");
            tokens.insert(token, apiserver::Client::admin(name));
            file
        };
        let (person, nodes) = (user("person"), user("node"));
        let kubeconfigs = (0..replicas).map(|nth| user(&Self::replica(nth))).collect();
        let api = ApiServer::new(ApiServerOptions {
            tokens,
            seed,
            ..ApiServerOptions::default()
        });
        let (serving, tls) = (api.clone(), access.server());
        tokio::spawn(async move { serving.serve(listener, tls, std::future::pending()).await });
        let mysqls = Mysqls::new(seed);
        let options = NodeOptions {
            nodes: NODES,
            runtime: Runtime::Models(Models::new(&mysqls).on_loopback(subnet())),
            images: None,
        };
        let node = Node::new(client(&nodes).await, options);
        api.set_pod_dialer(Arc::new(node.clone()));
        tokio::spawn(node.run(Shutdown::new()));
        let person = client(&person).await;
        tokio::spawn(wires::lay(node.clone(), person.clone()));
        let world = Self {
            mysqls,
            kubeconfigs,
            api,
            node,
            person,
        };
        let definition = serde_json::to_value(crd::definition()).expect("it is JSON");
        world
            .create(CUSTOM_RESOURCE_DEFINITION, None, &definition)
            .await;
        let namespace = json!({"metadata": {"name": "mainstay-system"}});
        world.create(NAMESPACE, None, &namespace).await;
        world
    }

    /// A replica's name, by its number.
    pub(crate) fn replica(nth: usize) -> String {
        format!("{OPERATOR}{}", nth + 1)
    }

    /// Starts a replica, by its number.
    pub(crate) fn start(&self, nth: usize, folder: &Path) -> Replica {
        Replica::start(&Self::replica(nth), &self.kubeconfigs[nth], folder)
    }

    /// Waits until each cluster is as its spec says; how long that took.
    pub(crate) async fn settle(&self, limit: Duration) -> Duration {
        let begun = Instant::now();
        loop {
            let lacking: Vec<String> = match self.clusters().await {
                Ok(clusters) => clusters.iter().filter_map(Cluster::lacks).collect(),
                Err(error) => vec![error.to_string()],
            };
            if lacking.is_empty() {
                return begun.elapsed();
            }
            assert!(begun.elapsed() < limit, "not after {limit:?}: {lacking:#?}");
            sleep(LOOK).await;
        }
    }

    /// Creates a cluster.
    pub(crate) async fn add(&self, name: &str, instances: u32) {
        let cluster = json!({
            "apiVersion": MYSQL_CLUSTER.api_version(),
            "kind": MYSQL_CLUSTER.kind,
            "metadata": {"name": name},
            "spec": {"instances": instances.max(1), "offline": instances == 0, "storage": {"size": "1Gi"}},
        });
        self.create(MYSQL_CLUSTER, Some(PLACE), &cluster).await;
    }

    async fn create(&self, kind: mainstay::client::Resource, place: Option<&str>, object: &Value) {
        loop {
            let created: Result<Value, _> = self.person.create(kind, place, object).await;
            match created {
                Ok(_) | Err(Error::AlreadyExists { .. }) => return,
                // The definition is not served yet, or the server is frozen.
                Err(error) if error.is_not_found() || error.is_transient() => {}
                Err(error) => panic!("{error}"),
            }
            sleep(LOOK).await;
        }
    }

    /// Deletes a cluster.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), Error> {
        let options = DeleteOptions::default();
        self.person
            .delete(MYSQL_CLUSTER, Some(PLACE), name, &options)
            .await
    }

    /// Changes a cluster.
    pub(crate) async fn change(&self, name: &str, patch: &Value) -> Result<(), Error> {
        let patch = Patch::Merge(patch);
        let changed = self
            .person
            .patch(MYSQL_CLUSTER, Some(PLACE), name, None, patch);
        changed.await.map(|_: Value| ())
    }

    /// All clusters.
    pub(crate) async fn clusters(&self) -> Result<Vec<Cluster>, Error> {
        let options = ListOptions::default();
        let page = self.person.list(MYSQL_CLUSTER, Some(PLACE), &options);
        let decoded = page.await?.items.into_iter();
        Ok(decoded.map(|it| it.expect("a cluster")).collect())
    }

    /// Begins a trouble; what it hit, and how it ends.
    pub(crate) async fn begin(
        &self,
        trouble: Trouble,
        replicas: &[Replica],
        leader: Option<usize>,
        chance: &mut Jitter,
    ) -> (String, Undo) {
        let faults = self.api.faults();
        match trouble {
            Trouble::Api(rule) => (String::new(), Undo::Rule(faults.add(rule))),
            Trouble::OfLeader(rule) => {
                let name = Self::replica(leader.unwrap_or(0));
                let rule = Undo::Rule(faults.add(rule.by(&name)));
                (name, rule)
            }
            Trouble::ApiFrozen => {
                faults.freeze();
                (String::new(), Undo::Api)
            }
            Trouble::LeaderFrozen | Trouble::StandbyFrozen => {
                let leads = leader.unwrap_or(0);
                let other = (leads + 1) % replicas.len();
                let frozen = trouble == Trouble::LeaderFrozen;
                let nth = if frozen { leads } else { other };
                replicas[nth].freeze(true);
                (Self::replica(nth), Undo::Replica(nth))
            }
            Trouble::NodeFailed => {
                let node = format!("node-{}", pick(chance, NODES) + 1);
                self.node.fail_node(&node);
                (node.clone(), Undo::Node(node))
            }
            of_cluster => self.hit(of_cluster, chance).await,
        }
    }

    /// What befalls a cluster.
    async fn hit(&self, trouble: Trouble, chance: &mut Jitter) -> (String, Undo) {
        let clusters = self.clusters().await.expect("nothing else is wrong");
        let mut kept = clusters;
        kept.retain(|it| it.name().starts_with(kind::KEPT));
        let cluster = &kept[pick(chance, kept.len())];
        let (name, primary) = (cluster.name(), cluster.primary().unwrap_or_default());
        let pods = self.node.pods().into_iter().map(|pod| pod.name);
        let replica = pods
            .filter(|pod| pod.starts_with(&format!("{name}-")) && pod != primary)
            .min();
        let replica = replica.unwrap_or_default();
        match trouble {
            Trouble::MysqldKilled => {
                self.node.kill_mysqld(PLACE, primary);
            }
            Trouble::ContainerKilled => {
                self.node.kill_container(PLACE, primary);
            }
            Trouble::PodDeleted => {
                let options = DeleteOptions::default();
                let _ = self
                    .person
                    .delete(POD, Some(PLACE), primary, &options)
                    .await;
            }
            Trouble::PrimaryCut | Trouble::ReplicaCut => {
                let pod = if trouble == Trouble::PrimaryCut {
                    primary.to_owned()
                } else {
                    replica
                };
                self.node.cut(PLACE, &pod);
                return (pod.clone(), Undo::Pod(pod));
            }
            Trouble::Switchover => {
                let to = json!({"metadata": {"annotations": {PROMOTE_ANNOTATION: replica}}});
                let _ = self.change(name, &to).await;
                return (replica, Undo::Nothing);
            }
            Trouble::ConfigChanged => {
                let value = (100 + pick(chance, 900)).to_string();
                let config = json!({"spec": {"config": {"max_connections": value}}});
                let _ = self.change(name, &config).await;
            }
            Trouble::Scaled => {
                let _ = self.change(name, &json!({"spec": {"instances": 4}})).await;
                return (name.to_owned(), Undo::Scale(name.to_owned()));
            }
            other => unreachable!("{other:?} is of no cluster"),
        }
        (primary.to_owned(), Undo::Nothing)
    }

    /// Ends a trouble.
    pub(crate) async fn end(&self, undo: Undo, replicas: &[Replica]) {
        match undo {
            Undo::Rule(id) => {
                self.api.faults().remove(id);
            }
            Undo::Api => self.api.faults().thaw(),
            Undo::Replica(nth) => replicas[nth].freeze(false),
            Undo::Pod(pod) => self.node.heal(PLACE, &pod),
            Undo::Node(node) => self.node.restore_node(&node),
            Undo::Scale(name) => {
                let _ = self.change(&name, &json!({"spec": {"instances": 3}})).await;
            }
            Undo::Nothing => {}
        }
    }

    /// Rows that a client was told to be written and that the primary of their cluster lacks.
    pub(crate) fn missing(&self, clusters: &[Cluster]) -> BTreeSet<u64> {
        let hosts: BTreeMap<String, String> = self
            .node
            .pods()
            .into_iter()
            .filter_map(|pod| Some((pod.name, pod.host?)))
            .collect();
        let rows = |cluster: &Cluster| {
            let host = cluster.primary().and_then(|primary| hosts.get(primary));
            let rows = host.map(|host| self.mysqls.rows(host)).unwrap_or_default();
            rows.into_keys()
        };
        let there: BTreeSet<u64> = clusters.iter().flat_map(rows).collect();
        let acknowledged = self.mysqls.acknowledged().into_keys();
        acknowledged.filter(|row| !there.contains(row)).collect()
    }
}

async fn client(kubeconfig: &Path) -> Client {
    let source = ConfigSource {
        kubeconfig: Some(kubeconfig.to_owned()),
        context: None,
    };
    let config = Config::load(&source).await.expect("it was just written");
    let options = ClientOptions {
        // It is not what is to be limited.
        qps: 1000.0,
        burst: 1000,
        ..ClientOptions::default()
    };
    Client::new(config, options).expect("a client")
}

/// Of this process: another soak on this machine has another.
fn subnet() -> u8 {
    let [low, ..] = std::process::id().to_le_bytes();
    low.max(1)
}
