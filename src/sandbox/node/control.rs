//! The loops that keep Nodes, bindings, volumes and endpoints: look, decide, write, look again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, header};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::kinds::{
    ENDPOINT_SLICE, ENDPOINTS, NODE, PERSISTENT_VOLUME, STORAGE_CLASS, StorageClass,
};
use super::kubelet::Kubelet;
use super::runtime::ContainerRuntime;
use super::stores::{Bells, Stores, all, refs};
use super::{endpoints, nodes, scheduling, volumes};
use crate::client::{
    Client, DeleteOptions, Error, PERSISTENT_VOLUME_CLAIM, POD, Patch, RawRequest, Resource,
};
use crate::runtime::{EventRecorder, EventType, Kind, Meta, ObjectKey, ObjectRef, Store};

/// After a write that failed, a pass is made at the latest after this time.
const RETRY: Duration = Duration::from_secs(1);

/// The control loops.
pub(super) struct Control {
    pub(super) client: Client,
    pub(super) stores: Stores,
    pub(super) bells: Bells,
    pub(super) runtime: Arc<dyn ContainerRuntime>,
    pub(super) kubelet: Arc<Kubelet>,
    /// As `default-scheduler`.
    pub(super) events: EventRecorder,
}

/// One of the loops.
#[derive(Clone, Copy, Debug)]
enum Loop {
    Nodes,
    Scheduler,
    Volumes,
    Endpoints,
}

/// An answer to a write: enough to wait for it in the cache.
#[derive(Deserialize)]
struct Written {
    metadata: Meta,
}

impl Control {
    /// Runs all loops. Never ends.
    pub(super) async fn run(&self) {
        tokio::join!(
            biased;
            self.drive(Loop::Nodes),
            self.drive(Loop::Scheduler),
            self.drive(Loop::Volumes),
            self.drive(Loop::Endpoints),
        );
    }

