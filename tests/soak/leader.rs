//! What a cluster costs the replica that leads, beside what it costs a standby (`benches/capacity`): a
//! connection to each of its instances, and what they say each second.
//!
//! Runs where `MAINSTAY_SOAK_LEADER` says with how many clusters of three. In a build that is not for
//! release it says little.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::reading::Reading;
use super::replica::Replica;
use super::world::{World, kind};
use super::{folder, setting};

/// Limits of the Deployment (`manifests/operator/deployment.yaml`): bytes, and CPUs.
const MEMORY: f64 = 512.0 * 1_048_576.0;
const CPUS: f64 = 1.0;
/// Of clusters that are all new.
const SETTLE: Duration = Duration::from_mins(15);
/// For how long it is watched at rest.
const WATCHED: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_keeps_within_the_limits_of_its_deployment() {
    let Some(clusters) = setting::<u32>("MAINSTAY_SOAK_LEADER") else {
        eprintln!("skipped: MAINSTAY_SOAK_LEADER does not say with how many clusters");
        return;
    };
    let folder = folder();
    let world = World::new(&folder, 2, 1).await;
    let replica = world.start(0, &folder);
    let empty = until(&replica, |it| it.leads).await;
    for nth in 0..clusters {
        world.add(&format!("{}{nth}", kind::KEPT), 3).await;
    }
    let settled = world.settle(SETTLE).await;
    let before = reading(&replica).await;
    sleep(WATCHED).await;
    let after = reading(&replica).await;

    let each = |of: fn(&Reading) -> f64| (of(&after) - of(&empty)) / f64::from(clusters);
    let cpu = (after.cpu - before.cpu) / WATCHED.as_secs_f64();
    println!(
        "{clusters} clusters of three, ready after {:.0} s and CPU {:.1} s; resident {:.0} MiB, {:.0} before; at rest \
         {:.1} % of a CPU\n\
         a cluster: {:.0} KiB ({:.0} of it in caches), {:.1} descriptors, {:.1} tasks, {:.0} µs of CPU a second",
        settled.as_secs_f64(),
        before.cpu,
        after.resident / 1_048_576.0,
        empty.resident / 1_048_576.0,
        cpu * 100.0,
        each(|it| it.resident) / 1024.0,
        each(|it| it.caches) / 1024.0,
        each(|it| it.fds),
        each(|it| it.tasks),
        cpu * 1e6 / f64::from(clusters),
    );
    assert!(after.resident < MEMORY, "{} bytes", after.resident);
    assert!(cpu < CPUS, "{cpu} CPUs at rest");

    // Another takes over, with caches that are warm.
    let next = world.start(1, &folder);
    until(&next, |it| it.caches >= 0.9 * after.caches).await;
    let before = reading(&next).await;
    let asked = Instant::now();
    assert_eq!(replica.stop().await.code(), Some(0));
    let all = 3.0 * f64::from(clusters);
    let took = until(&next, |it| it.leads && it.heard >= all && it.depth < 1.0).await;
    println!(
        "another leads, has looked at each cluster and hears each instance {:.1} s after the first was told to end; \
         CPU {:.1} s",
        asked.elapsed().as_secs_f64(),
        took.cpu - before.cpu,
    );
    assert_eq!(next.stop().await.code(), Some(0));
}

/// Waits until a replica is so.
async fn until(replica: &Replica, is: impl Fn(&Reading) -> bool) -> Reading {
    let begun = Instant::now();
    loop {
        let reading = reading(replica).await;
        if is(&reading) {
            return reading;
        }
        assert!(begun.elapsed() < SETTLE, "it is {reading:?}");
        sleep(LOOK).await;
    }
}

async fn reading(replica: &Replica) -> Reading {
    loop {
        if let Some(reading) = replica.reading().await {
            return reading;
        }
        sleep(LOOK).await;
    }
}
