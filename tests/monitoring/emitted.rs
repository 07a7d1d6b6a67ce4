//! A real operator emits what the tables have, and nothing else: `mainstay run` as a process, against the
//! API server in memory and a node with modelled MySQL in this one.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use mainstay::api::{MYSQL_CLUSTER, PROMOTE_ANNOTATION, crd};
use mainstay::apiserver::{ApiServer, ApiServerOptions, Fault, Rule};
use mainstay::client::{
    CUSTOM_RESOURCE_DEFINITION, Client, ClientOptions, Config, DeleteOptions, NAMESPACE, Patch,
};
use mainstay::runtime::Shutdown;
use mainstay::sandbox::{InMemory, Models, Mysqls, Node, NodeOptions, Runtime};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::page::Page;
use super::tables;

/// What anything here may take on a slow machine.
const LIMIT: Duration = Duration::from_mins(2);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);
/// Metrics that need not be there: it depends on the machine whether memory is limited.
const MAY_LACK: &[&str] = &["mainstay_memory_limit_bytes"];

/// The operator. Dropped, it is killed.
struct Operator {
    child: Child,
    address: SocketAddr,
}

impl Operator {
    fn start(kubeconfig: &Path) -> Self {
        let address = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_mainstay"))
            .args(["run", "--instance-access", "proxy"])
            // Lost soon once the API server is silent.
            .args(["--lease-duration", "3", "--renew-deadline", "2"])
            .args(["--renew-interval", "0.3"])
            .args(["--listen", &address.to_string(), "--kubeconfig"])
            .arg(kubeconfig)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, address }
    }

    /// Its page, once that is as it must become.
    async fn page(&self, what: &str, is: impl Fn(&Page) -> bool) -> Page {
        let begun = Instant::now();
        loop {
            if let Some(page) = Page::of(self.address).filter(|page| is(page)) {
                return page;
            }
            assert!(begun.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A kubeconfig with a credential plugin, since that has metrics too.
fn kubeconfig(server: SocketAddr, folder: &Path) -> std::path::PathBuf {
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": "any", "expirationTimestamp": "2100-01-01T00:00:00Z"},
    });
    let exec = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "interactiveMode": "Never",
        "command": "echo",
        "args": [credential.to_string()],
    });
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": format!("http://{server}")}}],
        "users": [{"name": "test", "user": {"exec": exec}}],
    });
    let file = folder.join("kubeconfig");
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

/// An API server with the definition, the namespace of the Lease, and a node.
async fn world(stop: &Shutdown) -> (ApiServer, Client, SocketAddr) {
    let api = ApiServer::new(ApiServerOptions::default());
    let config = Config::without_credentials("http://api");
    let dial = Arc::new(InMemory(api.clone()));
    let client = Client::with_dial(config, ClientOptions::default(), dial).unwrap();
    let node = Node::new(
        client.clone(),
        NodeOptions {
            nodes: 3,
            runtime: Runtime::Models(Models::new(&Mysqls::new(7))),
            images: None,
        },
    );
    api.set_pod_dialer(Arc::new(node.clone()));
    tokio::spawn(node.run(stop.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (serving, stopped) = (api.clone(), stop.clone());
    tokio::spawn(async move {
        serving
            .serve(listener, None, async { stopped.triggered().await })
            .await;
    });
    let definition: Value = serde_yaml::from_str(&crd::yaml()).unwrap();
    let namespace = json!({"metadata": {"name": "mainstay-system"}});
    for (kind, object) in [
        (CUSTOM_RESOURCE_DEFINITION, definition),
        (NAMESPACE, namespace),
    ] {
        let _: Value = client.create(kind, None, &object).await.unwrap();
    }
    (api, client, address)
}

async fn create_cluster(client: &Client) {
    let cluster = json!({
        "apiVersion": MYSQL_CLUSTER.api_version(),
        "kind": MYSQL_CLUSTER.kind,
        "metadata": {"name": "demo"},
        "spec": {"instances": 3, "storage": {"size": "1Gi"}},
    });
    let begun = Instant::now();
    while let Err(error) = client
        .create::<Value, Value>(MYSQL_CLUSTER, Some("default"), &cluster)
        .await
    {
        // The definition is not served yet.
        assert!(error.is_not_found() && begun.elapsed() < LIMIT, "{error}");
        tokio::time::sleep(LOOK).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_operator_emits_what_the_tables_have() {
    let stop = Shutdown::new();
    let (api, client, address) = world(&stop).await;
    let folder = tempfile::tempdir().unwrap();
    let file = kubeconfig(address, folder.path());
    // Something to send again.
    api.faults().add(Rule {
        client: None,
        verb: Some("patch".into()),
        resource: Some("services".into()),
        namespace: None,
        name: None,
        share: 1.0,
        times: Some(1),
        fault: Fault::Status {
            code: 503,
            retry_after: None,
        },
    });
    create_cluster(&client).await;

    let operator = Operator::start(&file);
    let ready = |page: &Page| page.value("mainstay_cluster_ready") == Some(1.0);
    operator.page("the cluster is ready", ready).await;

    // A switchover is counted, and of what it took there is everything.
    let body = json!({"metadata": {"annotations": {PROMOTE_ANNOTATION: "demo-1"}}});
    let patch = Patch::Merge(&body);
    let _: Value = client
        .patch(MYSQL_CLUSTER, Some("default"), "demo", None, patch)
        .await
        .unwrap();
    let page = operator
        .page("the primary moved", |page| {
            page.value("mainstay_cluster_switchovers_total") == Some(1.0) && ready(page)
        })
        .await;
    let there = page.check();
    let lacking: Vec<&str> = tables::all()
        .map(|metric| metric.name)
        .filter(|name| !there.contains(name) && !MAY_LACK.contains(name))
        .collect();
    assert!(lacking.is_empty(), "never emitted: {lacking:?}");
    assert_eq!(page.value("leader_election_master_status"), Some(1.0));
    assert_eq!(page.value("mainstay_cluster_failovers_total"), Some(0.0));
    assert_eq!(page.value("mainstay_cluster_instances_heard"), Some(3.0));

    // Whoever does not lead says nothing of clusters.
    let standby = Operator::start(&file);
    let watches = |page: &Page| {
        let mut objects = page
            .series
            .iter()
            .filter(|it| it.name == "mainstay_store_objects");
        objects.any(|it| it.labels["kind"] == "mysqlclusters" && it.value > 0.0)
    };
    let page = standby.page("the standby has its caches", watches).await;
    page.check();
    assert_eq!(page.of_clusters(), [] as [&str; 0]);

    // Nor does a leader that leads no more.
    api.faults().freeze();
    let page = operator
        .page("the lease is lost", |page| {
            page.value("mainstay_leader") == Some(0.0)
        })
        .await;
    page.check();
    assert_eq!(page.of_clusters(), [] as [&str; 0]);
    operator
        .page("its last writes are over", |page| {
            page.value("mainstay_lease_remaining_seconds") == Some(0.0)
        })
        .await;
    drop(standby);
    api.faults().thaw();
    operator.page("it leads again", ready).await;

    // Nor is anything left of a cluster that is gone.
    let options = DeleteOptions::default();
    client
        .delete(MYSQL_CLUSTER, Some("default"), "demo", &options)
        .await
        .unwrap();
    operator
        .page("the cluster is gone", |page| page.of_clusters().is_empty())
        .await;
    stop.trigger();
}
