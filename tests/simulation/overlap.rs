//! Two in overlap: a leader that can't renew its lease in the middle of its work, and the one that takes
//! it over; a primary that comes back while another is made.

use std::time::Duration;

use mainstay::api::PROMOTE_ANNOTATION;
use mainstay::apiserver::{Fault, Rule};
use serde_json::json;
use tokio::time::sleep;

use crate::run::Outcome;
use crate::world::World;

/// Moments of a leader's last lease, in milliseconds after the last renewal: then a switchover
/// is asked for, and the leader is in the middle of it when its fence closes.
pub(crate) fn moments() -> Vec<u64> {
    (0..=8000).step_by(500).collect()
}

/// What the old leader writes is answered so late that a step of two writes takes it from leading past
/// its fence.
const LATE: Fault = Fault::DelayAnswer { milliseconds: 4000 };
/// Added to each message from and to an operator.
const SLOW: Duration = Duration::from_millis(300);
/// By then the other leads, and has had time for a failover of its own.
const ENOUGH: Duration = Duration::from_secs(30);

/// A running cluster that is written to.
async fn running() -> World {
    let mut world = World::new(1, 2).await;
    world.create_cluster(3).await;
    world.must_settle().await;
    world.start_writing();
    sleep(Duration::from_secs(5)).await;
    world
}

/// A person asks for another primary.
async fn promote(world: &World, instance: &str) {
    let annotations = json!({PROMOTE_ANNOTATION: instance});
    world
        .patch_cluster(&json!({"metadata": {"annotations": annotations}}))
        .await;
}

/// A cut-off primary is back so long after: from when it begins to be missed to when all follow another.
pub(crate) fn absences() -> Vec<Duration> {
    (12..=24)
        .map(|halves| halves * Duration::from_millis(500))
        .collect()
}

/// The primary is cut off from everybody and comes back after `absence`, to an operator whose every
/// step takes a while.
pub(crate) async fn absence(absence: Duration) -> Outcome {
    let mut world = running().await;
    let primary = world.shared.labelled("primary").concat();
    for (replica, _) in world.living() {
        world.shared.network.slow_down(&replica, SLOW);
    }
    world.cut_off(primary.as_str().into(), absence);
    sleep(absence + ENOUGH).await;
    world.mend();
    sleep(Duration::from_secs(2)).await;
    world.end().await
}

/// A switchover is asked for at `moment` of the old leader's last lease.
pub(crate) async fn last_lease(moment: u64) -> Outcome {
    let mut world = running().await;
    let leader = world.leader().expect("somebody leads");
    world.shared.history.fault(
        "lease can't be renewed",
        format!("{leader}, and its writes are answered late"),
    );
    let faults = world.shared.api.faults();
    faults.add(
        Rule::always(Fault::DropBefore)
            .by(&leader)
            .of("leases.coordination.k8s.io"),
    );
    faults.add(Rule::always(LATE).by(&leader).on("write"));
    sleep(Duration::from_millis(moment)).await;
    promote(&world, "demo-1").await;
    sleep(ENOUGH).await;
    world.mend();
    sleep(Duration::from_secs(2)).await;
    world.end().await
}
