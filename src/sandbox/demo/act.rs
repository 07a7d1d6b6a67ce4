//! What keys and scripts do to a demo.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::faults::{Fault, Undo};
use super::play::{Acted, Stage};
use super::script::{Action, Pod};
use super::snapshot::{InstanceView, Snapshot};
use super::summary::Copy;
use super::until::Until;
use super::world::World;
use crate::api::{MYSQL_CLUSTER, PROMOTE_ANNOTATION};
use crate::apiserver;
use crate::client::{DeleteOptions, POD, Patch};
use crate::runtime::Meta;

/// What the names of the operator's replicas begin with, as the API server's faults are aimed.
pub(super) const OPERATOR: &str = "mainstay-";

/// The demo, for who acts on it.
#[derive(Clone)]
pub(super) struct Actor(pub(super) Arc<World>);

impl Stage for Actor {
    fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    async fn act(&self, action: &Action) -> Result<Acted, String> {
        let acted = self.carry_out(action).await;
        self.0.say(match &acted {
            Ok(acted) if acted.subject.is_empty() => action.to_string(),
            Ok(acted) => format!("{action}: {}", acted.subject),
            Err(why) => format!("{action}: not done: {why}"),
        });
        acted
    }

    fn mark(&self) {
        self.0.writer.ledger().mark();
    }

    fn pause(&self) -> Option<Duration> {
        let ledger = self.0.writer.ledger();
        let pause = ledger.since_mark(tokio::time::Instant::now());
        pause.map(|pause| pause.length)
    }

    async fn copies(&self) -> Vec<Copy> {
        self.0.copies().await
    }
}

impl Actor {
    async fn carry_out(&self, action: &Action) -> Result<Acted, String> {
        match action {
            Action::KillPrimary => self.kill_primary(),
            Action::KillLeader => self.kill_leader(),
            Action::DeletePod(pod) => self.delete_pod(pod).await,
            Action::Cut { pod, heal_after } => self.cut(pod, *heal_after),
            Action::SlowApi { delay, heal_after } => Ok(self.slow_api(*delay, *heal_after)),
            Action::Heal => {
                let faults = self.0.faults.take_all();
                for fault in faults {
                    self.undo(fault);
                }
                Ok(acted("", Some(Until::Healed)))
            }
            Action::Load(on) => {
                self.0.writer.switch(*on);
                Ok(acted("", None))
            }
            Action::Scale(instances) => self.scale(*instances).await,
            Action::Switchover(to) => self.switch_over(to.as_deref()).await,
        }
    }

    fn kill_primary(&self) -> Result<Acted, String> {
        let snapshot = self.0.snapshot();
        let primary = find(&snapshot, &Pod::Primary)?;
        if !self
            .0
            .node
            .kill_mysqld(&self.0.cluster.namespace, &primary.pod)
        {
            return Err(format!("no mysqld runs in {}", primary.pod));
        }
        let until = Until::Restarted {
            pod: primary.pod.clone(),
            uid: primary.uid.clone(),
            starts: primary.starts.unwrap_or_default(),
        };
        Ok(acted(&primary.pod, Some(until)))
    }

    fn kill_leader(&self) -> Result<Acted, String> {
        let snapshot = self.0.snapshot();
        let leader = snapshot.leader().ok_or("nobody leads")?;
        let process = self.0.operators.iter().find(|it| it.name() == leader.name);
        process.ok_or("it is not a process of the demo")?.kill();
        let until = Until::AnotherLeader {
            than: leader.identity.clone(),
        };
        Ok(acted(&leader.name, Some(until)))
    }

    async fn delete_pod(&self, pod: &Pod) -> Result<Acted, String> {
        let snapshot = self.0.snapshot();
        let instance = find(&snapshot, pod)?;
        let options = DeleteOptions {
            uid: Some(instance.uid.clone()),
            ..DeleteOptions::default()
        };
        let namespace = Some(&*self.0.cluster.namespace);
        let deleted = self
            .0
            .client
            .delete(POD, namespace, &instance.pod, &options);
        deleted.await.map_err(|error| error.to_string())?;
        Ok(acted(
            &instance.pod,
            Some(Until::PodGone(instance.uid.clone())),
        ))
    }

