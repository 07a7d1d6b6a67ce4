//! The imperative shell: reads what is known, asks for a plan, carries it out, looks again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::act::Actor;
use super::children::Children;
use super::instances::{Address, Instances};
use super::kinds::{Cluster, Pod, Secret, VolumeClaim};
use super::notes::Notes;
use super::observe::{Now, Observed};
use super::plan::{self, Note, Plan, plan};
use super::resources::{self, CLUSTER_LABEL};
use super::stores::Stores;
use crate::client::Environment;
use crate::instance::AppAccount;
use crate::runtime::{
    EventType, Leadership, LeadershipWatch, Meta, NotSynced, ObjectKey, Outcome, Pairs,
    ReconcileError, Reconciler,
};

/// Steps of one reconcile before it yields its worker: a failover takes about six.
const MAX_STEPS: usize = 20;
/// A child that the API server refuses is tried again after this, unless something changes before.
const PROBLEM_RETRY: Duration = Duration::from_secs(30);

/// Keeps MySQLClusters as their specs say.
pub(super) struct ClusterReconciler {
    stores: Stores,
    instances: Arc<Instances>,
    children: Children,
    actor: Actor,
    notes: Notes,
    leadership: LeadershipWatch,
    environment: Environment,
}

impl ClusterReconciler {
    /// Of its parts.
    #[must_use]
    pub(super) fn new(
        stores: Stores,
        instances: Arc<Instances>,
        children: Children,
        actor: Actor,
        notes: Notes,
        leadership: LeadershipWatch,
        environment: Environment,
    ) -> Self {
        Self {
            stores,
            instances,
            children,
            actor,
            notes,
            leadership,
            environment,
        }
    }

    /// What is known of `cluster` at this moment.
    fn observe(&self, cluster: &Cluster) -> Result<Observed, NotSynced> {
        let meta = &cluster.metadata;
        let key = meta.key();
        let ours = |labels: &Pairs| labels.get(CLUSTER_LABEL) == Some(meta.name.as_str());
        let pods: BTreeMap<u32, Arc<Pod>> = self
            .stores
            .pods
            .in_namespace(&meta.namespace)?
            .into_iter()
            .filter(|pod| ours(&pod.metadata.labels))
            .filter_map(|pod| Some((resources::ordinal(&meta.name, &pod.metadata.name)?, pod)))
            .collect();
        let volumes: BTreeMap<u32, Arc<VolumeClaim>> = self
            .stores
            .volumes
            .in_namespace(&meta.namespace)?
            .into_iter()
            .filter(|volume| ours(&volume.metadata.labels))
            .filter_map(|volume| {
                let instance = volume.metadata.labels.get(resources::INSTANCE_LABEL)?;
                Some((resources::ordinal(&meta.name, instance)?, volume))
            })
            .collect();
        let claims = volumes
            .iter()
            .map(|(ordinal, live)| {
                let wanted = self.children.volume_claim(cluster, *ordinal);
                (*ordinal, resources::claim_change(&wanted, live))
            })
            .collect();
        let secret = |suffix: &str| {
            let name = format!("{}-{suffix}", meta.name);
            self.stores
                .secrets
                .get(&ObjectKey::new(&meta.namespace, &name))
        };
        let (internal, tls) = (secret("internal")?, secret("tls")?);
        if let (Some(internal), Some(tls)) = (&internal, &tls) {
            self.instances
                .track(&key, addresses(cluster, &pods, internal, tls));
        }
        let app = secret("app")?.and_then(|secret| app_account(&secret));
        let by_name = self
            .instances
            .sights(&key, cluster.status.current_primary.as_deref());
        let sights = by_name
            .into_iter()
            .filter_map(|(name, sight)| Some((resources::ordinal(&meta.name, &name)?, sight)))
            .collect();
        Ok(Observed {
            pods,
            volumes,
            claims,
            sights,
            app,
            templates: BTreeMap::new(),
        })
    }

    /// The cluster and our term, if there is anything to do for it.
    async fn begin(&self, key: &ObjectKey) -> Result<Option<(Cluster, u64)>, ReconcileError> {
        let Some(cluster) = self.actor.newest(key).await? else {
            // Its children have it as owner: the API server's garbage collector removes them. What
            // must outlive it (volumes, accounts) has no owner.
            self.instances.forget(key);
            self.children.forget(key);
            self.notes.forget(key);
            return Ok(None);
        };
        if cluster.metadata.is_terminating() {
            return Ok(None);
        }
        let Leadership::Leader { term } = self.leadership.current() else {
            return Ok(None); // every key is queued again on taking the lead
        };
        if cluster.status.term > term {
            self.leadership.raise_term(cluster.status.term + 1);
            return Err(ReconcileError::Conflict(format!(
                "the status was written under term {}, ours is {term}",
                cluster.status.term
            )));
        }
        Ok(Some((cluster, term)))
    }

