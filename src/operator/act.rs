//! Carries out a plan.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use serde_json::json;

use super::children::Children;
use super::instances::{CommandFailure, Instances};
use super::kinds::Cluster;
use super::observe::Observed;
use super::plan::Plan;
use super::resources::{self, ROLE_LABEL};
use super::stores::Stores;
use crate::api::{MYSQL_CLUSTER, PROMOTE_ANNOTATION};
use crate::client::{self, Client, DeleteOptions, Patch};
use crate::instance::Command;
use crate::runtime::{Kind as _, Meta, ObjectKey, ReconcileError};

/// Writes to the API server and commands instances.
pub(super) struct Actor {
    client: Client,
    stores: Stores,
    instances: Arc<Instances>,
    children: Arc<Children>,
    /// Clusters whose record was to be written, and perhaps was: which one is in force is not known.
    doubted: Mutex<HashSet<ObjectKey>>,
}

/// What came of a plan.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// Something changed, so another look is due at once.
    pub(super) progressed: bool,
    /// The API server refused a child: a person must mend the spec.
    pub(super) problem: Option<String>,
    /// Hash of the application account that the database now has.
    pub(super) app_account: Option<String>,
    /// The cluster's metadata, where it was changed.
    pub(super) cluster: Option<Meta>,
    /// Why the instance refused what it was asked last.
    pub(super) refusal: Option<String>,
    /// Highest term by which a command was refused as stale; 0 for none.
    pub(super) stale_term: u64,
}

impl Done {
    fn add(&mut self, other: &Self) {
        self.progressed |= other.progressed;
        self.stale_term = self.stale_term.max(other.stale_term);
    }
}

/// What a patch answers, as far as it is read.
#[derive(serde::Deserialize)]
struct Patched {
    metadata: Meta,
}

impl Actor {
    /// With the fenced client.
    #[must_use]
    pub(super) fn new(
        client: Client,
        stores: Stores,
        instances: Arc<Instances>,
        children: Arc<Children>,
    ) -> Self {
        Self {
            client,
            stores,
            instances,
            children,
            doubted: Mutex::default(),
        }
    }

    /// The cluster with the record that is in force; `None` where it is gone. Commands to instances rest
    /// on the record, and no precondition of the API server's guards those: so it is the cache's only
    /// where that holds our own last write. (That nobody else wrote it since, its term says.)
    pub(super) async fn newest(&self, key: &ObjectKey) -> Result<Option<Cluster>, ReconcileError> {
        let seen = self.stores.clusters.caught_up(key).await;
        if seen && !self.doubted().contains(key) {
            let cached = self.stores.clusters.get(key)?;
            return Ok(cached.map(|cluster| Cluster::clone(&cluster)));
        }
        let read = self
            .client
            .get::<Cluster>(MYSQL_CLUSTER, Some(&key.namespace), &key.name)
            .await;
        let cluster = match read {
            Ok(cluster) => Some(cluster),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(now) = cluster.as_ref().map(Cluster::meta) {
            let clusters = &self.stores.clusters;
            clusters.expect(key, &now.uid, &now.resource_version);
        }
        self.doubted().remove(key);
        Ok(cluster)
    }

    fn doubted(&self) -> MutexGuard<'_, HashSet<ObjectKey>> {
        // The set is whole after each operation, whoever panicked.
        self.doubted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the plan's status, provided nobody changed the object since it was read.
    pub(super) async fn write_status(
        &self,
        cluster: &Cluster,
        plan: &Plan,
    ) -> Result<Cluster, ReconcileError> {
        let meta = &cluster.metadata;
        let body = json!({
            "apiVersion": MYSQL_CLUSTER.api_version(),
            "kind": MYSQL_CLUSTER.kind,
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "resourceVersion": meta.resource_version,
            },
            "status": plan.status,
        });
        let patch = Patch::Apply {
            body: &body,
            force: true,
        };
        self.doubted().insert(meta.key());
        let written: Cluster = self
            .client
            .patch(
                MYSQL_CLUSTER,
                Some(&meta.namespace),
                &meta.name,
                Some("status"),
                patch,
            )
            .await?;
        let now = written.meta();
        self.stores
            .clusters
            .expect(&meta.key(), &now.uid, &now.resource_version);
        self.doubted().remove(&meta.key());
        Ok(written)
    }

    /// Everything of a plan but its status. Old roles go first. Then instances are commanded side
    /// by side, and beside that new roles come and the primary is opened, in this order.
    pub(super) async fn carry_out(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        plan: &Plan,
        term: u64,
    ) -> Result<Done, ReconcileError> {
        let mut done = Done::default();
        let old = plan.labels.iter().filter(|(_, role)| role.is_none());
        for (ordinal, _) in old {
            done.progressed |= self.label(observed, *ordinal, None).await?;
        }
        // A replica that is slow to obey must not keep the primary closed.
        let (obeyed, opened) = tokio::join!(
            self.command_all(cluster, &plan.commands, term),
            self.open(cluster, observed, plan, term),
        );
        done.add(&obeyed);
        done.add(&opened?);
        if let Some((primary, account)) = &plan.ensure_app {
            let command = Command::EnsureApp(account.clone());
            let ensured = self
                .command_all(cluster, &[(*primary, command)], term)
                .await;
            if ensured.progressed {
                done.app_account = Some(account.hash.clone());
                done.progressed = true;
            }
            done.refusal = ensured.refusal;
        }
        self.pods_and_volumes(cluster, observed, plan, &mut done)
            .await?;
        if plan.clear_promote {
            done.cluster = Some(self.clear_promote(cluster).await?);
        }
        Ok(done)
    }

