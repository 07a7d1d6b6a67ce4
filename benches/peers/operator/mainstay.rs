//! The trivial operator on Mainstay's runtime. Its twins on controller-runtime and kube-rs stand
//! beside it and do exactly the same: every ConfigMap labelled `bench=src` gets a child ConfigMap
//! `NAME-child`, labelled `bench=child` and owned by it, whose `n` is the length of the source's `v`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use mainstay::client::{CONFIG_MAP, Client, ClientOptions, Config, ConfigSource, Resource};
use mainstay::runtime::{
    Change, Controller, ControllerOptions, Kind, ListWatch, LogFormat, Meta, NotSynced, ObjectKey,
    Outcome, Priority, Queue, ReconcileError, Reconciler, Scope, Shutdown, Store, Tasks,
    init_tracing,
};
use serde::Deserialize;
use serde_json::{Value, json};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What is read of a source.
#[derive(Deserialize)]
struct Source {
    metadata: Meta,
    #[serde(default)]
    data: SourceData,
}

#[derive(Default, Deserialize)]
struct SourceData {
    #[serde(default)]
    v: String,
}

/// What is read of a child.
#[derive(Deserialize)]
struct Child {
    metadata: Meta,
    #[serde(default)]
    data: ChildData,
}

#[derive(Default, Deserialize)]
struct ChildData {
    n: Option<String>,
}

impl Kind for Source {
    const RESOURCE: Resource = CONFIG_MAP;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

impl Kind for Child {
    const RESOURCE: Resource = CONFIG_MAP;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

struct Trivial {
    client: Client,
    sources: Store<Source>,
    children: Store<Child>,
}

impl Reconciler for Trivial {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(source) = self.sources.get(key).map_err(not_synced)? else {
            return Ok(Outcome::Done);
        };
        if source.metadata.is_terminating() {
            return Ok(Outcome::Done);
        }
        let child_key = ObjectKey::new(&key.namespace, &format!("{}-child", key.name));
        // A child that is known to be old would be written twice.
        self.children.caught_up(&child_key).await;
        let child = self.children.get(&child_key).map_err(not_synced)?;
        let n = source.data.v.len().to_string();
        let namespace = Some(&*key.namespace);
        let body = child_of(&source.metadata, &child_key, &n);
        let written: Written = match child {
            None => self.client.create(CONFIG_MAP, namespace, &body).await?,
            Some(child) if child.data.n.as_deref() != Some(&n) => {
                let name = &child_key.name;
                self.client
                    .replace(CONFIG_MAP, namespace, name, None, &body)
                    .await?
            }
            Some(_) => return Ok(Outcome::Done),
        };
        let meta = written.metadata;
        self.children
            .expect(&child_key, &meta.uid, &meta.resource_version);
        Ok(Outcome::Done)
    }
}

/// What a write answers with.
#[derive(Deserialize)]
struct Written {
    metadata: Meta,
}

fn child_of(source: &Meta, key: &ObjectKey, n: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": &*key.name,
            "namespace": &*key.namespace,
            "labels": {"bench": "child"},
            "ownerReferences": [{
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": source.name,
                "uid": source.uid,
                "controller": true,
                "blockOwnerDeletion": true,
            }],
        },
        "data": {"n": n},
    })
}

fn not_synced(error: NotSynced) -> ReconcileError {
    ReconcileError::Transient(error.to_string())
}

fn labelled(role: &str) -> Scope {
    Scope {
        label_selector: Some(format!("bench={role}")),
        ..Scope::default()
    }
}

/// Wakes the source whose object changed; `of` says which it is.
fn wake<K: Kind>(queue: &Queue, change: Change<K>, of: impl Fn(&Meta) -> Option<ObjectKey>) {
    let (object, priority) = match change {
        Change::Applied { old: None, new } => (new, Priority::Low),
        Change::Applied { new, .. } => (new, Priority::Normal),
        Change::Deleted { last } => (last, Priority::Normal),
    };
    if let Some(key) = of(object.meta()) {
        queue.add(key, priority);
    }
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    init_tracing(LogFormat::Text, "warn", Duration::ZERO);
    let config = Config::load(&ConfigSource::default()).await?;
    let unlimited = ClientOptions {
        qps: 1e9,
        burst: 1_000_000,
        ..ClientOptions::default()
    };
    let client = Client::new(config, unlimited)?;
    let mut signals = Tasks::new();
    let shutdown = Shutdown::on_signals(&mut signals)?;
    let queue = Queue::new("trivial", client.environment());
    let (sources, children) = (Store::<Source>::new(), Store::<Child>::new());

    let woken = queue.clone();
    let watch_sources = ListWatch::new(
        client.clone(),
        labelled("src"),
        sources.clone(),
        move |change| wake(&woken, change, |meta| Some(meta.key())),
    );
    let woken = queue.clone();
    let watch_children = ListWatch::new(
        client.clone(),
        labelled("child"),
        children.clone(),
        move |change| {
            wake(&woken, change, |meta| {
                let owner = meta.controller()?;
                Some(ObjectKey::new(&meta.namespace, &owner.name))
            });
        },
    );
    let loops = [
        tokio::spawn(watch_sources.run(shutdown.clone())),
        tokio::spawn(watch_children.run(shutdown.clone())),
    ];
    tokio::select! {
        () = async { tokio::join!(sources.synced(), children.synced()); } => {}
        () = shutdown.triggered() => return Ok(()),
    }
    let breaker = client.breaker();
    let reconciler = Trivial {
        client,
        sources,
        children,
    };
    let options = ControllerOptions {
        workers: 8,
        ..ControllerOptions::default()
    };
    Controller::new("trivial", queue, Arc::new(reconciler), options)
        .with_breaker(breaker)
        .run(shutdown, Duration::from_secs(5))
        .await;
    for running in loops {
        running.await?;
    }
    Ok(())
}
