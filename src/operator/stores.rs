//! The caches of the operator.

use super::kinds::{Cluster, ConfigMap, Pod, PodDisruptionBudget, Secret, Service, VolumeClaim};
use crate::runtime::Store;

/// One store a kind. Cheap to clone.
#[derive(Clone)]
pub(super) struct Stores {
    /// MySQLClusters.
    pub(super) clusters: Store<Cluster>,
    /// Pods of ours.
    pub(super) pods: Store<Pod>,
    /// Secrets of ours.
    pub(super) secrets: Store<Secret>,
    /// Services of ours.
    pub(super) services: Store<Service>,
    /// ConfigMaps of ours.
    pub(super) config_maps: Store<ConfigMap>,
    /// PodDisruptionBudgets of ours.
    pub(super) budgets: Store<PodDisruptionBudget>,
    /// PersistentVolumeClaims of ours.
    pub(super) volumes: Store<VolumeClaim>,
}

impl Stores {
    /// Empty stores that are not synced.
    #[must_use]
    pub(super) fn new() -> Self {
        Self {
            clusters: Store::new(),
            pods: Store::new(),
            secrets: Store::new(),
            services: Store::new(),
            config_maps: Store::new(),
            budgets: Store::new(),
            volumes: Store::new(),
        }
    }

    /// Returns once every store holds its first list.
    pub(super) async fn synced(&self) {
        self.clusters.synced().await;
        self.pods.synced().await;
        self.secrets.synced().await;
        self.services.synced().await;
        self.config_maps.synced().await;
        self.budgets.synced().await;
        self.volumes.synced().await;
    }
}

impl Default for Stores {
    fn default() -> Self {
        Self::new()
    }
}
