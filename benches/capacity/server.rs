//! The API server, and what it is filled with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mainstay::api::crd;
use mainstay::client::{
    CUSTOM_RESOURCE_DEFINITION, Client, ClientOptions, Config, ConfigSource, Error, LEASE,
    NAMESPACE, Resource, SERVICE,
};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::MAINSTAY;

/// A `mainstay apiserver` of its own.
pub(super) struct Server {
    _child: Child,
    pub(super) kubeconfig: PathBuf,
    client: Client,
}

impl Server {
    pub(super) async fn start(folder: &Path) -> Self {
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
        self.create(CUSTOM_RESOURCE_DEFINITION, None, &crd::definition())
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
    pub(super) async fn fill(
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
