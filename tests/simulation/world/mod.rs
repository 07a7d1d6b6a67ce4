//! The simulated world: an API server, a node with modelled MySQL, replicas of the operator, clients,
//! and the network between all of them.

mod faults;
mod order;
mod replica;
mod truth;
mod ways;
mod witness;
mod writer;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mainstay::api::{MYSQL_CLUSTER, crd};
use mainstay::apiserver::{ApiServer, ApiServerOptions};
use mainstay::client::{
    CUSTOM_RESOURCE_DEFINITION, Client, ClientOptions, Config, Environment, Jitter, Patch, Resource,
};
use mainstay::runtime::Shutdown;
use mainstay::sandbox::{Models, Mysqls, Node, NodeOptions, Runtime};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::clock::Clock;
use crate::history::History;
use crate::network::{Network, Party};
use crate::run::Outcome;
pub(crate) use replica::Replica;
pub(crate) use truth::Settled;
use ways::ToApi;
pub(crate) use witness::{Crash, Eyes};

/// Where everything is.
pub(crate) const NAMESPACE: &str = "default";
/// The one cluster.
pub(crate) const CLUSTER: &str = "demo";
/// Pods that a history may ever have.
pub(crate) const MOST_INSTANCES: u32 = 5;
/// Nodes, so that one may fail.
const NODES: usize = 3;

/// What is shared with the tasks that look on.
pub(crate) struct Shared {
    pub(crate) history: History,
    pub(crate) network: Network,
    pub(crate) api: ApiServer,
    pub(crate) mysqls: Mysqls,
    pub(crate) node: Node,
    /// By party; those that died are left in.
    pub(crate) replicas: Mutex<BTreeMap<Party, Replica>>,
    /// Whether clients write.
    writing: AtomicBool,
}

/// A world. Everything in it follows from its seed.
pub(crate) struct World {
    pub(crate) shared: Arc<Shared>,
    pub(crate) eyes: Arc<Eyes>,
    pub(crate) chance: Jitter,
    /// A person with kubectl: never cut off, never lied to.
    pub(crate) user: Client,
    started: Instant,
    incarnations: u64,
}

impl World {
    /// A world with the CRD and so many replicas of the operator, and no cluster yet.
    pub(crate) async fn new(seed: u64, replicas: usize) -> Self {
        let started = Instant::now();
        let mut chance = Jitter::seeded(seed);
        let clock = Clock::new(started);
        let network = Network::new(Jitter::seeded(chance.bits()));
        let api = ApiServer::new(ApiServerOptions {
            clock: clock.reader(),
            seed: chance.bits(),
            audit: 100_000,
            ..ApiServerOptions::default()
        });
        let mysqls = Mysqls::new(chance.bits());
        let user = client(&network, "user", chance.bits(), &clock);
        let node = Node::new(
            client(&network, "node", chance.bits(), &clock),
            NodeOptions {
                nodes: NODES,
                runtime: Runtime::Models(Models::new(&mysqls)),
                images: None,
            },
        );
        ways::open(&network, &api, &node);
        let shared = Arc::new(Shared {
            history: History::new(),
            network,
            api,
            mysqls,
            node: node.clone(),
            replicas: Mutex::default(),
            writing: AtomicBool::new(true),
        });
        let eyes = Arc::new(Eyes::new(&shared));
        shared.network.show_to(eyes.clone());
        tokio::spawn(async move { node.run(Shutdown::new()).await });
        tokio::spawn(truth::look_on(Arc::downgrade(&shared)));

        let mut world = Self {
            shared,
            eyes,
            chance,
            user,
            started,
            incarnations: 0,
        };
        world.create_definition().await;
        for name in ["operator-a", "operator-b", "operator-c"]
            .iter()
            .take(replicas)
        {
            world.start_replica(name);
        }
        world
    }

    async fn create_definition(&self) {
        let body = serde_json::to_value(crd::definition()).expect("the CRD is JSON");
        let created: Result<Value, _> = self
            .user
            .create(CUSTOM_RESOURCE_DEFINITION, None, &body)
            .await;
        created.expect("the CRD is taken");
        sleep(Duration::from_millis(100)).await;
    }

    /// A person creates the cluster.
    pub(crate) async fn create_cluster(&self, instances: u32) {
        let body = json!({
            "apiVersion": MYSQL_CLUSTER.api_version(),
            "kind": MYSQL_CLUSTER.kind,
            "metadata": {"name": CLUSTER, "namespace": NAMESPACE},
            "spec": {"instances": instances, "storage": {"size": "1Gi"}},
        });
        let created: Result<Value, _> = self
            .user
            .create(MYSQL_CLUSTER, Some(NAMESPACE), &body)
            .await;
        self.shared.history.note(
            "user",
            format!("creates the cluster with {instances} instances"),
        );
        created.expect("the cluster is taken");
    }

    /// A person changes the cluster: a merge patch.
    pub(crate) async fn patch_cluster(&self, patch: &Value) {
        self.shared
            .history
            .note("user", format!("patches the cluster: {patch}"));
        let patched: Result<Value, _> = self
            .user
            .patch(
                MYSQL_CLUSTER,
                Some(NAMESPACE),
                CLUSTER,
                None,
                Patch::Merge(patch),
            )
            .await;
        if let Err(error) = patched {
            self.shared
                .history
                .note("user", format!("that failed: {error}"));
        }
    }

    /// A person deletes an object.
    pub(crate) async fn delete(&self, resource: Resource, name: &str) {
        self.shared
            .history
            .note("user", format!("deletes {} {name}", resource.kind));
        let options = mainstay::client::DeleteOptions::default();
        if let Err(error) = self
            .user
            .delete(resource, Some(NAMESPACE), name, &options)
            .await
        {
            self.shared
                .history
                .note("user", format!("that failed: {error}"));
        }
    }

    /// What came of it.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            broken: self.shared.history.violations(),
            history: self.shared.history.text(),
            digest: self.shared.network.digest(),
            faults: self.shared.history.faults(),
            seconds: self.started.elapsed().as_secs_f64(),
            steps: self.eyes.counted(),
        }
    }
}

/// A client of the API server, over the network.
fn client(network: &Network, party: &str, seed: u64, clock: &Clock) -> Client {
    let options = ClientOptions {
        user_agent: party.to_owned(),
        environment: Environment::seeded(seed, clock.reader()),
        ..ClientOptions::default()
    };
    let way = ToApi {
        network: network.clone(),
        from: party.into(),
    };
    let config = Config::without_credentials("http://api");
    Client::with_dial(config, options, Arc::new(way)).expect("options that are sound")
}
