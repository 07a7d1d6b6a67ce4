//! A soak: three replicas of the operator, processes as they are deployed, in a world that does not come
//! to rest, and whether they grow meanwhile.
//!
//! Clusters with modelled MySQL are written to and fail over; the specs of others change all the time;
//! others come and go. Every half a minute something goes wrong for twenty seconds: with the API server,
//! a replica, a primary, a node. Each replica is asked every two seconds what it holds. In the end all
//! clusters must be as their specs say, with every row that was acknowledged, each replica must end as
//! asked, and memory, file descriptors and tasks must not have risen.
//!
//! Runs where `MAINSTAY_SOAK_MINUTES` says for how long. `MAINSTAY_SOAK_CLUSTERS` (8) are written to,
//! `MAINSTAY_SOAK_SEED` (1) is of what goes wrong, `MAINSTAY_SOAK_DIR` is where logs, samples and the
//! picture go (`soak` in cargo's folder for tests).
//!
//! `leader` is another question to the same world: what a cluster costs the replica that leads.

mod flat;
mod leader;
mod leftovers;
mod plot;
mod reading;
mod replica;
mod trouble;
mod wires;
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use mainstay::client::Jitter;
use mainstay::sandbox::Written;
use reading::Sample;
use replica::Replica;
use serde_json::json;
use tokio::time::{Instant, interval, sleep, timeout};
use trouble::{Troubles, pick};
use world::{Undo, World, kind};

const REPLICAS: usize = 3;
/// Clusters without instances, and those that come and go.
const STILL: usize = 30;
const PASSING: u64 = 3;
/// Keys of clusters that are gone which a standby may hold: those of a minute, and then some.
const GONE: usize = 6;
/// Between two samples.
const SAMPLE: Duration = Duration::from_secs(2);
/// How long something is wrong, and then nothing.
const TROUBLE: Duration = Duration::from_secs(20);
const REST: Duration = Duration::from_secs(12);
/// What clusters may take to be as their specs say once nothing is wrong.
const SETTLE: Duration = Duration::from_mins(5);
/// What a replica may take to end: `--shutdown-grace`, and a little.
const STOP: Duration = Duration::from_secs(40);
/// Between two looks at clusters.
const LOOK: Duration = Duration::from_millis(500);
/// Between two things that people, and then clients, do.
const TOUCH: Duration = Duration::from_millis(100);
const WRITE: Duration = Duration::from_millis(100);
/// A client waits no longer for an answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A setting; `None` where it is not there.
fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let parsed = text.parse().ok();
    assert!(parsed.is_some(), "{name}={text:?} is no number");
    parsed
}