    async fn run(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some((mut cluster, term)) = self.begin(key).await? else {
            return Ok(Outcome::Done);
        };
        let mut problem = None;
        let mut templates = BTreeMap::new();
        if !cluster.spec.paused {
            problem = self.children.ensure(&cluster).await?;
            // A child that is refused (a quota, a policy) does not make the spec one that no pod can
            // be made of.
            match self.children.templates(&cluster) {
                Ok(hashes) => templates = hashes,
                Err(error) => problem = Some(error.to_string()),
            }
        }
        let mut outcome = Outcome::Done;
        for _ in 0..MAX_STEPS {
            let now = self.now();
            let mut observed = self.observe(&cluster)?;
            observed.templates.clone_from(&templates);
            let step = plan(&cluster, &observed, problem.as_deref(), term, now);
            // API writes are fenced; commands do not all go through the API server.
            if self.leadership.current() != (Leadership::Leader { term }) {
                return Ok(Outcome::Done);
            }
            outcome = step.look_again.map_or(Outcome::Done, Outcome::RequeueAfter);
            let before = cluster.status.clone();
            if step.record_changed {
                // On record before anything is done.
                cluster = self.actor.write_status(&cluster, &step).await?;
                self.notes
                    .publish(&cluster, before.phase, &step, &step.notes);
                if step.clear_promote {
                    let metadata = self.actor.clear_promote(&cluster).await?;
                    update(&mut cluster, metadata)?;
                }
                continue;
            }
            let done = self
                .actor
                .carry_out(&cluster, &observed, &step, term)
                .await?;
            let mut notes = step.notes.clone();
            notes.extend(
                done.refusal
                    .filter(|_| step.ensure_app.is_some())
                    .map(|why| Note {
                        kind: EventType::Warning,
                        reason: "AppAccountRefused",
                        text: format!("the application's account can't be made: {why}"),
                    }),
            );
            self.notes.publish(&cluster, before.phase, &step, &notes);
            if let Some(refused) = done.problem {
                problem = Some(refused);
                templates.clear(); // not again in this run
                outcome = Outcome::RequeueAfter(PROBLEM_RETRY);
                continue;
            }
            if let Some(hash) = done.app_account {
                cluster.status.app_account_hash = Some(hash);
            }
            if let Some(metadata) = done.cluster {
                update(&mut cluster, metadata)?;
            }
            if done.stale_term > term {
                self.leadership.raise_term(done.stale_term + 1);
            }
            let mut status = step.status.clone();
            status
                .app_account_hash
                .clone_from(&cluster.status.app_account_hash);
            if status != before {
                let step = Plan {
                    status,
                    ..Plan::default()
                };
                cluster = self.actor.write_status(&cluster, &step).await?;
            }
            // A command that changed something is followed by another look at once; one that
            // could not be carried out waits for the instance to speak, or a second.
            if !done.progressed {
                break;
            }
        }
        if problem.is_some() {
            outcome = Outcome::RequeueAfter(PROBLEM_RETRY);
        }
        Ok(outcome)
    }

    fn now(&self) -> Now {
        Now {
            instant: Instant::now(),
            wall: self.environment.now(),
        }
    }

    async fn say_stalled(&self, key: &ObjectKey, why: &str) -> Result<(), ReconcileError> {
        let Some((cluster, _)) = self.begin(key).await? else {
            return Ok(());
        };
        let mut status = cluster.status.clone();
        let now = self.now();
        plan::stall(&mut status, cluster.metadata.generation, why, now);
        let plan = Plan {
            status,
            ..Plan::default()
        };
        if plan.status != cluster.status {
            self.actor.write_status(&cluster, &plan).await?;
        }
        let note = Note {
            kind: EventType::Warning,
            reason: "Stalled",
            text: why.to_owned(),
        };
        self.notes
            .publish(&cluster, plan.status.phase, &plan, &[note]);
        Ok(())
    }
}

/// Takes over the metadata that a write of ours answered, provided it is of the spec at hand.
fn update(cluster: &mut Cluster, metadata: Meta) -> Result<(), ReconcileError> {
    if metadata.generation != cluster.metadata.generation {
        return Err(ReconcileError::Conflict("the spec has changed".into()));
    }
    cluster.metadata = metadata;
    Ok(())
}

impl Reconciler for ClusterReconciler {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        self.run(key).await
    }

    async fn stalled(&self, key: &ObjectKey, why: &str) {
        if let Err(error) = self.say_stalled(key, why).await {
            tracing::debug!(%error, "it can't be said on the object that it is stalled");
        }
    }
}

/// Where each pod with an address is to be reached.
fn addresses(
    cluster: &Cluster,
    pods: &BTreeMap<u32, Arc<Pod>>,
    internal: &Secret,
    tls: &Secret,
) -> Vec<Address> {
    let (Some(token), Some(ca)) = (internal.text("token"), tls.data.get("ca.crt")) else {
        return Vec::new();
    };
    let meta = &cluster.metadata;
    pods.values()
        .filter(|pod| !pod.status.pod_ip.is_empty())
        .map(|pod| Address {
            namespace: meta.namespace.to_string(),
            pod: pod.metadata.name.to_string(),
            pod_uid: pod.metadata.uid.to_string(),
            ip: pod.status.pod_ip.to_string(),
            host: resources::host(&meta.name, &meta.namespace, &pod.metadata.name),
            ca: ca.clone(),
            token: token.trim().to_owned(),
        })
        .collect()
}

fn app_account(secret: &Secret) -> Option<AppAccount> {
    use sha2::{Digest as _, Sha256};
    let username = secret.text("username")?.to_owned();
    let password = secret.text("password")?.to_owned();
    let database = secret.text("database")?.to_owned();
    let mut hash = Sha256::new();
    for part in [&username, &password, &database] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let hash = hash
        .finalize()
        .iter()
        .take(8)
        .fold(String::new(), |mut text, byte| {
            use std::fmt::Write as _;
            let _ = write!(text, "{byte:02x}");
            text
        });
    Some(AppAccount {
        username,
        password,
        database,
        hash,
    })
}
