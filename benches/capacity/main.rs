//! What the operator's caches cost by kind, and how much fits into the limits of its Deployment.
//!
//! `cargo bench --bench capacity -- [OBJECTS [CLUSTERS]]`. An API server in memory is filled with
//! objects as the operator makes them (`capacity/cluster.json`: those of one cluster), while an operator
//! that does not lead watches: how its memory grows with OBJECTS (10 000) of each kind. Then all of them
//! go, CLUSTERS (as many as should fit) whole ones come, and an operator is started with one CPU and
//! 512 MiB (a control group, where this may be made). Both are the `mainstay` that cargo builds.

mod operator;
mod proc;
mod server;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Instant;

use mainstay::api::MYSQL_CLUSTER;
use mainstay::client::{
    CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, POD, POD_DISRUPTION_BUDGET, Resource, SECRET, SERVICE,
};
use operator::{ControlGroup, Operator, SETTLE};
use serde_json::Value;
use server::Server;

const MAINSTAY: &str = env!("CARGO_BIN_EXE_mainstay");
const LIMIT: usize = 512 << 20;
/// Of the limit, the part in five that caches are to fill: the rest is for the work.
const FILLED: usize = 4;
const INSTANCES: usize = 3;
/// Owners first.
const KINDS: [Resource; 7] = [
    MYSQL_CLUSTER,
    POD,
    PERSISTENT_VOLUME_CLAIM,
    SECRET,
    SERVICE,
    CONFIG_MAP,
    POD_DISRUPTION_BUDGET,
];

fn main() -> ExitCode {
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let objects = numbers.first().copied().unwrap_or(10_000);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(measure(objects, numbers.get(1).copied()));
    ExitCode::SUCCESS
}

async fn measure(objects: usize, clusters: Option<usize>) {
    let folder = tempfile::tempdir().expect("a folder");
    let templates = templates();
    let server = Server::start(folder.path()).await;
    let operator = Operator::start(&server.kubeconfig, None);
    let empty = operator.settled(&BTreeMap::new()).await;
    println!("empty: {} MiB", empty >> 20);
    println!(
        "{:<24} {:>8} {:>12} {:>8}",
        "kind", "objects", "B an object", "of JSON"
    );
    let (mut before, mut counts, mut costs) = (empty, BTreeMap::new(), BTreeMap::new());
    let mut owners = Vec::new();
    for kind in KINDS {
        let of_kind = &templates[kind.plural];
        let made = server.fill(kind, &of_kind[..1], 0..objects, &owners).await;
        if kind.plural == MYSQL_CLUSTER.plural {
            owners = made;
        }
        counts.insert(kind.plural, objects);
        let now = operator.settled(&counts).await;
        let cost = now.saturating_sub(before) / objects;
        println!(
            "{:<24} {objects:>8} {cost:>12} {:>8}",
            kind.plural,
            of_kind[0].to_string().len()
        );
        costs.insert(kind.plural, cost);
        before = now;
    }
    drop(operator);

    let room = LIMIT / 5 * FILLED - empty;
    for (kind, cost) in &costs {
        println!("of {kind} alone {} fit", room / (*cost).max(1));
    }
    let number = |kind: Resource| match kind.plural {
        "pods" => INSTANCES,
        plural => templates[plural].len(),
    };
    let a_cluster: usize = KINDS
        .iter()
        .map(|kind| number(*kind) * costs[kind.plural])
        .sum();
    let clusters = clusters.unwrap_or(room / a_cluster);
    println!(
        "a cluster of three takes {a_cluster} B in the caches; {} should fit, {clusters} are tried",
        room / a_cluster
    );
    drop(server);

    let server = Server::start(folder.path()).await;
    let mut owners = Vec::new();
    let mut counts = BTreeMap::new();
    for kind in KINDS {
        let of_kind: Vec<Value> = templates[kind.plural]
            .iter()
            .cycle()
            .take(number(kind))
            .cloned()
            .collect();
        let made = server.fill(kind, &of_kind, 0..clusters, &owners).await;
        if kind.plural == MYSQL_CLUSTER.plural {
            owners = made;
        }
        counts.insert(kind.plural, clusters * number(kind));
    }
    let group = ControlGroup::make();
    if group.is_none() {
        println!("no control group may be made here: without limits");
    }
    let began = Instant::now();
    let operator = Operator::start(&server.kubeconfig, group.as_ref());
    let resident = operator.settled(&counts).await;
    println!(
        "{clusters} clusters, {} objects: synced {:.1} s after the start, CPU {:.1} s, resident {} MiB, at most {} MiB",
        counts.values().sum::<usize>(),
        began.elapsed().as_secs_f64() - SETTLE.as_secs_f64(),
        operator.cpu(),
        resident >> 20,
        operator.status("VmHWM") >> 20,
    );
}

/// The objects of one cluster, by their plural.
fn templates() -> BTreeMap<&'static str, Vec<Value>> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/capacity/cluster.json");
    let text = std::fs::read_to_string(file).expect("the templates");
    let objects: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let of_kind = |kind: Resource| {
        let same = objects.iter().filter(|object| object["kind"] == kind.kind);
        (kind.plural, same.cloned().collect())
    };
    KINDS.into_iter().map(of_kind).collect()
}
