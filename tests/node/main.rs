//! The local node with real mysqlds: the API server in memory, the operator and the node in this
//! process, instance managers and servers as its children. It runs where `MAINSTAY_TEST_MYSQLD` names a
//! mysqld.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use mainstay::{
    api::{MYSQL_CLUSTER, crd},
    apiserver::{ApiServer, ApiServerOptions},
    client::{
        CUSTOM_RESOURCE_DEFINITION, Client, ClientOptions, Config, DeleteOptions,
        PERSISTENT_VOLUME_CLAIM, POD, Patch, SECRET,
    },
    operator::{Operator, Options, Tuning, instances::Access},
    runtime::{ElectionOptions, Health, Shutdown},
    sandbox::{InMemory, Node, NodeOptions, ProcessOptions, Processes, Runtime},
};
use mysql_async::{Conn, OptsBuilder, SslOpts, prelude::Queryable as _};
use serde_json::{Value, json};

const NS: &str = "default";
/// What anything here may take on a slow machine.
const LIMIT: Duration = Duration::from_mins(4);

struct World {
    api: ApiServer,
    client: Client,
    node: Node,
    processes: Processes,
    folder: tempfile::TempDir,
    stop: Shutdown,
}

impl World {
    fn new(mysqld: PathBuf) -> Self {
        let api = ApiServer::new(ApiServerOptions::default());
        let folder = tempfile::tempdir().unwrap();
        let [.., high, low] = std::process::id().to_be_bytes();
        let processes = Processes::new(ProcessOptions {
            root: folder.path().to_owned(),
            mainstay: env!("CARGO_BIN_EXE_mainstay").into(),
            mysqld,
            subnet: [127, high | 1, low],
        })
        .unwrap();
        let client = client(&api);
        let node = Node::new(
            client.clone(),
            NodeOptions {
                nodes: 3,
                runtime: Runtime::Processes(processes.clone()),
                images: None,
            },
        );
        let stop = Shutdown::new();
        let (running, stopped) = (node.clone(), stop.clone());
        tokio::spawn(async move { running.run(stopped).await });
        Self {
            api,
            client,
            node,
            processes,
            folder,
            stop,
        }
    }

    async fn create_cluster(&self, instances: u32) {
        let definition: Value = serde_yaml::from_str(&crd::yaml()).unwrap();
        let _: Value = self
            .client
            .create(CUSTOM_RESOURCE_DEFINITION, None, &definition)
            .await
            .unwrap();
        let options = Options {
            namespaces: BTreeSet::new(),
            workers: 4,
            election: ElectionOptions::new(NS, "mainstay", "operator-0"),
            shutdown_grace: Duration::from_secs(5),
            instance_access: Access::Direct,
            operator_image: "mainstay".to_owned(),
            tuning: Tuning::default(),
        };
        let operator = Operator::new(client(&self.api), options, &Health::new()).unwrap();
        let operator = operator.with_instance_dial(Arc::new(self.node.clone()));
        tokio::spawn(operator.run(self.stop.clone()));
        let cluster = json!({
            "apiVersion": "mysql.mainstay.dev/v1",
            "kind": "MySQLCluster",
            "metadata": { "name": "demo" },
            "spec": {
                "instances": instances,
                "storage": { "size": "1Gi" },
                "config": { "innodb_buffer_pool_size": "32M" },
            },
        });
        self.until("the definition is served", async || {
            let apply = Patch::Apply {
                body: &cluster,
                force: true,
            };
            let applied = self
                .client
                .patch::<Value>(MYSQL_CLUSTER, Some(NS), "demo", None, apply);
            applied.await.ok()
        })
        .await;
    }

