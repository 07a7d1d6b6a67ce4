//! What the cache costs, at three sizes: reads, filling it, and a list that comes again.

use std::hint::black_box;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainstay::operator::kinds::Pod;
use mainstay::runtime::{ObjectKey, Store, Text};

const SIZES: [usize; 3] = [1_000, 100_000, 1_000_000];

/// Pods in namespaces of ten, each three with one owner, on a thousand nodes. Of each hundred the
/// first `changed` are of version `version`, the others of the first.
fn pods(count: usize, changed: usize, version: usize) -> Vec<Pod> {
    (0..count)
        .map(|n| {
            let version = if n % 100 < changed { version } else { 0 };
            let json = format!(
                r#"{{"metadata": {{
                    "name": "demo-{n:07}", "namespace": "namespace-{}",
                    "uid": "{n:08x}-0000-4000-8000-000000000000", "resourceVersion": "{version}",
                    "labels": {{"mysql.mainstay.dev/cluster": "demo"}},
                    "ownerReferences": [{{"kind": "MySQLCluster", "name": "demo",
                        "uid": "{:08x}-0000-4000-8000-000000000001", "controller": true}}]}},
                  "spec": {{"nodeName": "node-{:03}"}},
                  "status": {{"phase": "Running", "podIP": "10.0.0.1"}}}}"#,
                n / 10,
                n / 3,
                n % 1000,
            );
            serde_json::from_str(&json).unwrap()
        })
        .collect()
}

fn reads(c: &mut Criterion) {
    let mut group = c.benchmark_group("read_one_of");
    for size in SIZES {
        let store = Store::of(pods(size, 0, 0));
        let by_node = store.index_by(|pod| [pod.spec.node_name.clone()]);
        let id = |what| BenchmarkId::new(what, size);
        // In an order that no cache of the processor foresees: the factor divides no size.
        let mut at = 0;
        let mut next = move || {
            at = (at + 61_403) % size;
            at
        };
        let key =
            |n: usize| ObjectKey::new(&format!("namespace-{}", n / 10), &format!("demo-{n:07}"));
        let keys: Vec<_> = (0..1000).map(|_| key(next())).collect();
        let mut keys = keys.iter().cycle();
        group.bench_function(id("get"), |b| {
            b.iter(|| store.get(black_box(keys.next().unwrap())).unwrap().unwrap());
        });
        let namespaces: Vec<_> = (0..1000)
            .map(|_| format!("namespace-{}", next() / 10))
            .collect();
        let mut namespaces = namespaces.iter().cycle();
        group.bench_function(id("in_namespace_10"), |b| {
            b.iter(|| {
                let found = store.in_namespace(black_box(namespaces.next().unwrap()));
                assert_eq!(found.unwrap().iter().map(black_box).count(), 10);
            });
        });
        let uid = |n: usize| format!("{:08x}-0000-4000-8000-000000000001", n / 3);
        let owners: Vec<_> = (0..1000).map(|_| uid(next())).collect();
        let mut owners = owners.iter().cycle();
        group.bench_function(id("owned_by_3"), |b| {
            b.iter(|| store.owned_by(black_box(owners.next().unwrap())).unwrap());
        });
        let nodes: Vec<Text> = (0..1000).map(|n| format!("node-{n:03}").into()).collect();
        let mut nodes = nodes.iter().cycle();
        group.bench_function(id("declared_index"), |b| {
            b.iter(|| by_node.get(black_box(nodes.next().unwrap())).unwrap());
        });
        group.bench_function(id("list"), |b| b.iter(|| store.list().unwrap().len()));
    }
    group.finish();
}

fn fill(c: &mut Criterion) {
    let mut group = c.benchmark_group("apply_to_an_empty_store");
    group.sample_size(10);
    for size in SIZES {
        let pods = pods(size, 0, 0);
        group.throughput(Throughput::Elements(size as u64));
        group.bench_function(BenchmarkId::from_parameter(size), |b| {
            b.iter_batched(|| pods.clone(), Store::of, BatchSize::PerIteration);
        });
    }
    group.finish();
}

fn relist(c: &mut Criterion) {
    const SIZE: usize = 100_000;
    let mut group = c.benchmark_group("relist_100k_of_which_changed");
    group.sample_size(10);
    group.throughput(Throughput::Elements(SIZE as u64));
    for changed in [0, 1, 100] {
        let store = Store::of(pods(SIZE, 0, 0));
        let mut version = 0;
        group.bench_function(BenchmarkId::from_parameter(format!("{changed}%")), |b| {
            let listed = || {
                version += 1;
                pods(SIZE, changed, version)
            };
            b.iter_batched(listed, |pods| store.replace(pods), BatchSize::PerIteration);
        });
    }
    group.finish();
}

criterion_group!(benches, reads, fill, relist);
criterion_main!(benches);
