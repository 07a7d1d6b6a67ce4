//! The node against the API server in memory: over HTTP, on a paused clock.

mod cluster;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::apiserver::{ApiServer, ApiServerOptions};
use crate::client::{
    ClientOptions, Config, DeleteOptions, Dial, Environment, PERSISTENT_VOLUME_CLAIM, POD,
    Resource, SECRET,
};
use crate::sandbox::Mysqls;

const NS: &str = "default";
const NAMESPACED: Option<&str> = Some(NS);

/// What anything here may take, by the paused clock.
const LIMIT: Duration = Duration::from_mins(5);

struct Pipe(ApiServer);

impl Dial for Pipe {
    fn dial(&self, _: http::Uri) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        let server = self.0.clone();
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(64 << 10);
            tokio::spawn(async move { server.serve_stream(far).await });
            Ok(Box::new(near) as Box<dyn Stream>)
        })
    }
}

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

    async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let found = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        match timeout(LIMIT, found).await {
            Ok(found) => found,
            Err(_) => panic!("not within {LIMIT:?}: {what}\n{}", self.history()),
        }
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

    async fn events(&self) -> Vec<String> {
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
    Client::with_dial(config, options, Arc::new(Pipe(api.clone()))).unwrap()
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

#[tokio::test(start_paused = true)]
async fn a_pod_is_scheduled_started_ready_stopped_and_removed() {
    let world = World::new(2);
    world.create(POD, &instance("demo-0")).await;
    world
        .until("it is told what is missing", async || {
            let pod = world.get(POD, "demo-0").await?;
            let conditions = pod["status"]["conditions"].as_array()?.clone();
            let scheduled = conditions
                .into_iter()
                .find(|c| c["type"] == "PodScheduled")?;
            let why = scheduled["message"].as_str()?.to_owned();
            why.contains("persistentvolumeclaim \"data-demo-0\" not found")
                .then_some(())
        })
        .await;
    world.create_config().await;
    let pod = world.ready("demo-0").await;
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(
        (&container["ready"], &container["restartCount"]),
        (&json!(true), &json!(0))
    );
    let claim = world
        .get(PERSISTENT_VOLUME_CLAIM, "data-demo-0")
        .await
        .unwrap();
    assert_eq!(claim["status"]["phase"], "Bound");
    let facts = &world.node.pods()[0];
    assert_eq!(pod["status"]["podIP"], facts.ip.to_string());
    assert_eq!(facts.running, [("mysql".to_owned(), 0)]);

    // Events that are held back come within this time.
    sleep(Duration::from_hours(1)).await;
    let rest = world.api.write_count();
    sleep(Duration::from_hours(1)).await;
    let writes = world.api.write_count() - rest;
    assert_eq!(writes, 0, "a pod at rest costs no writes");

    let begun = Instant::now();
    let options = DeleteOptions::default();
    world
        .client
        .delete(POD, NAMESPACED, "demo-0", &options)
        .await
        .unwrap();
    world
        .until("it is gone", async || {
            world.get(POD, "demo-0").await.is_none().then_some(())
        })
        .await;
    assert!(
        begun.elapsed() < Duration::from_mins(1),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(world.node.pods(), []);
    let events = world.events().await;
    for reason in ["FailedScheduling", "Scheduled", "Started", "Killing"] {
        assert!(
            events.iter().any(|event| event == reason),
            "{reason}: {events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_killed_container_is_restarted_and_its_data_is_there() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    let volume = || world.api.objects("persistentvolumes")[0]["metadata"]["name"].clone();
    let before = volume();
    assert!(world.node.kill_container(NS, "demo-0"));
    let pod = world
        .until("it is restarted", async || {
            let pod = world.get(POD, "demo-0").await?;
            let restarts = pod["status"]["containerStatuses"][0]["restartCount"].as_u64()?;
            (restarts == 1 && is_ready(&pod)).then_some(pod)
        })
        .await;
    let last = &pod["status"]["containerStatuses"][0]["lastState"]["terminated"];
    assert_eq!(
        (&last["exitCode"], &last["reason"]),
        (&json!(137), &json!("Error"))
    );
    assert_eq!(volume(), before);
    assert!(world.node.kill_mysqld(NS, "demo-0"));
    sleep(Duration::from_secs(30)).await;
    let pod = world.ready("demo-0").await;
    assert_eq!(
        pod["status"]["containerStatuses"][0]["restartCount"], 1,
        "mysqld is the manager's"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_started_anew_takes_up_what_runs() {
    let mut world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    let before = world.ready("demo-0").await;
    world.stop.trigger();
    sleep(Duration::from_secs(20)).await;
    world.stop = Shutdown::new();
    world.node = Node::new(world.client.clone(), world.node.options().clone());
    world.run_node();
    world
        .until("it is found", async || {
            let pods = world.node.pods();
            (!pods.is_empty() && !pods[0].running.is_empty()).then_some(())
        })
        .await;
    sleep(Duration::from_secs(20)).await;
    let after = world.get(POD, "demo-0").await.unwrap();
    assert_eq!(after["status"], before["status"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_on_a_failed_node_is_restarted_when_the_node_is_back() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    world.node.fail_node("node-1");
    assert_eq!(world.node.pods(), []);
    sleep(Duration::from_secs(20)).await;
    assert!(
        is_ready(&world.get(POD, "demo-0").await.unwrap()),
        "nobody tells"
    );
    sleep(Duration::from_mins(1)).await;
    assert!(!is_ready(&world.get(POD, "demo-0").await.unwrap()));
    assert!(!is_ready(&world.api.objects("nodes")[0]));
    world.node.restore_node("node-1");
    let pod = world.ready("demo-0").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_evicted_from_a_lost_node_and_goes_when_the_node_is_back() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    world.node.fail_node("node-1");
    sleep(Duration::from_mins(10)).await;
    let pod = world.get(POD, "demo-0").await.unwrap();
    assert!(
        pod["metadata"]["deletionTimestamp"].is_string(),
        "nobody is there to end it"
    );
    world.node.restore_node("node-1");
    world
        .until("it is gone", async || {
            world.get(POD, "demo-0").await.is_none().then_some(())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_cut_off_is_not_reached_and_stays_ready() {
    let world = World::new(1);
    world.create_config().await;
    world.create(POD, &instance("demo-0")).await;
    world.ready("demo-0").await;
    let dial = || world.node.dial(NS, "demo-0", PORT, true);
    dial().await.unwrap();
    world.node.cut(NS, "demo-0");
    assert!(timeout(Duration::from_mins(1), dial()).await.is_err());
    assert!(is_ready(&world.get(POD, "demo-0").await.unwrap()));
    world.node.heal(NS, "demo-0");
    dial().await.unwrap();
}
