//! Keys a second through the queue and the workers: add → hand out → reconcile → done.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainstay::runtime::{
    Controller, ControllerOptions, ObjectKey, Outcome, Pause, Priority, Queue, ReconcileError,
    Reconciler, Shutdown,
};
use tokio::sync::Notify;

const KEYS: usize = 10_000;

/// Counts runs, and tells when all keys had theirs.
struct Counting {
    left: AtomicUsize,
    all_done: Notify,
}

impl Reconciler for Counting {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        black_box(key);
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_done.notify_one();
        }
        Ok(Outcome::Done)
    }
}

fn keys() -> Vec<ObjectKey> {
    (0..KEYS)
        .map(|n| ObjectKey::new(&format!("namespace-{}", n % 100), &format!("object-{n}")))
        .collect()
}

fn add_and_reconcile(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let keys = keys();
    let mut group = c.benchmark_group("queue/add_get_done");
    group
        .throughput(Throughput::Elements(KEYS as u64))
        .sample_size(20);
    for workers in [1, 2, 8] {
        let queue = Queue::new("bench");
        let reconciler = Arc::new(Counting {
            left: AtomicUsize::new(0),
            all_done: Notify::new(),
        });
        let shutdown = Shutdown::new();
        let options = ControllerOptions {
            workers,
            deadline: Duration::from_mins(1),
        };
        let controller = Controller::new("bench", queue.clone(), reconciler.clone(), options);
        let running = runtime.spawn(controller.run(shutdown.clone(), Duration::from_secs(1)));
        group.bench_function(BenchmarkId::from_parameter(workers), |b| {
            b.to_async(&runtime).iter(|| async {
                reconciler.left.store(KEYS, Ordering::Release);
                for key in &keys {
                    queue.add(key.clone(), Priority::Normal);
                }
                reconciler.all_done.notified().await;
            });
        });
        shutdown.trigger();
        runtime.block_on(running).unwrap();
    }
    group.finish();
}

/// Adds that find the key waiting already: a busy object's many events.
fn coalesce(c: &mut Criterion) {
    let keys = keys();
    let queue = Queue::new("bench_coalesce");
    queue.pause(Pause::Standby);
    for key in &keys {
        queue.add(key.clone(), Priority::Normal);
    }
    let mut group = c.benchmark_group("queue/coalesce");
    group.throughput(Throughput::Elements(KEYS as u64));
    group.bench_function("waiting_key", |b| {
        b.iter(|| {
            for key in &keys {
                queue.add(key.clone(), Priority::Normal);
            }
        });
    });
    group.finish();
    assert_eq!(queue.len(), KEYS, "each key waits once");
}

criterion_group!(benches, add_and_reconcile, coalesce);
criterion_main!(benches);