    async fn until<T>(&self, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = look().await {
                return found;
            }
            assert!(
                begun.elapsed() <= LIMIT,
                "not within {LIMIT:?}: {what}\n{}",
                self.state()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// For messages.
    fn state(&self) -> String {
        let mut text = String::new();
        for kind in ["mysqlclusters.mysql.mainstay.dev", "pods"] {
            for object in self.api.objects(kind) {
                let (name, status) = (&object["metadata"]["name"], &object["status"]);
                let _ = writeln!(text, "{name}: {status}");
            }
        }
        for pod in self.node.pods() {
            let log = self.processes.log(NS, &pod.name, "mysql");
            let log = std::fs::read_to_string(log).unwrap_or_default();
            let told = |line: &&str| !line.contains("[Warning]");
            let lines: Vec<_> = log.lines().filter(told).collect();
            let last = lines[lines.len().saturating_sub(40)..].join("\n");
            let _ = writeln!(text, "{}:\n{last}", pod.name);
        }
        text
    }

    async fn primary(&self) -> Option<(String, bool)> {
        let got = self.client.get(MYSQL_CLUSTER, Some(NS), "demo").await;
        let cluster: Value = got.ok()?;
        let primary = cluster["status"]["currentPrimary"].as_str()?.to_owned();
        let conditions = cluster["status"]["conditions"].as_array()?.iter();
        let ready = conditions
            .clone()
            .any(|c| c["type"] == "Ready" && c["status"] == "True");
        Some((primary, ready))
    }

    async fn ready_primary(&self) -> String {
        self.until("the cluster is ready", async || {
            let (primary, ready) = self.primary().await?;
            ready.then_some(primary)
        })
        .await
    }

    /// A session of the application with an instance.
    async fn connect(&self, instance: &str) -> Option<Conn> {
        let secret: Value = self.client.get(SECRET, Some(NS), "demo-app").await.ok()?;
        let text = |key: &str| {
            use base64::Engine as _;
            let encoded = secret["data"][key].as_str()?;
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(encoded)
                .ok()?;
            String::from_utf8(bytes).ok()
        };
        let host = format!("{instance}.demo-instances.{NS}.svc");
        let address = self.processes.mysql(&host)?;
        let tls = SslOpts::default()
            .with_danger_accept_invalid_certs(true)
            .with_danger_skip_domain_validation(true);
        let options = OptsBuilder::default()
            .ip_or_hostname(address.ip().to_string())
            .tcp_port(address.port())
            .prefer_socket(false)
            .user(text("username"))
            .pass(text("password"))
            .db_name(text("database"))
            .ssl_opts(tls);
        let connected = tokio::time::timeout(Duration::from_secs(5), Conn::new(options)).await;
        connected.ok()?.ok()
    }

    async fn query(&self, instance: &str, statement: &str) -> Option<Vec<u32>> {
        let mut session = self.connect(instance).await?;
        let rows = session.query(statement);
        tokio::time::timeout(Duration::from_secs(5), rows)
            .await
            .ok()?
            .ok()
    }
}

fn client(api: &ApiServer) -> Client {
    let config = Config::without_credentials("http://api");
    let pipe = Arc::new(InMemory(api.clone()));
    Client::with_dial(config, ClientOptions::default(), pipe).unwrap()
}

/// The processes that have the folder in their command lines.
fn left(folder: &Path) -> Vec<String> {
    let name = folder.to_string_lossy().into_owned();
    let listed = std::process::Command::new("ps")
        .args(["-e", "-o", "args="])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines()
        .filter(|line| line.contains(&name))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_of_processes_fails_over_and_keeps_what_it_acknowledged() {
    let Some(mysqld) = std::env::var_os("MAINSTAY_TEST_MYSQLD") else {
        eprintln!("skipped: MAINSTAY_TEST_MYSQLD names no mysqld");
        return;
    };
    let world = World::new(std::path::absolute(mysqld).unwrap());
    world.create_cluster(3).await;
    let first = world.ready_primary().await;
    world
        .until("a row is written", async || {
            world
                .query(&first, "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY)")
                .await?;
            world.query(&first, "REPLACE INTO t VALUES (1)").await
        })
        .await;

    assert!(world.node.kill_container(NS, &first));
    let second = world
        .until("another primary", async || {
            let (now, ready) = world.primary().await?;
            (ready && now != first).then_some(now)
        })
        .await;
    let rows = world.until("it answers", async || {
        world.query(&second, "SELECT id FROM t").await
    });
    assert_eq!(rows.await, [1]);
    let pod: Value = world.client.get(POD, Some(NS), &first).await.unwrap();
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(container["restartCount"], 1);
    assert_eq!(container["lastState"]["terminated"]["exitCode"], 137);

    // A new volume is seeded from the others.
    let options = DeleteOptions::default();
    let replica = |names: &[&String]| {
        let all = ["demo-0", "demo-1", "demo-2"];
        all.into_iter()
            .find(|name| names.iter().all(|other| *other != name))
            .unwrap()
    };
    let third = replica(&[&second]);
    let claim = format!("data-{third}");
    world
        .client
        .delete(PERSISTENT_VOLUME_CLAIM, Some(NS), &claim, &options)
        .await
        .unwrap();
    world
        .client
        .delete(POD, Some(NS), third, &options)
        .await
        .unwrap();
    world
        .until("it has a new volume", async || {
            let claim: Value = world
                .client
                .get(PERSISTENT_VOLUME_CLAIM, Some(NS), &claim)
                .await
                .ok()?;
            let kept = claim["metadata"].get("deletionTimestamp").is_none();
            (kept && claim["status"]["phase"] == "Bound").then_some(())
        })
        .await;
    world.ready_primary().await;
    let rows = world.until("it has the row", async || {
        let rows = world.query(third, "SELECT id FROM t").await?;
        (!rows.is_empty()).then_some(rows)
    });
    assert_eq!(rows.await, [1]);

    world.stop.trigger();
    world.processes.stop(Duration::from_secs(30)).await;
    let none = world.until("nothing is left", async || {
        left(world.folder.path()).is_empty().then_some(())
    });
    none.await;
}
