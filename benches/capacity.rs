//! What the operator's caches cost by kind, and how much fits into the limits of its Deployment.
//!
//! `cargo bench --bench capacity -- [OBJECTS [CLUSTERS]]`. An API server in memory is filled with
//! objects as the operator makes them (`capacity/cluster.json`: those of one cluster), while an operator
//! that does not lead watches: how its memory grows with OBJECTS (10 000) of each kind. Then all of them
//! go, CLUSTERS (as many as should fit) whole ones come, and an operator is started with one CPU and
//! 512 MiB (a control group, where this may be made). Both are the `mainstay` that cargo builds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::TokioExecutor;
use mainstay::client::{
    CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, Client, ClientOptions, Config, ConfigSource, Error,
    LEASE, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET, Resource, SECRET, SERVICE,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");
const LIMIT: usize = 512 << 20;
/// Of the limit, the part in five that caches are to fill: the rest is for the work.
const FILLED: usize = 4;
const INSTANCES: usize = 3;
const CLUSTERS: Resource = Resource {
    group: "mysql.mainstay.dev",
    version: "v1",
    kind: "MySQLCluster",
    plural: "mysqlclusters",
    namespaced: true,
};
const NAMESPACE: Resource = Resource {
    group: "",
    version: "v1",
    kind: "Namespace",
    plural: "namespaces",
    namespaced: false,
};
/// Owners first.
const KINDS: [Resource; 7] = [
    CLUSTERS,
    POD,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE,
    CONFIG_MAP,
    POD_DISRUPTION_BUDGET,
];

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let objects = numbers.first().copied().unwrap_or(10_000);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(measure(objects, numbers.get(1).copied()));
    ExitCode::SUCCESS
}

async fn measure(objects: usize, clusters: Option<usize>) {
    let folder = tempfile::tempdir().expect("a folder");
    let templates = templates();
    let server = Server::start(folder.path()).await;
    let operator = Operator::start(&server.kubeconfig, None);
    let empty = operator.settled(&BTreeMap::new()).await;
    println!("empty: {} MiB", empty >> 20);
    println!(
        "{:<24} {:>8} {:>12} {:>8}",
        "kind", "objects", "B an object", "of JSON"
    );
    let (mut before, mut counts, mut costs) = (empty, BTreeMap::new(), BTreeMap::new());
    let mut owners = Vec::new();
    for kind in KINDS {
        let of_kind = &templates[kind.plural];
        let made = server.fill(kind, &of_kind[..1], 0..objects, &owners).await;
        if kind.plural == CLUSTERS.plural {
            owners = made;
        }
        counts.insert(kind.plural, objects);
        let now = operator.settled(&counts).await;
        let cost = now.saturating_sub(before) / objects;
        println!(
            "{:<24} {objects:>8} {cost:>12} {:>8}",
            kind.plural,
            of_kind[0].to_string().len()
        );
        costs.insert(kind.plural, cost);
        before = now;
    }
    drop(operator);

    let room = LIMIT / 5 * FILLED - empty;
    for (kind, cost) in &costs {
        println!("of {kind} alone {} fit", room / (*cost).max(1));
    }
    let number = |kind: Resource| match kind.plural {
        "pods" => INSTANCES,
        plural => templates[plural].len(),
    };
    let a_cluster: usize = KINDS
        .iter()
        .map(|kind| number(*kind) * costs[kind.plural])
        .sum();
    let clusters = clusters.unwrap_or(room / a_cluster);
    println!(
        "a cluster of three takes {a_cluster} B in the caches; {} should fit, {clusters} are tried",
        room / a_cluster
    );
    drop(server);

    let server = Server::start(folder.path()).await;
    let mut owners = Vec::new();
    let mut counts = BTreeMap::new();
    for kind in KINDS {
        let of_kind: Vec<Value> = templates[kind.plural]
            .iter()
            .cycle()
            .take(number(kind))
            .cloned()
            .collect();
        let made = server.fill(kind, &of_kind, 0..clusters, &owners).await;
        if kind.plural == CLUSTERS.plural {
            owners = made;
        }
        counts.insert(kind.plural, clusters * number(kind));
    }
    let group = ControlGroup::make();
    if group.is_none() {
        println!("no control group may be made here: without limits");
    }
    let began = Instant::now();
    let operator = Operator::start(&server.kubeconfig, group.as_ref());
    let resident = operator.settled(&counts).await;
    println!(
        "{clusters} clusters, {} objects: synced {:.1} s after the start, CPU {:.1} s, resident {} MiB, at most {} MiB",
        counts.values().sum::<usize>(),
        began.elapsed().as_secs_f64() - SETTLE.as_secs_f64(),
        operator.cpu(),
        resident >> 20,
        operator.status("VmHWM") >> 20,
    );
}

