//! What a cluster costs the replica that leads, beside what it costs a standby (`benches/capacity`): a
//! connection to each of its instances, and what they say each second.
//!
//! Runs where `MAINSTAY_SOAK_LEADER` says with how many clusters of three. In a build that is not for
//! release it says little.

use std::time::Duration;

use tokio::time::sleep;

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
    let world = World::new(&folder, 1, 1).await;
    let replica = world.start(0, &folder);
    let empty = loop {
        if let Some(reading) = replica.reading().await.filter(|it| it.leads) {
            break reading;
        }
        sleep(LOOK).await;
    };
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
    let ended = replica.stop().await;
    assert_eq!(ended.code(), Some(0));
}

async fn reading(replica: &Replica) -> Reading {
    loop {
        if let Some(reading) = replica.reading().await {
            return reading;
        }
    }
}
