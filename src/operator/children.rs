//! Brings the children that need no database to what the spec says, writing only what differs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::kinds::{Cluster, Secret, Whole};
use super::resources::{
    self, Child, Context, InvalidSpec, TEMPLATE_HASH_ANNOTATION, plain_children,
};
use super::stores::Stores;
use crate::client::{self, Client, Error, Patch};
use crate::runtime::{Meta, NotSynced, ObjectKey, ReconcileError, Store};

/// Secrets of a cluster, by the end of their names.
const SECRETS: [&str; 5] = ["app", "root", "internal", "ca", "tls"];
/// End of the name of the Secret that is the operator's and the instances' own.
const INTERNAL: &str = "-internal";

/// Writes children.
pub(super) struct Children {
    client: Client,
    stores: Stores,
    operator_image: String,
    /// Secrets as they were last seen, by cluster, until it is deleted: servers run with these
    /// passwords, so one that a person deletes is put back as it was.
    remembered: Mutex<HashMap<ObjectKey, BTreeMap<String, Arc<Secret>>>>,
}

/// What an apply answers, as far as it is read.
#[derive(serde::Deserialize)]
struct Applied {
    metadata: Meta,
}

impl Children {
    /// With the fenced client.
    #[must_use]
    pub(super) fn new(client: Client, stores: Stores, operator_image: String) -> Self {
        Self {
            client,
            stores,
            operator_image,
            remembered: Mutex::default(),
        }
    }

    /// The cluster is gone: who creates one of its name anew may begin with new passwords.
    pub(super) fn forget(&self, cluster: &ObjectKey) {
        self.remembered().remove(cluster);
    }

    fn remembered(&self) -> MutexGuard<'_, HashMap<ObjectKey, BTreeMap<String, Arc<Secret>>>> {
        // The map is whole after each operation, whoever panicked.
        self.remembered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn context<'a>(&'a self, cluster: &'a Cluster) -> Context<'a> {
        Context {
            cluster,
            operator_image: &self.operator_image,
        }
    }

    /// Template hash of each wanted pod.
    pub(super) fn templates(
        &self,
        cluster: &Cluster,
    ) -> Result<BTreeMap<u32, String>, InvalidSpec> {
        (0..cluster.spec.instances)
            .map(|ordinal| {
                let pod = resources::pod(&self.context(cluster), ordinal)?;
                let hash = pod.body["metadata"]["annotations"][TEMPLATE_HASH_ANNOTATION]
                    .as_str()
                    .unwrap_or_default();
                Ok((ordinal, hash.to_owned()))
            })
            .collect()
    }

    /// Secrets, Services, ConfigMap and PodDisruptionBudget are as they should be. The answer is
    /// what a person must mend: an impossible spec, or the API server's refusal.
    pub(super) async fn ensure(&self, cluster: &Cluster) -> Result<Option<String>, ReconcileError> {
        let existing = self.secrets(cluster).await?;
        // One that is refused keeps the others from nothing.
        let mut problem = None;
        for secret in
            resources::secrets(&self.context(cluster), &existing, self.client.environment())
        {
            problem = self.apply(&secret).await?.or(problem);
        }
        let children = match plain_children(&self.context(cluster)) {
            Ok(children) => children,
            Err(invalid) => return Ok(Some(invalid.to_string())),
        };
        for child in children {
            if self.is_right(&child)? {
                continue;
            }
            problem = self.apply(&child).await?.or(problem);
        }
        Ok(problem)
    }

    /// The claim of an instance, as it is to be.
    pub(super) fn volume_claim(&self, cluster: &Cluster, ordinal: u32) -> Child {
        resources::volume_claim(&self.context(cluster), ordinal)
    }

    /// The pod of an instance, as it is to be created.
    pub(super) fn pod(&self, cluster: &Cluster, ordinal: u32) -> Result<Child, InvalidSpec> {
        resources::pod(&self.context(cluster), ordinal)
    }