    /// New roles, then the primary.
    async fn open(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        plan: &Plan,
        term: u64,
    ) -> Result<Done, ReconcileError> {
        let mut done = Done::default();
        let new = plan.labels.iter().filter(|(_, role)| role.is_some());
        for (ordinal, role) in new {
            done.progressed |= self.label(observed, *ordinal, *role).await?;
        }
        if let Some(primary) = plan.open {
            let open = [(primary, Command::Open)];
            done.add(&self.command_all(cluster, &open, term).await);
        }
        Ok(done)
    }

    async fn pods_and_volumes(
        &self,
        cluster: &Cluster,
        observed: &Observed,
        plan: &Plan,
        done: &mut Done,
    ) -> Result<(), ReconcileError> {
        let namespace = Some(cluster.metadata.namespace.as_str());
        for ordinal in &plan.delete_volumes {
            if let Some(volume) = observed.volumes.get(ordinal) {
                let meta = &volume.metadata;
                self.delete(client::PERSISTENT_VOLUME_CLAIM, namespace, meta)
                    .await?;
                self.stores.volumes.expect_deleted(&meta.key(), &meta.uid);
            }
        }
        for ordinal in &plan.apply_volumes {
            let claim = self.children.volume_claim(cluster, *ordinal);
            // One that is refused (a quota) keeps no other instance from what it needs.
            if let Some(problem) = self.children.apply(&claim).await? {
                done.problem = Some(problem);
                continue;
            }
            self.stores
                .volumes
                .caught_up(&ObjectKey::new(&claim.namespace, &claim.name))
                .await;
            done.progressed = true;
        }
        for ordinal in &plan.delete_pods {
            if let Some(pod) = observed.pods.get(ordinal) {
                self.delete(client::POD, namespace, &pod.metadata).await?;
                // Gracefully: what is seen next is its deletionTimestamp, in the watch's own time.
            }
        }
        for ordinal in &plan.create_pods {
            let pod = match self.children.pod(cluster, *ordinal) {
                Ok(pod) => pod,
                Err(invalid) => {
                    done.problem = Some(invalid.to_string());
                    continue;
                }
            };
            if let Some(problem) = self.children.apply(&pod).await? {
                done.problem = Some(problem);
                continue;
            }
            self.stores
                .pods
                .caught_up(&ObjectKey::new(&pod.namespace, &pod.name))
                .await;
            done.progressed = true;
        }
        Ok(())
    }

    /// Deletes that incarnation of an object; that it is gone already is as good.
    async fn delete(
        &self,
        resource: client::Resource,
        namespace: Option<&str>,
        meta: &Meta,
    ) -> Result<(), ReconcileError> {
        let options = DeleteOptions {
            uid: Some(meta.uid.to_string()),
            ..DeleteOptions::default()
        };
        match self
            .client
            .delete(resource, namespace, &meta.name, &options)
            .await
        {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error.into()),
            _ => Ok(()),
        }
    }

    async fn command_all(&self, cluster: &Cluster, commands: &[(u32, Command)], term: u64) -> Done {
        let mut done = Done::default();
        let meta = &cluster.metadata;
        let key = &meta.key();
        let given = commands.iter().map(|(ordinal, command)| async move {
            let name = resources::instance_name(&meta.name, *ordinal);
            let outcome = self.instances.command(key, &name, command, term).await;
            (ObjectKey::new(&meta.namespace, &name), command, outcome)
        });
        for (pod, command, outcome) in join_all(given).await {
            match outcome {
                Ok(()) => {
                    tracing::debug!(%pod, ?command, "obeyed");
                    done.progressed = true;
                }
                Err(CommandFailure::StaleTerm { term: theirs }) => {
                    tracing::warn!(%pod, theirs, ours = term, "the instance obeyed a higher term");
                    done.stale_term = done.stale_term.max(theirs);
                }
                Err(error) => {
                    tracing::debug!(%pod, ?command, %error, "command not carried out");
                    done.refusal = Some(format!("{}: {error}", pod.name));
                }
            }
        }
        done
    }

    async fn label(
        &self,
        observed: &Observed,
        ordinal: u32,
        role: Option<&str>,
    ) -> Result<bool, ReconcileError> {
        let Some(pod) = observed.pods.get(&ordinal) else {
            return Ok(false);
        };
        let meta = &pod.metadata;
        // The UID makes sure that a successor of the same name is not meant.
        let body = json!({"metadata": {"uid": meta.uid, "labels": {ROLE_LABEL: role}}});
        let patched: Result<Patched, _> = self
            .client
            .patch(
                client::POD,
                Some(&meta.namespace),
                &meta.name,
                None,
                Patch::Merge(&body),
            )
            .await;
        match patched {
            Ok(patched) => {
                let key = meta.key();
                let now = &patched.metadata;
                self.stores
                    .pods
                    .expect(&key, &now.uid, &now.resource_version);
                self.stores.pods.caught_up(&key).await;
                Ok(true)
            }
            Err(error) if error.is_not_found() || error.is_conflict() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the request for a handover away. Returns what the metadata is then.
    pub(super) async fn clear_promote(&self, cluster: &Cluster) -> Result<Meta, ReconcileError> {
        let meta = &cluster.metadata;
        let body = json!({"metadata": {"annotations": {PROMOTE_ANNOTATION: null}}});
        let patched: Patched = self
            .client
            .patch(
                MYSQL_CLUSTER,
                Some(&meta.namespace),
                &meta.name,
                None,
                Patch::Merge(&body),
            )
            .await?;
        let now = &patched.metadata;
        self.stores
            .clusters
            .expect(&meta.key(), &now.uid, &now.resource_version);
        Ok(patched.metadata)
    }
}
