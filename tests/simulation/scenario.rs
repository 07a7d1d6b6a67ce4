//! Histories: the standard ones, in which a replica may be ended at any of its writes, and random ones.

use std::time::Duration;

use mainstay::api::PROMOTE_ANNOTATION;
use mainstay::apiserver::{Fault, Rule};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::clock::seconds;
use crate::run::Outcome;
use crate::world::{CLUSTER, Crash, NAMESPACE, Settled, World};

/// By when a world without faults must be at rest. A lease that expires, backoffs of minutes and
/// containers that are restarted ever later fit in.
const REST: Duration = Duration::from_mins(15);
/// Until Events that were held back are written.
const CALM_DOWN: Duration = Duration::from_secs(20);
/// How long nothing may be written then.
const QUIET: Duration = Duration::from_secs(30);

/// What a standard history is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Create,
    Scale,
    Failover,
    Switchover,
    /// A deletion needs no operator: it has no finalizer, and what goes is the garbage collector's. What
    /// an operator could do wrong is to bring something back, so it comes while there is most to
    /// write: where a replica dies while it creates the cluster.
    Delete,
    /// Deleted and created again: the volumes are adopted, with every row.
    Return,
}

/// One of the standard histories, with a crash where one is asked for. Its `steps` are the writes and
/// commands of the operators.
pub(crate) async fn standard(scenario: Scenario, crash: Option<Crash>) -> Outcome {
    let mut world = World::new(1, 2).await;
    if !matches!(scenario, Scenario::Create | Scenario::Delete) {
        world.must_run().await;
    }
    if scenario == Scenario::Return {
        world.delete(World::CLUSTERS, CLUSTER).await;
        world.must_settle().await;
    }
    world.eyes.count(crash);
    match scenario {
        Scenario::Create => {
            world.create_cluster(3).await;
            world.start_writing();
        }
        Scenario::Scale => {
            world
                .patch_cluster(&json!({"spec": {"instances": 4}}))
                .await;
            world.must_settle().await;
            world
                .patch_cluster(&json!({"spec": {"instances": 2}}))
                .await;
        }
        Scenario::Failover => {
            let killed = world.shared.node.kill_mysqld(NAMESPACE, "demo-0");
            assert!(killed, "the primary runs");
        }
        Scenario::Switchover => {
            let annotations = json!({PROMOTE_ANNOTATION: "demo-1"});
            world
                .patch_cluster(&json!({"metadata": {"annotations": annotations}}))
                .await;
        }
        Scenario::Delete => {
            world.create_cluster(3).await;
            world.start_writing();
            tokio::select! {
                () = world.eyes.crashed() => {}
                () = world.must_settle() => {}
            }
            world.delete(World::CLUSTERS, CLUSTER).await;
        }
        Scenario::Return => world.create_cluster(3).await,
    }
    // It takes a moment until anything is not as it should be.
    sleep(Duration::from_secs(2)).await;
    world.end().await
}

/// A standby whose watches say nothing, though the server is there and answers, takes the lead: what
/// its cache holds is from before a failover, and the former primary lacks what was written since.
pub(crate) async fn blind() -> Outcome {
    let mut world = World::new(1, 2).await;
    world.must_run().await;
    let leader = world.leader().expect("one leads");
    let standby = if leader.starts_with("operator-a") {
        "operator-b"
    } else {
        "operator-a"
    };
    let faults = world.shared.api.faults().clone();
    let silence = faults.add(Rule::always(Fault::Silent).on("watch").by(standby));
    world.kill_replica(&standby.into());
    world.start_replica(standby);
    sleep(Duration::from_secs(5)).await;
    let killed = world.shared.node.kill_mysqld(NAMESPACE, "demo-0");
    assert!(killed, "the primary runs");
    sleep(Duration::from_secs(2)).await;
    world.must_settle().await;
    let hosts = world.shared.hosts();
    for other in ["demo-1", "demo-2"] {
        world.shared.mysqls.cut(&hosts["demo-0"], &hosts[other]);
    }
    sleep(Duration::from_secs(5)).await;
    world.kill_replica(&leader);
    // The lease has to expire.
    sleep(Duration::from_mins(1)).await;
    world.shared.mysqls.heal_all();
    faults.remove(silence);
    world.end().await
}

/// A leader dies while the cluster is at rest: whoever takes over has nothing to write.
pub(crate) async fn takeover() -> Outcome {
    let mut world = World::new(1, 2).await;
    world.must_run().await;
    sleep(CALM_DOWN).await;
    let leader = world.leader().expect("one leads");
    world.eyes.count(None);
    world.kill_replica(&leader);
    // The lease has to expire.
    sleep(Duration::from_mins(1)).await;
    let next = world.leader();
    let written = world.eyes.counted();
    if next.is_none() || written > 0 {
        let what = format!("led by {next:?}, {written} writes or commands since {leader} died");
        world.shared.history.violation(what);
    }
    world.end().await
}

/// A random history of faults.
pub(crate) async fn random(seed: u64) -> Outcome {
    let mut world = World::new(seed, 3).await;
    let instances = [3, 3, 3, 2, 1, 4][usize::try_from(world.pick(6)).unwrap_or(0)];
    world.create_cluster(instances).await;
    world.start_writing();
    // Some are hit while they come up.
    if world.pick(4) > 0 {
        world.must_settle().await;
    }
    let faults = 4 + world.pick(14);
    for _ in 0..faults {
        let pause = Duration::from_millis(200 + world.pick(6000));
        sleep(pause).await;
        world.go_wrong().await;
        if world.pick(3) == 0 {
            world.restart_the_dead();
        }
    }
    let pause = Duration::from_millis(world.pick(15_000));
    sleep(pause).await;
    world.mend();
    sleep(Duration::from_secs(2)).await;
    world.end().await
}

impl World {
    /// A cluster of three that runs and is written to.
    pub(crate) async fn must_run(&mut self) {
        self.create_cluster(3).await;
        self.must_settle().await;
        self.start_writing();
        sleep(Duration::from_secs(5)).await;
    }

    /// Waits until the cluster is as its spec says.
    pub(crate) async fn must_settle(&self) {
        let begun = Instant::now();
        loop {
            let Settled::No(why) = self.shared.settled() else {
                let took = seconds(begun.elapsed());
                self.shared
                    .history
                    .note("--", format!("settled after {took}"));
                return;
            };
            if begun.elapsed() > REST {
                let what = format!("not at rest within {}: {why}", seconds(REST));
                self.shared.history.violation(what);
                self.shared.note_all();
                return;
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// No fault is left: it settles, and then nothing is written.
    pub(crate) async fn end(self) -> Outcome {
        self.must_settle().await;
        let steps = self.eyes.counted();
        sleep(CALM_DOWN).await;
        self.must_settle().await;
        self.eyes.count(None);
        sleep(QUIET).await;
        let written = self.eyes.counted();
        if written > 0 {
            let what = format!("{written} writes or commands while all was well");
            self.shared.history.violation(what);
        }
        if let Settled::No(why) = self.shared.settled() {
            self.shared
                .history
                .violation(format!("did not stay at rest: {why}"));
        }
        self.stop_writing().await;
        self.shared.check_end();
        Outcome {
            steps,
            ..self.outcome()
        }
    }
}