    /// Those that exist. One that the cache does not hold is asked for: a person may have made it
    /// without our labels, and its content must not be overwritten.
    async fn secrets(
        &self,
        cluster: &Cluster,
    ) -> Result<BTreeMap<String, Arc<Secret>>, ReconcileError> {
        let meta = &cluster.metadata;
        let mut existing = BTreeMap::new();
        for suffix in SECRETS {
            let name = format!("{}-{suffix}", meta.name);
            let cached = self
                .stores
                .secrets
                .get(&ObjectKey::new(&meta.namespace, &name))?;
            let secret = match cached {
                Some(secret) => Some(secret),
                None => match self
                    .client
                    .get::<Secret>(client::SECRET, Some(&meta.namespace), &name)
                    .await
                {
                    Ok(secret) => Some(Arc::new(secret)),
                    Err(error) if error.is_not_found() => None,
                    Err(error) => return Err(error.into()),
                },
            };
            if let Some(secret) = secret {
                existing.insert(name, secret);
            }
        }
        let mut remembered = self.remembered();
        let before = remembered.entry(meta.key()).or_default();
        for (name, known) in before.iter() {
            let lost = existing.get(name).is_none_or(|now| {
                // Nobody but us has a say in these.
                name.ends_with(INTERNAL) && now.data != known.data
            });
            if lost {
                // Without its labels it counts as incomplete, and is written with this content.
                let content = Secret {
                    metadata: Meta::default(),
                    data: known.data.clone(),
                };
                existing.insert(name.clone(), Arc::new(content));
            }
        }
        before.clone_from(&existing);
        Ok(existing)
    }

    fn is_right(&self, child: &Child) -> Result<bool, NotSynced> {
        fn same<K: Whole>(
            store: &Store<K>,
            key: &ObjectKey,
            body: &Value,
        ) -> Result<bool, NotSynced> {
            Ok(store
                .get(key)?
                .is_some_and(|live| !resources::differs(body, live.meta(), live.body())))
        }
        let key = ObjectKey::new(&child.namespace, &child.name);
        match child.resource {
            client::SERVICE => same(&self.stores.services, &key, &child.body),
            client::CONFIG_MAP => same(&self.stores.config_maps, &key, &child.body),
            client::POD_DISRUPTION_BUDGET => same(&self.stores.budgets, &key, &child.body),
            _ => Ok(false),
        }
    }

    /// Server-side apply. The inner answer is a refusal that a person must mend.
    pub(super) async fn apply(&self, child: &Child) -> Result<Option<String>, ReconcileError> {
        let patch = Patch::Apply {
            body: &child.body,
            force: true,
        };
        let applied: Applied = match self
            .client
            .patch(
                child.resource,
                Some(&child.namespace),
                &child.name,
                None,
                patch,
            )
            .await
        {
            Ok(applied) => applied,
            Err(error @ (Error::Invalid { .. } | Error::Forbidden { .. })) => {
                return Ok(Some(format!(
                    "{} {}: {error}",
                    child.resource.kind, child.name
                )));
            }
            Err(error) => return Err(error.into()),
        };
        let key = ObjectKey::new(&child.namespace, &child.name);
        let (uid, version) = (&applied.metadata.uid, &applied.metadata.resource_version);
        match child.resource {
            client::SERVICE => self.stores.services.expect(&key, uid, version),
            client::CONFIG_MAP => self.stores.config_maps.expect(&key, uid, version),
            client::POD_DISRUPTION_BUDGET => self.stores.budgets.expect(&key, uid, version),
            client::SECRET => {
                self.stores.secrets.expect(&key, uid, version);
                self.stores.secrets.caught_up(&key).await;
            }
            client::PERSISTENT_VOLUME_CLAIM => self.stores.volumes.expect(&key, uid, version),
            client::POD => self.stores.pods.expect(&key, uid, version),
            _ => {}
        }
        tracing::debug!(kind = child.resource.kind, %key, "applied");
        Ok(None)
    }
}