/// Where everything goes.
fn folder() -> PathBuf {
    let folder = std::env::var_os("MAINSTAY_SOAK_DIR");
    let folder = folder.map_or_else(
        || PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("soak"),
        PathBuf::from,
    );
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// What is counted beside the samples.
#[derive(Default)]
struct Counts {
    touches: AtomicU64,
    moves: AtomicU64,
    passed: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_grows() {
    let Some(minutes) = setting::<f64>("MAINSTAY_SOAK_MINUTES") else {
        eprintln!("skipped: MAINSTAY_SOAK_MINUTES does not say for how long");
        return;
    };
    let seed = setting("MAINSTAY_SOAK_SEED").unwrap_or(1);
    let kept = setting("MAINSTAY_SOAK_CLUSTERS").unwrap_or(8);
    let folder = folder();

    let world = Arc::new(World::new(&folder, REPLICAS, seed).await);
    let mut replicas: Vec<Replica> = (0..REPLICAS).map(|nth| world.start(nth, &folder)).collect();
    for nth in 0..kept {
        world.add(&format!("{}{nth}", kind::KEPT), 3).await;
    }
    for nth in 0..PASSING {
        world.add(&format!("{}{nth}", kind::PASSING), 3).await;
    }
    for nth in 0..STILL {
        world.add(&format!("{}{nth}", kind::STILL), 0).await;
    }
    world.settle(SETTLE).await;

    let counts = Arc::new(Counts::default());
    let tasks = [
        tokio::spawn(change(world.clone(), counts.clone(), seed)),
        tokio::spawn(come_and_go(world.clone(), counts.clone())),
        tokio::spawn(look_on(world.clone(), counts.clone())),
        tokio::spawn(write(world.clone(), seed)),
    ];
    let length = Duration::from_secs_f64(minutes * 60.0);
    let samples = soak(&world, &mut replicas, length, seed).await;
    for task in tasks {
        assert!(!task.is_finished(), "somebody has stopped: see above");
        task.abort();
    }
    let settled = world.settle(SETTLE).await;

    let clusters = world.clusters().await.expect("nothing is wrong");
    let missing = world.missing(&clusters);
    let stopped = join_all(replicas.into_iter().map(|it| timeout(STOP, it.stop()))).await;
    let lines = flat::judge(&samples);
    let title = format!(
        "{minutes} minutes, {kept} clusters of three that fail over; grey: something is wrong"
    );
    let rows: Vec<String> = samples.iter().map(|it| json!(it).to_string()).collect();
    std::fs::write(folder.join("samples.jsonl"), rows.join("\n")).expect("it can be written");
    std::fs::write(folder.join("soak.svg"), plot::draw(&samples, &title))
        .expect("it can be written");
    print!("{}", flat::table(&lines));
    summary(&samples, &counts, &world, missing.len(), settled);

    let ended: Vec<_> = stopped
        .into_iter()
        .map(|it| it.map(|it| it.code()))
        .collect();
    assert!(
        ended.iter().all(|it| *it == Ok(Some(0))),
        "how replicas ended: {ended:?}"
    );
    assert!(
        missing.is_empty(),
        "rows that are not on their primaries: {missing:?}"
    );
    let deepest = samples.iter().flat_map(|it| &it.replicas).flatten();
    let deepest = deepest.map(|it| it.depth).fold(0.0, f64::max);
    assert!(
        deepest <= (clusters.len() + GONE) as f64,
        "{deepest} keys waited, of {} clusters",
        clusters.len()
    );
    assert!(
        lines.iter().all(|line| line.rose.is_none()),
        "see above what rose"
    );
}

/// Samples for so long, while one thing after another goes wrong.
async fn soak(world: &World, replicas: &mut [Replica], length: Duration, seed: u64) -> Vec<Sample> {
    let (mut troubles, mut chance) = (Troubles::new(seed), Jitter::seeded(seed));
    let begun = Instant::now();
    let mut samples: Vec<Sample> = Vec::new();
    let mut wrong: Option<(&'static str, Undo)> = None;
    let mut next = begun + REST;
    let mut look = interval(SAMPLE);
    while begun.elapsed() < length {
        look.tick().await;
        if Instant::now() >= next {
            if let Some((_, undo)) = wrong.take() {
                world.end(undo, replicas).await;
                next = Instant::now() + REST;
            } else {
                let (name, trouble) = troubles.next();
                let leader = samples.last().and_then(leader);
                let (whom, undo) = world.begin(trouble, replicas, leader, &mut chance).await;
                println!("{:>6.0} s  {name} {whom}", begun.elapsed().as_secs_f64());
                wrong = Some((name, undo));
                next = Instant::now() + TROUBLE;
            }
        }
        for (nth, replica) in replicas.iter_mut().enumerate() {
            let ended = replica.ended();
            assert!(ended.is_none(), "{} ended: {ended:?}", World::replica(nth));
        }
        samples.push(Sample {
            at: begun.elapsed().as_secs_f64(),
            trouble: wrong.as_ref().map(|(name, _)| *name),
            replicas: join_all(replicas.iter().map(Replica::reading)).await,
        });
    }
    if let Some((_, undo)) = wrong {
        world.end(undo, replicas).await;
    }
    samples
}

fn leader(sample: &Sample) -> Option<usize> {
    let leads = |it: &Option<reading::Reading>| it.as_ref().is_some_and(|it| it.leads);
    sample.replicas.iter().position(leads)
}

/// People who change specs. What is refused while the API server is frozen is no loss.
async fn change(world: Arc<World>, counts: Arc<Counts>, seed: u64) {
    let mut chance = Jitter::seeded(seed);
    loop {
        sleep(TOUCH).await;
        let name = format!("{}{}", kind::STILL, pick(&mut chance, STILL));
        let value = (100 + pick(&mut chance, 900)).to_string();
        let patch = json!({"spec": {"config": {"max_connections": value}}});
        if world.change(&name, &patch).await.is_ok() {
            counts.touches.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// People who delete the oldest of the clusters that pass, and create another.
async fn come_and_go(world: Arc<World>, counts: Arc<Counts>) {
    let mut gone: Option<String> = None;
    for nth in PASSING.. {
        sleep(TROUBLE).await;
        if let Some(gone) = gone {
            while leftovers::clear(&world.person, &gone).await.is_err() {
                sleep(LOOK).await;
            }
        }
        let oldest = format!("{}{}", kind::PASSING, nth - PASSING);
        while let Err(error) = world.remove(&oldest).await {
            assert!(!error.is_not_found(), "{oldest} was there");
            sleep(LOOK).await;
        }
        gone = Some(oldest);
        world.add(&format!("{}{nth}", kind::PASSING), 3).await;
        counts.passed.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts how often primaries move.
async fn look_on(world: Arc<World>, counts: Arc<Counts>) {
    let mut primaries: BTreeMap<String, String> = BTreeMap::new();
    loop {
        for cluster in world.clusters().await.unwrap_or_default() {
            let Some(primary) = cluster.primary() else {
                continue;
            };
            let before = primaries.insert(cluster.name().to_owned(), primary.to_owned());
            if before.is_some_and(|before| before != primary) {
                counts.moves.fetch_add(1, Ordering::Relaxed);
            }
        }
        sleep(LOOK).await;
    }
}

/// Clients of the clusters that are kept.
async fn write(world: Arc<World>, seed: u64) {
    let mut chance = Jitter::seeded(seed);
    for row in 1.. {
        sleep(WRITE).await;
        let mut hosts = world.mysqls.writable();
        hosts.retain(|host| host.starts_with(kind::KEPT));
        if hosts.is_empty() {
            continue;
        }
        let host = hosts.swap_remove(pick(&mut chance, hosts.len()));
        let mysqls = world.mysqls.clone();
        tokio::spawn(async move {
            let _: Result<Written, _> = timeout(PATIENCE, mysqls.write(&host, row)).await;
        });
    }
}

fn summary(samples: &[Sample], counts: &Counts, world: &World, lost: usize, settled: Duration) {
    let last = |nth: usize| samples.iter().rev().find_map(|it| it.replicas[nth].clone());
    let last: Vec<_> = (0..REPLICAS).filter_map(last).collect();
    let sum = |of: fn(&reading::Reading) -> f64| last.iter().map(of).sum::<f64>();
    let leaders: Vec<usize> = samples.iter().filter_map(leader).collect();
    let handed = leaders.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let hit = reading::troubles(samples);
    let kinds: BTreeSet<&str> = hit.iter().map(|(trouble, ..)| *trouble).collect();
    println!(
        "{} troubles of {} kinds; {} changes of specs, {} clusters came and went, {} primaries moved, \
         {} rows acknowledged, {lost} lost, leadership moved {handed} times\n\
         {:.0} reconciles, {:.0} Events dropped, CPU of each {:?} s; at rest {:.1} s after the last trouble",
        hit.len(),
        kinds.len(),
        counts.touches.load(Ordering::Relaxed),
        counts.passed.load(Ordering::Relaxed),
        counts.moves.load(Ordering::Relaxed),
        world.mysqls.acknowledged().len(),
        sum(|it| it.reconciles),
        sum(|it| it.dropped),
        last.iter().map(|it| it.cpu.round()).collect::<Vec<_>>(),
        settled.as_secs_f64(),
    );
}
