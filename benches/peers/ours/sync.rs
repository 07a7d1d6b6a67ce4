//! A cache that a list-watch fills, as the operator's projection of a pod or as the whole pod.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod as WholePod;
use mainstay::client::{Client, ClientOptions, Config, ConfigSource, POD, Resource};
use mainstay::operator::kinds::Pod;
use mainstay::runtime::{
    Change, Kind, ListWatch, Meta, OwnerReference, Scope, Shutdown, Store, Tasks,
};
use serde::{Deserialize, Deserializer};

/// A pod with all of its fields but `managedFields`, which no cache needs. What the runtime reads of the metadata is held twice: its `Meta` is
/// not Kubernetes' `ObjectMeta`.
pub(crate) struct Whole {
    meta: Meta,
    _pod: WholePod,
}

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut pod = WholePod::deserialize(deserializer)?;
        pod.metadata.managed_fields = None;
        let from = &pod.metadata;
        let text = |text: &Option<String>| text.as_deref().unwrap_or_default().into();
        let owners = from.owner_references.iter().flatten();
        let meta = Meta {
            name: text(&from.name),
            namespace: text(&from.namespace),
            uid: text(&from.uid),
            resource_version: text(&from.resource_version),
            generation: from.generation.unwrap_or_default(),
            owner_references: owners
                .map(|owner| OwnerReference {
                    kind: owner.kind.as_str().into(),
                    name: owner.name.as_str().into(),
                    uid: owner.uid.as_str().into(),
                    controller: owner.controller.unwrap_or_default(),
                })
                .collect(),
            ..Meta::default()
        };
        Ok(Self { meta, _pod: pod })
    }
}

impl Kind for Whole {
    const RESOURCE: Resource = POD;
    fn meta(&self) -> &Meta {
        &self.meta
    }
}

/// Fills a cache of `count` objects, says so, and says each time another `batch` changes were seen.
pub(crate) fn run(kind: &str, count: usize, batch: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    match kind {
        "mainstay" => runtime.block_on(follow::<Pod>(count, batch)),
        "mainstay-whole" => runtime.block_on(follow::<Whole>(count, batch)),
        other => panic!("no such kind: {other}"),
    }
}

fn say(what: &str) {
    println!("{what}");
    // The reader is a pipe.
    std::io::stdout().flush().expect("somebody reads");
}

async fn follow<K: Kind>(count: usize, batch: usize) {
    let config = Config::load(&ConfigSource::default())
        .await
        .expect("KUBECONFIG");
    let options = ClientOptions {
        qps: 1e9,
        burst: 1_000_000,
        ..ClientOptions::default()
    };
    let client = Client::new(config, options).expect("a client");
    let store = Store::<K>::new();
    let seen = Arc::new(AtomicUsize::new(0));
    let handler = move |change| {
        if let Change::Applied { old: Some(_), .. } = change
            && (seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(batch)
        {
            say("handled");
        }
    };
    let mut signals = Tasks::new();
    let shutdown = Shutdown::on_signals(&mut signals).expect("signals");
    let list_watch = ListWatch::new(client, Scope::default(), store.clone(), handler);
    let running = tokio::spawn(list_watch.run(shutdown.clone()));
    tokio::select! {
        () = store.synced() => {}
        () = shutdown.triggered() => return,
    }
    assert_eq!(store.list().expect("it is synced").len(), count);
    say("synced");
    running.await.expect("it does not panic");
}
