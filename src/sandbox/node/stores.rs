//! What the node knows of the API server's objects.

use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::kinds::{
    Claim, ConfigMap, EndpointSlice, Endpoints, Node, Pod, Secret, Service, StorageClass, Volume,
};
use super::kubelet::config::Lookup;
use crate::client::Client;
use crate::runtime::{Change, Kind, ListWatch, ObjectKey, Scope, Shutdown, Store};

/// One cache a kind. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Stores {
    pub(super) pods: Store<Pod>,
    pub(super) nodes: Store<Node>,
    pub(super) claims: Store<Claim>,
    pub(super) volumes: Store<Volume>,
    pub(super) classes: Store<StorageClass>,
    pub(super) secrets: Store<Secret>,
    pub(super) config_maps: Store<ConfigMap>,
    pub(super) services: Store<Service>,
    pub(super) slices: Store<EndpointSlice>,
    pub(super) endpoints: Store<Endpoints>,
}

/// Who is woken by what changes.
#[derive(Clone, Default)]
pub(super) struct Bells {
    pub(super) nodes: Arc<Notify>,
    pub(super) scheduler: Arc<Notify>,
    pub(super) volumes: Arc<Notify>,
    pub(super) endpoints: Arc<Notify>,
    /// For Secrets, ConfigMaps and claims that pods use.
    pub(super) config: Arc<Notify>,
}

impl Stores {
    /// Starts the list-watch loops. `on_pod` is told each change of a pod.
    pub(super) fn watch(
        &self,
        client: &Client,
        bells: &Bells,
        on_pod: impl Fn(&Change<Pod>) + Send + Sync + 'static,
        stop: &Shutdown,
    ) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        let Bells {
            nodes,
            scheduler,
            volumes,
            endpoints,
            config,
        } = bells;
        let pod_bells = [scheduler, volumes, endpoints].map(Arc::clone);
        let pods = ListWatch::new(
            client.clone(),
            Scope::default(),
            self.pods.clone(),
            move |change| {
                on_pod(&change);
                ring(&pod_bells);
            },
        );
        tasks.spawn(pods.run(stop.clone()));
        let mut watch = Watch {
            client,
            tasks: &mut tasks,
            stop,
        };
        watch.kind(&self.nodes, &[nodes, scheduler]);
        watch.kind(&self.claims, &[scheduler, volumes, config]);
        watch.kind(&self.volumes, &[volumes]);
        watch.kind(&self.classes, &[nodes, scheduler, volumes]);
        watch.kind(&self.secrets, &[config]);
        watch.kind(&self.config_maps, &[config]);
        watch.kind(&self.services, &[endpoints]);
        watch.kind(&self.slices, &[endpoints]);
        watch.kind(&self.endpoints, &[endpoints]);
        tasks
    }

    /// Waits for the first list of everything.
    pub(super) async fn synced(&self) {
        self.pods.synced().await;
        self.nodes.synced().await;
        self.claims.synced().await;
        self.volumes.synced().await;
        self.classes.synced().await;
        self.secrets.synced().await;
        self.config_maps.synced().await;
        self.services.synced().await;
        self.slices.synced().await;
        self.endpoints.synced().await;
    }
}

struct Watch<'a> {
    client: &'a Client,
    tasks: &'a mut JoinSet<()>,
    stop: &'a Shutdown,
}

impl Watch<'_> {
    fn kind<K: Kind>(&mut self, store: &Store<K>, bells: &[&Arc<Notify>]) {
        let bells: Vec<_> = bells.iter().copied().map(Arc::clone).collect();
        let watch = ListWatch::new(
            self.client.clone(),
            Scope::default(),
            store.clone(),
            move |_| ring(&bells),
        );
        self.tasks.spawn(watch.run(self.stop.clone()));
    }
}

fn ring(bells: &[Arc<Notify>]) {
    for bell in bells {
        bell.notify_one();
    }
}

/// All objects of a kind; none before the first list, which everyone waits for.
pub(super) fn all<K: Kind>(store: &Store<K>) -> Vec<Arc<K>> {
    store.list().unwrap_or_default().into_iter().collect()
}

/// The same, borrowed.
pub(super) fn refs<K>(objects: &[Arc<K>]) -> Vec<&K> {
    objects.iter().map(AsRef::as_ref).collect()
}

impl Lookup for Stores {
    fn secret(&self, namespace: &str, name: &str) -> Option<Arc<Secret>> {
        find(&self.secrets, namespace, name)
    }

    fn config_map(&self, namespace: &str, name: &str) -> Option<Arc<ConfigMap>> {
        find(&self.config_maps, namespace, name)
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<Arc<Claim>> {
        find(&self.claims, namespace, name)
    }
}

fn find<K: Kind>(store: &Store<K>, namespace: &str, name: &str) -> Option<Arc<K>> {
    store.get(&ObjectKey::new(namespace, name)).ok().flatten()
}