/// The objects of one cluster, by their plural.
fn templates() -> BTreeMap<&'static str, Vec<Value>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/capacity/cluster.json");
    let text = std::fs::read_to_string(file).expect("the templates");
    let objects: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let of_kind = |kind: Resource| {
        let same = objects.iter().filter(|object| object["kind"] == kind.kind);
        (kind.plural, same.cloned().collect())
    };
    KINDS.into_iter().map(of_kind).collect()
}

/// A `mainstay apiserver` of its own.
struct Server {
    _child: Child,
    kubeconfig: PathBuf,
    client: Client,
}

impl Server {
    async fn start(folder: &Path) -> Self {
        let kubeconfig = folder.join("kubeconfig");
        let _ = std::fs::remove_file(&kubeconfig);
        let child = Command::new(MAINSTAY)
            .args(["apiserver", "--kubeconfig-out"])
            .arg(&kubeconfig)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        let mut look = tokio::time::interval(Duration::from_millis(20));
        let config = loop {
            look.tick().await;
            let source = ConfigSource {
                kubeconfig: Some(kubeconfig.clone()),
                context: None,
            };
            if let Ok(config) = Config::load(&source).await {
                break config;
            }
        };
        let options = ClientOptions {
            qps: 1e6,
            burst: 1_000_000,
            max_in_flight: 1000,
            ..ClientOptions::default()
        };
        let client = Client::new(config, options).expect("a client");
        let server = Self {
            _child: child,
            kubeconfig,
            client,
        };
        server.prepare().await;
        server
    }

