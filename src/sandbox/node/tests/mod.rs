//! The node against the API server in memory: over HTTP, on a paused clock.

mod cluster;
mod pods;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::apiserver::{ApiServer, ApiServerOptions};
use crate::client::{
    ClientOptions, Config, DeleteOptions, Environment, PERSISTENT_VOLUME_CLAIM, POD, Resource,
    SECRET,
};
use crate::sandbox::{InMemory, Mysqls};

const NS: &str = "default";
const NAMESPACED: Option<&str> = Some(NS);

/// What anything here may take, by the paused clock.
const LIMIT: Duration = Duration::from_mins(5);

/// An API server with a node, and a clock that follows tokio's.
struct World {
    api: ApiServer,
    client: Client,
    node: Node,
    mysqls: Mysqls,
    stop: Shutdown,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl World {
    fn new(nodes: usize) -> Self {
        let begun = Instant::now();
        let clock: Arc<dyn Fn() -> Timestamp + Send + Sync> = Arc::new(move || {
            let passed = jiff::SignedDuration::try_from(begun.elapsed()).unwrap();
            "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap() + passed
        });
        let api = ApiServer::new(ApiServerOptions {
            clock: Arc::clone(&clock),
            audit: 100_000,
            ..ApiServerOptions::default()
        });
        let mysqls = Mysqls::new(1);
        let client = client(&api, &clock, 1);
        let options = NodeOptions {
            nodes,
            runtime: Runtime::Models(Models::new(&mysqls)),
            images: None,
        };
        let node = Node::new(client.clone(), options);
        let world = Self {
            api,
            client,
            node,
            mysqls,
            stop: Shutdown::new(),
            clock,
        };
        world.run_node();
        world
    }

    fn run_node(&self) {
        let (node, stop) = (self.node.clone(), self.stop.clone());
        tokio::spawn(async move { node.run(stop).await });
    }

    async fn create(&self, resource: Resource, body: &Value) {
        let _: Value = self
            .client
            .create(resource, NAMESPACED, body)
            .await
            .unwrap();
    }

    async fn get(&self, resource: Resource, name: &str) -> Option<Value> {
        self.client.get(resource, NAMESPACED, name).await.ok()
    }

    async fn until<T>(&self, what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
        self.until_within(LIMIT, what, look).await
    }

    async fn until_within<T>(
        &self,
        limit: Duration,
        what: &str,
        mut look: impl AsyncFnMut() -> Option<T>,
    ) -> T {
        let found = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        let Ok(found) = timeout(limit, found).await else {
            panic!("not within {limit:?}: {what}\n{}", self.history());
        };
        found
    }

    /// The last requests, and the pods: for messages.
    fn history(&self) -> String {
        let all = self.api.audit(0);
        let lines = all
            .iter()
            .skip(all.len().saturating_sub(120))
            .filter(|event| event.verb != "get")
            .map(|event| {
                format!(
                    "{} {} {} {} {}/{} {} {}",
                    event.at,
                    event.client,
                    event.verb,
                    event.resource,
                    event.namespace,
                    event.name,
                    event.code,
                    event.wrote
                )
            });
        let pods = self.api.objects("pods");
        let statuses = pods.iter().map(|pod| pod["status"].to_string());
        lines.chain(statuses).collect::<Vec<_>>().join("\n")
    }

    async fn ready(&self, pod: &str) -> Value {
        self.until(&format!("{pod} is ready"), async || {
            let pod = self.get(POD, pod).await?;
            is_ready(&pod).then_some(pod)
        })
        .await
    }

    /// The Secrets and ConfigMap that an instance's pod mounts, and its claim.
    async fn create_config(&self) {
        for (name, keys) in [
            ("demo-tls", &["ca.crt", "tls.crt", "tls.key"][..]),
            ("demo-internal", &["token", "admin", "replication", "clone"]),
            ("demo-root", &["password"]),
        ] {
            let data: serde_json::Map<_, _> = keys
                .iter()
                .map(|key| ((*key).to_owned(), json!("x")))
                .collect();
            self.create(
                SECRET,
                &json!({ "metadata": { "name": name }, "stringData": data }),
            )
            .await;
        }
        let map =
            json!({ "metadata": { "name": "demo-config" }, "data": { "my.cnf": "[mysqld]\n" } });
        self.create(crate::client::CONFIG_MAP, &map).await;
        let claim = json!({
            "metadata": { "name": "data-demo-0" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        self.create(PERSISTENT_VOLUME_CLAIM, &claim).await;
    }

    fn events(&self) -> Vec<String> {
        let all = self.api.objects("events.events.k8s.io");
        let all = if all.is_empty() {
            self.api.objects("events")
        } else {
            all
        };
        let reason = |event: &Value| event["reason"].as_str().unwrap_or_default().to_owned();
        all.iter().map(reason).collect()
    }
}

fn client(api: &ApiServer, clock: &Arc<dyn Fn() -> Timestamp + Send + Sync>, seed: u64) -> Client {
    let options = ClientOptions {
        environment: Environment::seeded(seed, Arc::clone(clock)),
        ..ClientOptions::default()
    };
    let config = Config::without_credentials("http://api");
    Client::with_dial(config, options, Arc::new(InMemory(api.clone()))).unwrap()
}

fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    conditions.is_some_and(|conditions| {
        conditions
            .iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    })
}

fn instance(name: &str) -> Value {
    let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
    let secret =
        |name: &str| json!({ "name": name, "secret": { "secretName": format!("demo-{name}") } });
    let probe = |path: &str, period: u32| {
        json!({
            "httpGet": { "scheme": "HTTPS", "port": "manager", "path": path }, "periodSeconds": period,
        })
    };
    json!({
        "metadata": { "name": name, "labels": { "app": "demo" } },
        "spec": {
            "hostname": name,
            "subdomain": "demo-instances",
            "terminationGracePeriodSeconds": 120,
            "initContainers": [{
                "name": "install", "image": "mainstay",
                "command": ["/mainstay", "instance", "install", "/bin"],
            }],
            "containers": [{
                "name": "mysql", "image": "mysql",
                "command": ["/bin/mainstay", "instance", "run"],
                "env": [{ "name": "ORDINAL", "value": "0" }],
                "ports": [{ "name": "manager", "containerPort": 8443 }],
                "startupProbe": probe("/startupz", 1),
                "readinessProbe": probe("/readyz", 2),
                "livenessProbe": probe("/livez", 10),
                "volumeMounts": [
                    mount("data", "/var/lib/mysql"),
                    mount("config", "/etc/mainstay/config"),
                    mount("internal", "/etc/mainstay/internal"),
                ],
            }],
            "volumes": [
                { "name": "data", "persistentVolumeClaim": { "claimName": "data-demo-0" } },
                { "name": "config", "configMap": { "name": "demo-config" } },
                secret("tls"), secret("internal"), secret("root"),
            ],
        },
    })
}
