//! The trivial operator on kube-rs. Its twins on Mainstay's runtime and controller-runtime stand
//! beside it and do exactly the same: every ConfigMap labelled `bench=src` gets a child ConfigMap
//! `NAME-child`, labelled `bench=child` and owned by it, whose `n` is the length of the source's `v`.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::runtime::controller::{Action, Config, Controller};
use kube::runtime::reflector::store::WriterDropped;
use kube::runtime::reflector::{self, ObjectRef, Store};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource, ResourceExt};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Api(#[from] kube::Error),
    #[error(transparent)]
    Cache(#[from] WriterDropped),
}

struct Context {
    client: Client,
    children: Store<ConfigMap>,
}

async fn reconcile(source: Arc<ConfigMap>, context: Arc<Context>) -> Result<Action, Error> {
    if source.meta().deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    // The controller waits for the sources only.
    context.children.wait_until_ready().await?;
    let namespace = source.namespace().unwrap_or_default();
    let name = format!("{}-child", source.name_any());
    let length = |data: &ConfigMap| Some(data.data.as_ref()?.get("v")?.len());
    let n = length(&source).unwrap_or(0).to_string();
    let child = context
        .children
        .get(&ObjectRef::new(&name).within(&namespace));
    let held = |child: &ConfigMap| child.data.as_ref()?.get("n").cloned();
    if child.as_deref().and_then(held).as_deref() == Some(&n) {
        return Ok(Action::await_change());
    }
    let wanted = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            namespace: Some(namespace.clone()),
            labels: Some([("bench".to_owned(), "child".to_owned())].into()),
            owner_references: source.controller_owner_ref(&()).map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        data: Some([("n".to_owned(), n)].into()),
        ..ConfigMap::default()
    };
    let api: Api<ConfigMap> = Api::namespaced(context.client.clone(), &namespace);
    let post = PostParams::default();
    match child {
        None => api.create(&post, &wanted).await?,
        Some(_) => api.replace(&name, &post, &wanted).await?,
    };
    Ok(Action::await_change())
}

fn again(_: Arc<ConfigMap>, _: &Error, _: Arc<Context>) -> Action {
    Action::requeue(Duration::from_millis(100))
}

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), kube::Error> {
    let client = Client::try_default().await?;
    let all: Api<ConfigMap> = Api::all(client.clone());
    let labelled = |role| watcher::Config::default().labels(role);
    let (children, writer) = reflector::store();
    let changes = watcher(all.clone(), labelled("bench=child"));
    let changes = reflector::reflector(writer, changes.default_backoff()).touched_objects();
    Controller::new(all, labelled("bench=src"))
        .owns_stream(changes)
        .with_config(Config::default().concurrency(8))
        .shutdown_on_signal()
        .run(reconcile, again, Arc::new(Context { client, children }))
        // What failed is tried again; nothing is said, as by the others.
        .into_stream()
        .for_each(|_| std::future::ready(()))
        .await;
    Ok(())
}
