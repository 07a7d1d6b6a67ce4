//! Look-ups a second in the cache, at three sizes: what a reconcile pays for reading.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use mainstay::operator::kinds::Pod;
use mainstay::runtime::{ObjectKey, Store};

/// Pods in namespaces of ten, each three with one owner.
fn pods(count: usize) -> Vec<Pod> {
    (0..count)
        .map(|n| {
            let json = serde_json::json!({
                "metadata": {
                    "name": format!("demo-{n}"),
                    "namespace": format!("namespace-{}", n / 10),
                    "uid": format!("uid-{n}"),
                    "resourceVersion": n.to_string(),
                    "labels": {"mysql.mainstay.dev/cluster": "demo"},
                    "ownerReferences": [
                        {"kind": "MySQLCluster", "name": "demo", "uid": format!("owner-{}", n / 3), "controller": true}
                    ],
                },
                "status": {"phase": "Running", "podIP": "10.0.0.1"},
            });
            serde_json::from_value(json).unwrap()
        })
        .collect()
}

fn lookups(c: &mut Criterion) {
    for size in [1_000, 100_000] {
        let store = Store::of(pods(size));
        let middle = size / 2;
        let key = ObjectKey::new(
            &format!("namespace-{}", middle / 10),
            &format!("demo-{middle}"),
        );
        assert!(store.get(&key).unwrap().is_some());
        let namespace = key.namespace.clone();
        assert_eq!(store.in_namespace(&namespace).unwrap().len(), 10);
        let owner = format!("owner-{}", middle / 3);
        assert!(!store.owned_by(&owner).unwrap().is_empty());
        let id = |what| BenchmarkId::new(what, size);
        let mut group = c.benchmark_group("store");
        group.bench_function(id("get"), |b| b.iter(|| store.get(black_box(&key))));
        group.bench_function(id("in_namespace"), |b| {
            b.iter(|| store.in_namespace(black_box(&namespace)));
        });
        group.bench_function(id("owned_by"), |b| {
            b.iter(|| store.owned_by(black_box(&owner)));
        });
        group.finish();
    }
}

criterion_group!(benches, lookups);
criterion_main!(benches);
