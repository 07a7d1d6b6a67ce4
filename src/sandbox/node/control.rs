//! The loops that keep Nodes, bindings, volumes and endpoints: look, decide, write, look again.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderValue, Method, header};
use serde_json::json;
use tokio::time::timeout;

use super::kubelet::Kubelet;
use super::runtime::ContainerRuntime;
use super::stores::{Bells, Stores, all, refs};
use super::writer::Writer;
use super::{endpoints, nodes, scheduling, volumes};
use crate::client::{Error, POD, Patch, RawRequest};
use crate::runtime::{EventRecorder, EventType, Kind as _, ObjectKey, ObjectRef};

/// Without anything that changes, a pass is made after this time: nodes are lost by time alone.
const LOOK: Duration = Duration::from_secs(10);
const STATUS: Option<&str> = Some("status");
/// After a write that failed, a pass is made at the latest after this time.
const RETRY: Duration = Duration::from_secs(1);

/// The control loops.
pub(super) struct Control {
    pub(super) writer: Writer,
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
                Ok(()) => {
                    let _ = timeout(LOOK, bell.notified()).await;
                }
                Err(error) => {
                    tracing::debug!(control = ?which, %error, "a write failed");
                    let _ = timeout(RETRY, bell.notified()).await;
                }
            }
        }
    }

    async fn nodes(&self) -> Result<(), Error> {
        let Stores { nodes, classes, .. } = &self.stores;
        if all(classes).is_empty() {
            self.writer
                .create(classes, "", &volumes::standard_class())
                .await?;
        }
        for node in self.kubelet.nodes() {
            let key = ObjectKey::new("", &nodes::name(node.index));
            let live = nodes.get(&key).ok().flatten();
            let now = self.writer.client.environment().now();
            let (address, up) = (node.address.to_string(), node.lost.is_none());
            match nodes::decide(node.index, &address, up, live.as_deref(), now) {
                None => {}
                Some(nodes::Write::Create(body)) => {
                    self.writer.create(nodes, "", &body).await?;
                    // Its status is to come.
                    self.bells.nodes.notify_one();
                }
                Some(nodes::Write::Status(patch)) => {
                    let patch = Patch::Strategic(&patch);
                    self.writer.patch(nodes, &key, STATUS, patch).await?;
                }
            }
            if let Some(lost) = node.lost {
                self.lost_node(&key.name, lost.elapsed()).await?;
            }
        }
        Ok(())
    }

    async fn lost_node(&self, name: &str, lost: Duration) -> Result<(), Error> {
        let pods = &self.stores.pods;
        let now = self.writer.client.environment().now();
        for pod in all(pods).iter().filter(|pod| pod.node() == name) {
            let key = pod.meta().key();
            match nodes::on_lost_node(pod, lost, now) {
                None => {}
                Some(nodes::Lost::NotReady(patch)) => {
                    let patch = Patch::Strategic(&patch);
                    self.writer.patch(pods, &key, STATUS, patch).await?;
                }
                Some(nodes::Lost::Evict) => {
                    let uid = &pod.meta().uid;
                    self.writer.delete(pods, &key, uid).await?;
                }
            }
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
        let Stores { pods, claims, .. } = &self.stores;
        let now = format!("{:.0}", self.writer.client.environment().now());
        for write in scheduling::decide(&world, &now) {
            match write {
                scheduling::Write::Bind { pod, uid, node } => {
                    self.bind(&pod, &uid, &node).await?;
                    let note = format!("Successfully assigned {pod} to {node}");
                    self.tell(&pod, &uid, EventType::Normal, "Scheduled", note);
                }
                scheduling::Write::SelectNode(key, patch) => {
                    self.writer
                        .patch(claims, &key, None, Patch::Merge(&patch))
                        .await?;
                }
                scheduling::Write::Unschedulable {
                    pod,
                    uid,
                    patch,
                    why,
                } => {
                    let patch = Patch::Strategic(&patch);
                    self.writer.patch(pods, &pod, STATUS, patch).await?;
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
        let Stores {
            claims, volumes, ..
        } = &self.stores;
        let writer = &self.writer;
        let volume = |name: &str| ObjectKey::new("", name);
        for write in volumes::decide(&world) {
            match write {
                volumes::Write::Create(body) => writer.create(volumes, "", &body).await?,
                volumes::Write::Claim(key, patch) => {
                    writer
                        .patch(claims, &key, None, Patch::Merge(&patch))
                        .await?;
                }
                volumes::Write::ClaimStatus(key, patch) => {
                    writer
                        .patch(claims, &key, STATUS, Patch::Merge(&patch))
                        .await?;
                }
                volumes::Write::Volume(name, patch) => {
                    let patch = Patch::Merge(&patch);
                    writer.patch(volumes, &volume(&name), None, patch).await?;
                }
                volumes::Write::VolumeStatus(name, patch) => {
                    let patch = Patch::Merge(&patch);
                    writer.patch(volumes, &volume(&name), STATUS, patch).await?;
                }
                volumes::Write::Delete(name, uid) => {
                    writer.delete(volumes, &volume(&name), &uid).await?;
                }
                volumes::Write::Reclaim(name, patch) => {
                    if let Err(error) = self.runtime.reclaim(&name).await {
                        tracing::warn!(volume = name, error, "the data can't be deleted");
                        continue;
                    }
                    let patch = Patch::Merge(&patch);
                    writer.patch(volumes, &volume(&name), None, patch).await?;
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
        let Stores {
            slices, endpoints, ..
        } = &self.stores;
        let writer = &self.writer;
        for write in endpoints::decide(&world) {
            match write {
                endpoints::Write::CreateSlice(key, body) => {
                    writer.create(slices, &key.namespace, &body).await?;
                }
                endpoints::Write::ReplaceSlice(key, body) => {
                    writer.replace(slices, &key, &body).await?;
                }
                endpoints::Write::Create(key, body) => {
                    writer.create(endpoints, &key.namespace, &body).await?;
                }
                endpoints::Write::Replace(key, body) => {
                    writer.replace(endpoints, &key, &body).await?;
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
        let answer = self.writer.client.raw(request).await?;
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