    /// The definition, and a lease that another holds for the whole run.
    async fn prepare(&self) {
        let file = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/manifests/crd/mysqlclusters.mysql.mainstay.dev.yaml"
        );
        let text = std::fs::read_to_string(file).expect("the definition");
        let definition: Value = serde_yaml::from_str(&text).expect("YAML");
        self.create(CUSTOM_RESOURCE_DEFINITION, None, &definition)
            .await;
        let namespace = json!({"metadata": {"name": "mainstay-system"}});
        self.create(NAMESPACE, None, &namespace).await;
        let lease = json!({
            "metadata": {"name": "mainstay"},
            "spec": {
                "holderIdentity": "another",
                "leaseDurationSeconds": 100_000,
                "renewTime": "2100-01-01T00:00:00.000000Z",
                "leaseTransitions": 1,
            },
        });
        self.create(LEASE, Some("mainstay-system"), &lease).await;
    }

    async fn create(&self, kind: Resource, namespace: Option<&str>, object: &Value) -> Value {
        let mut look = tokio::time::interval(Duration::from_millis(50));
        loop {
            look.tick().await;
            match self.client.create(kind, namespace, object).await {
                Ok(created) => return created,
                // The definition is not served yet.
                Err(Error::NotFound { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Makes the objects of these clusters, and says their UIDs, those of the last template.
    async fn fill(
        &self,
        kind: Resource,
        templates: &[Value],
        clusters: std::ops::Range<usize>,
        owners: &[String],
    ) -> Vec<String> {
        const TASKS: usize = 32;
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (client, templates, clusters) =
                (self.client.clone(), templates.to_vec(), clusters.clone());
            let owners = owners.to_vec();
            tasks.spawn(async move {
                let mut made = Vec::new();
                for cluster in clusters.skip(task).step_by(TASKS) {
                    let owner = owners.get(cluster).map(String::as_str);
                    for (nth, template) in templates.iter().enumerate() {
                        let object = of_cluster(template, cluster, nth, owner);
                        made.push((cluster, create_whole(&client, kind, &object).await));
                    }
                }
                made
            });
        }
        let made: BTreeMap<usize, String> = tasks.join_all().await.into_iter().flatten().collect();
        made.into_values().collect()
    }
}

/// The template's object for another cluster.
fn of_cluster(template: &Value, cluster: usize, nth: usize, owner: Option<&str>) -> Value {
    let mut object = template.clone();
    let name = template["metadata"]["name"].as_str().expect("a name");
    object["metadata"]["name"] = json!(format!("c{cluster}-{nth}-{name}"));
    object["metadata"]["labels"]["mysql.mainstay.dev/cluster"] = json!(format!("c{cluster}"));
    let owners = object["metadata"]["ownerReferences"].as_array_mut();
    for reference in owners.into_iter().flatten() {
        reference["uid"] = json!(owner.expect("its cluster is there"));
        reference["name"] = json!(format!("c{cluster}-0-demo"));
    }
    object
}

/// Creates an object and its status. Gives its UID.
async fn create_whole(client: &Client, kind: Resource, object: &Value) -> String {
    let namespace = Some("default");
    let created: Result<Value, Error> = client.create(kind, namespace, object).await;
    let created = created.unwrap_or_else(|error| panic!("{error}"));
    // That of a Service is empty, and nobody's to write here.
    if kind.plural != SERVICE.plural && !object["status"].is_null() {
        let name = object["metadata"]["name"].as_str().expect("a name");
        let mut whole = object.clone();
        let mut now = created.clone();
        loop {
            whole["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
            let replaced: Result<Value, Error> = client
                .replace(kind, namespace, name, Some("status"), &whole)
                .await;
            match replaced {
                Ok(_) => break,
                // The server's own controllers write, too.
                Err(Error::Conflict { .. }) => {
                    let read = client.get(kind, namespace, name).await;
                    now = read.unwrap_or_else(|error| panic!("{error}"));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
    created["metadata"]["uid"]
        .as_str()
        .expect("a UID")
        .to_owned()
}

/// How long memory is left to settle.
const SETTLE: Duration = Duration::from_secs(3);

/// A `mainstay run` that does not lead.
struct Operator {
    child: Child,
    url: http::Uri,
}

impl Operator {
    fn start(kubeconfig: &Path, group: Option<&ControlGroup>) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port");
        let child = Command::new(MAINSTAY)
            .args(["run", "--listen", &port.to_string(), "--kubeconfig"])
            .arg(kubeconfig)
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        if let Some(group) = group {
            group.take(child.id().expect("it runs"));
        }
        let url = format!("http://{port}/metrics").parse().expect("a URL");
        Self { child, url }
    }

    /// Waits until it holds that many of each kind, and for its memory to settle; what is resident.
    async fn settled(&self, counts: &BTreeMap<&'static str, usize>) -> usize {
        let mut look = tokio::time::interval(Duration::from_millis(100));
        loop {
            look.tick().await;
            assert!(
                Path::new(&format!("/proc/{}/status", self.id())).exists(),
                "the operator is gone"
            );
            let Some(metrics) = self.metrics().await else {
                continue;
            };
            let holds = |(kind, count): (&&str, &usize)| {
                metrics.contains(&format!(
                    "mainstay_store_objects{{kind=\"{kind}\"}} {count}\n"
                ))
            };
            let lists = metrics.matches("mainstay_watch_lists_total{").count();
            if counts.iter().all(holds) && lists >= KINDS.len() {
                break;
            }
        }
        tokio::time::sleep(SETTLE).await;
        self.status("VmRSS")
    }

    async fn metrics(&self) -> Option<String> {
        let http: Http<_, Empty<Bytes>> = Http::builder(TokioExecutor::new()).build_http();
        let answer = http.get(self.url.clone()).await.ok()?;
        let body = answer.into_body().collect().await.ok()?;
        String::from_utf8(body.to_bytes().to_vec()).ok()
    }

    fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// A line of its status that is in kB, in bytes.
    fn status(&self, name: &str) -> usize {
        let text =
            std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kib.expect("the operator is gone: killed for its memory?") << 10
    }

    /// Its CPU so far, in seconds.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.id())).unwrap_or_default();
        let words: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        let ticks = |nth: usize| words.get(nth).and_then(|word| word.parse::<f64>().ok());
        // utime and stime, in hundredths (USER_HZ).
        (ticks(11).unwrap_or_default() + ticks(12).unwrap_or_default()) / 100.0
    }
}

/// The Deployment's limits: one CPU, 512 MiB.
struct ControlGroup {
    /// Where processes are put in.
    doors: Vec<PathBuf>,
}

impl ControlGroup {
    /// Of the second version, or of the first.
    fn make() -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let limit = LIMIT.to_string();
        let unified: &[(&str, &[(&str, &str)])] =
            &[("", &[("memory.max", &limit), ("cpu.max", "100000 100000")])];
        let separate: &[(&str, &[(&str, &str)])] = &[
            ("memory", &[("memory.limit_in_bytes", &limit)]),
            (
                "cpu",
                &[
                    ("cpu.cfs_period_us", "100000"),
                    ("cpu.cfs_quota_us", "100000"),
                ],
            ),
        ];
        let hierarchies = if root.join("cgroup.controllers").exists() {
            unified
        } else {
            separate
        };
        let mut doors = Vec::new();
        for (hierarchy, limits) in hierarchies {
            let group = root.join(hierarchy).join("mainstay-capacity");
            std::fs::create_dir_all(&group).ok()?;
            for (file, value) in *limits {
                std::fs::write(group.join(file), value).ok()?;
            }
            doors.push(group.join("cgroup.procs"));
        }
        Some(Self { doors })
    }

    fn take(&self, process: u32) {
        for door in &self.doors {
            std::fs::write(door, process.to_string()).expect("it joins the group");
        }
    }
}