    /// Passes whenever its bell rings; after a failure soon once more.
    fn drive(&self, which: Loop) -> BoxFuture<'_, ()> {
        Box::pin(self.passes(which))
    }

    async fn passes(&self, which: Loop) {
        let bell = match which {
            Loop::Nodes => &self.bells.nodes,
            Loop::Scheduler => &self.bells.scheduler,
            Loop::Volumes => &self.bells.volumes,
            Loop::Endpoints => &self.bells.endpoints,
        };
        loop {
            let passed = match which {
                Loop::Nodes => self.nodes().await,
                Loop::Scheduler => self.scheduler().await,
                Loop::Volumes => self.volumes().await,
                Loop::Endpoints => self.endpoints().await,
            };
            match passed {
                Ok(()) => bell.notified().await,
                Err(error) => {
                    tracing::debug!(control = ?which, %error, "a write failed");
                    let _ = timeout(RETRY, bell.notified()).await;
                }
            }
        }
    }

    async fn nodes(&self) -> Result<(), Error> {
        let classes = all(&self.stores.classes);
        if classes.is_empty() {
            let created = self
                .create(STORAGE_CLASS, None, &volumes::standard_class())
                .await;
            settle::<StorageClass>(&self.stores.classes, created).await?;
        }
        for (index, address, up) in self.kubelet.nodes() {
            let key = ObjectKey::new("", &nodes::name(index));
            let live = self.stores.nodes.get(&key).ok().flatten();
            let now = self.client.environment().now();
            let write = nodes::decide(index, &address.to_string(), up, live.as_deref(), now);
            let written = match write {
                None => continue,
                Some(nodes::Write::Create(body)) => self.create(NODE, None, &body).await,
                Some(nodes::Write::Status(name, patch)) => {
                    self.patch(NODE, None, &name, Some("status"), Patch::Strategic(&patch))
                        .await
                }
            };
            settle(&self.stores.nodes, written).await?;
            // A Node that was just created has its status to come.
            self.bells.nodes.notify_one();
        }
        Ok(())
    }

    async fn scheduler(&self) -> Result<(), Error> {
        let (pods, nodes) = (all(&self.stores.pods), all(&self.stores.nodes));
        let (claims, classes) = (all(&self.stores.claims), all(&self.stores.classes));
        let world = scheduling::World {
            pods: &refs(&pods),
            nodes: &refs(&nodes),
            claims: &refs(&claims),
            classes: &refs(&classes),
        };
        let now = format!("{:.0}", self.client.environment().now());
        for write in scheduling::decide(&world, &now) {
            match write {
                scheduling::Write::Bind { pod, uid, node } => {
                    self.bind(&pod, &uid, &node).await?;
                    let note = format!("Successfully assigned {pod} to {node}");
                    self.tell(&pod, &uid, EventType::Normal, "Scheduled", note);
                }
                scheduling::Write::SelectNode(key, patch) => {
                    let written = self
                        .patch_in(PERSISTENT_VOLUME_CLAIM, &key, None, &patch)
                        .await;
                    settle(&self.stores.claims, written).await?;
                }
                scheduling::Write::Unschedulable {
                    pod,
                    uid,
                    patch,
                    why,
                } => {
                    let patch = Patch::Strategic(&patch);
                    let namespace = Some(&*pod.namespace);
                    let written = self
                        .patch(POD, namespace, &pod.name, Some("status"), patch)
                        .await;
                    settle(&self.stores.pods, written).await?;
                    self.tell(&pod, &uid, EventType::Warning, "FailedScheduling", why);
                }
            }
        }
        Ok(())
    }

    async fn volumes(&self) -> Result<(), Error> {
        let (claims, volumes) = (all(&self.stores.claims), all(&self.stores.volumes));
        let (classes, pods) = (all(&self.stores.classes), all(&self.stores.pods));
        let world = volumes::World {
            claims: &refs(&claims),
            volumes: &refs(&volumes),
            classes: &refs(&classes),
            pods: &refs(&pods),
        };
        let (claims, volumes) = (&self.stores.claims, &self.stores.volumes);
        for write in volumes::decide(&world) {
            match write {
                volumes::Write::Create(body) => {
                    let written = self.create(PERSISTENT_VOLUME, None, &body).await;
                    settle(volumes, written).await?;
                }
                volumes::Write::Claim(key, patch) => {
                    let written = self
                        .patch_in(PERSISTENT_VOLUME_CLAIM, &key, None, &patch)
                        .await;
                    settle(claims, written).await?;
                }
                volumes::Write::ClaimStatus(key, patch) => {
                    let status = Some("status");
                    let written = self
                        .patch_in(PERSISTENT_VOLUME_CLAIM, &key, status, &patch)
                        .await;
                    settle(claims, written).await?;
                }
                volumes::Write::Volume(name, patch) => {
                    let patch = Patch::Merge(&patch);
                    let written = self
                        .patch(PERSISTENT_VOLUME, None, &name, None, patch)
                        .await;
                    settle(volumes, written).await?;
                }
                volumes::Write::VolumeStatus(name, patch) => {
                    let (patch, status) = (Patch::Merge(&patch), Some("status"));
                    let written = self
                        .patch(PERSISTENT_VOLUME, None, &name, status, patch)
                        .await;
                    settle(volumes, written).await?;
                }
                volumes::Write::Delete(name, uid) => self.delete_volume(&name, &uid).await?,
                volumes::Write::Reclaim(name, patch) => {
                    if let Err(error) = self.runtime.reclaim(&name).await {
                        tracing::warn!(volume = name, error, "the data can't be deleted");
                        continue;
                    }
                    let patch = Patch::Merge(&patch);
                    let written = self
                        .patch(PERSISTENT_VOLUME, None, &name, None, patch)
                        .await;
                    settle(volumes, written).await?;
                }
            }
        }
        Ok(())
    }

    async fn endpoints(&self) -> Result<(), Error> {
        let (services, pods) = (all(&self.stores.services), all(&self.stores.pods));
        let (slices, older) = (all(&self.stores.slices), all(&self.stores.endpoints));
        let world = endpoints::World {
            services: &refs(&services),
            pods: &refs(&pods),
            slices: &refs(&slices),
            endpoints: &refs(&older),
        };
        for write in endpoints::decide(&world) {
            match write {
                endpoints::Write::CreateSlice(key, body) => {
                    let written = self
                        .create(ENDPOINT_SLICE, Some(&key.namespace), &body)
                        .await;
                    settle(&self.stores.slices, written).await?;
                }
                endpoints::Write::ReplaceSlice(key, body) => {
                    let written = self.replace(ENDPOINT_SLICE, &key, &body).await;
                    settle(&self.stores.slices, written).await?;
                }
                endpoints::Write::Create(key, body) => {
                    let written = self.create(ENDPOINTS, Some(&key.namespace), &body).await;
                    settle(&self.stores.endpoints, written).await?;
                }
                endpoints::Write::Replace(key, body) => {
                    let written = self.replace(ENDPOINTS, &key, &body).await;
                    settle(&self.stores.endpoints, written).await?;
                }
            }
        }
        Ok(())
    }

    /// POST to the pod's `binding`, which also sets its condition.
    async fn bind(&self, pod: &ObjectKey, uid: &str, node: &str) -> Result<(), Error> {
        let body = json!({
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": { "name": &*pod.name, "namespace": &*pod.namespace, "uid": uid },
            "target": { "apiVersion": "v1", "kind": "Node", "name": node },
        });
        let json = HeaderValue::from_static("application/json");
        let request = RawRequest {
            method: Method::POST,
            path_and_query: POD.object_path(Some(&pod.namespace), &pod.name, Some("binding")),
            headers: vec![(header::CONTENT_TYPE, json)],
            body: Bytes::from(body.to_string()),
            deadline: None,
        };
        let answer = self.client.raw(request).await?;
        let status = answer.status;
        if status.is_success() {
            self.bound(pod).await;
            return Ok(());
        }
        Err(Error::Unavailable {
            what: format!("bind {pod}"),
            code: Some(status.as_u16()),
            unsent: false,
            message: format!("answers {status}"),
        })
    }

    /// Waits until the cache shows the binding, or a while.
    async fn bound(&self, pod: &ObjectKey) {
        let shown = async {
            loop {
                let live = self.stores.pods.get(pod).ok().flatten();
                if live.is_none_or(|live| !live.node().is_empty()) {
                    return;
                }
                self.bells.scheduler.notified().await;
            }
        };
        let _ = timeout(RETRY, shown).await;
        self.bells.scheduler.notify_one();
    }

    async fn delete_volume(&self, name: &str, uid: &str) -> Result<(), Error> {
        let options = DeleteOptions {
            uid: Some(uid.to_owned()),
            ..DeleteOptions::default()
        };
        match self
            .client
            .delete(PERSISTENT_VOLUME, None, name, &options)
            .await
        {
            Err(error) if !is_stale(&error) => Err(error),
            _ => {
                let key = ObjectKey::new("", name);
                self.stores.volumes.expect_deleted(&key, uid);
                self.stores.volumes.caught_up(&key).await;
                Ok(())
            }
        }
    }

    async fn create(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        body: &Value,
    ) -> Result<Written, Error> {
        self.client.create(resource, namespace, body).await
    }

    async fn replace(
        &self,
        resource: Resource,
        key: &ObjectKey,
        body: &Value,
    ) -> Result<Written, Error> {
        let namespace = Some(&*key.namespace);
        self.client
            .replace(resource, namespace, &key.name, None, body)
            .await
    }

    async fn patch_in(
        &self,
        resource: Resource,
        key: &ObjectKey,
        subresource: Option<&str>,
        patch: &Value,
    ) -> Result<Written, Error> {
        let namespace = Some(&*key.namespace);
        self.patch(
            resource,
            namespace,
            &key.name,
            subresource,
            Patch::Merge(patch),
        )
        .await
    }

    async fn patch(
        &self,
        resource: Resource,
        namespace: Option<&str>,
        name: &str,
        subresource: Option<&str>,
        patch: Patch<'_>,
    ) -> Result<Written, Error> {
        self.client
            .patch(resource, namespace, name, subresource, patch)
            .await
    }

    fn tell(
        &self,
        pod: &ObjectKey,
        uid: &str,
        kind: EventType,
        reason: &'static str,
        note: String,
    ) {
        let about = ObjectRef {
            resource: POD,
            namespace: pod.namespace.to_string(),
            name: pod.name.to_string(),
            uid: uid.to_owned(),
        };
        self.events
            .publish(&about, kind, reason, "Scheduling", note);
    }
}

/// Waits until the cache shows the write, so that the next pass does not repeat it. A write that was
/// decided on an old state is decided again once the cache shows the new one.
async fn settle<K: Kind>(store: &Store<K>, written: Result<Written, Error>) -> Result<(), Error> {
    match written {
        Ok(Written { metadata }) => {
            let key = metadata.key();
            store.expect(&key, &metadata.uid, &metadata.resource_version);
            store.caught_up(&key).await;
            Ok(())
        }
        Err(error) if is_stale(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

fn is_stale(error: &Error) -> bool {
    error.is_conflict() || error.is_not_found() || matches!(error, Error::AlreadyExists { .. })
}