    fn cut(&self, pod: &Pod, heal_after: Option<Duration>) -> Result<Acted, String> {
        let snapshot = self.0.snapshot();
        let pod = find(&snapshot, pod)?.pod.clone();
        if self.0.faults.is_cut(&pod) {
            return Err(format!("{pod} {} already", self.0.cut_words));
        }
        self.0.node.cut(&self.0.cluster.namespace, &pod);
        let until = heal_after.map(|_| Until::Healed);
        self.hold(
            Fault {
                words: format!("{pod} {}", self.0.cut_words),
                undo: Undo::Heal { pod: pod.clone() },
            },
            heal_after,
        );
        Ok(acted(&pod, until))
    }

    fn slow_api(&self, delay: Duration, heal_after: Option<Duration>) -> Acted {
        let milliseconds = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
        let rule = apiserver::Rule::always(apiserver::Fault::Delay { milliseconds });
        let rule = self.0.api.faults().add(rule.by(OPERATOR));
        let words = format!("the API server is {delay:?} late for the operator");
        let undo = Undo::Rule(rule);
        self.hold(Fault { words, undo }, heal_after);
        acted("the operator", heal_after.map(|_| Until::Healed))
    }

    /// Notes a fault, and undoes it after a while where that was asked for.
    fn hold(&self, fault: Fault, heal_after: Option<Duration>) {
        let id = self.0.faults.add(fault);
        let Some(after) = heal_after else {
            return;
        };
        let world = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            tokio::time::sleep(after).await;
            if let Some(world) = world.upgrade()
                && let Some(fault) = world.faults.take(id)
            {
                Self(world).undo(fault);
            }
        });
    }

    /// Undoes a fault that was taken out of the book.
    pub(super) fn undo(&self, fault: Fault) {
        match fault.undo {
            Undo::Heal { pod } => {
                self.0.node.heal(&self.0.cluster.namespace, &pod);
            }
            Undo::Rule(rule) => {
                self.0.api.faults().remove(rule);
            }
        }
    }

    async fn scale(&self, instances: u32) -> Result<Acted, String> {
        let generation = self
            .change(json!({"spec": {"instances": instances}}))
            .await?;
        Ok(acted(
            &self.0.cluster.name,
            Some(Until::Observed(generation)),
        ))
    }

    async fn switch_over(&self, to: Option<&str>) -> Result<Acted, String> {
        let snapshot = self.0.snapshot();
        let primary = snapshot.cluster.primary.clone();
        let fit = |it: &&InstanceView| it.ready && it.role == "replica" && it.pod != primary;
        let replica = snapshot.instances.iter().find(fit);
        let to = to.or(replica.map(|replica| replica.pod.as_str()));
        let to = to.ok_or("no replica is ready")?;
        self.change(json!({"metadata": {"annotations": {PROMOTE_ANNOTATION: to}}}))
            .await?;
        Ok(acted(to, Some(Until::AnotherPrimary { than: primary })))
    }

    /// Changes the MySQLCluster; its generation after that.
    async fn change(&self, patch: Value) -> Result<i64, String> {
        #[derive(Deserialize)]
        struct Changed {
            metadata: Meta,
        }
        let (namespace, name) = (Some(&*self.0.cluster.namespace), &*self.0.cluster.name);
        let patch = Patch::Merge(&patch);
        let changed = self
            .0
            .client
            .patch(MYSQL_CLUSTER, namespace, name, None, patch);
        let changed: Changed = changed.await.map_err(|error| error.to_string())?;
        Ok(changed.metadata.generation)
    }
}

fn acted(subject: &str, until: Option<Until>) -> Acted {
    Acted {
        subject: subject.to_owned(),
        until,
    }
}

fn find<'a>(snapshot: &'a Snapshot, pod: &Pod) -> Result<&'a InstanceView, String> {
    let name = match pod {
        Pod::Named(name) => name,
        Pod::Primary if snapshot.cluster.primary.is_empty() => {
            return Err("there is no primary".to_owned());
        }
        Pod::Primary => &snapshot.cluster.primary,
    };
    let found = snapshot
        .instance(name)
        .filter(|instance| !instance.uid.is_empty());
    found.ok_or_else(|| format!("there is no pod {name}"))
}
