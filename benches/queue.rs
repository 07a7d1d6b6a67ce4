//! The queue, alone and with workers; each group says what it measures. Times are for a key.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mainstay::client::Environment;
use mainstay::runtime::{
    Controller, ControllerOptions, Finish, ObjectKey, Outcome, Pause, Priority, Queue,
    ReconcileError, Reconciler, Shutdown,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

const KEYS: usize = 10_000;
const DELAYED: usize = 1_000_000;

fn queue() -> Queue {
    Queue::new("bench", &Environment::system())
}

fn alone() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Takes a key and gives it back.
async fn serve(queue: &Queue) -> ObjectKey {
    let item = queue.next().await.expect("it does not drain");
    queue.done(&item.key, Finish::Success, Duration::ZERO);
    item.key
}

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

/// Through the whole controller: add → hand out → reconcile → done, by so many workers.
fn controller(c: &mut Criterion) {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let keys = keys();
    let mut group = c.benchmark_group("queue/add_reconcile_done");
    group
        .throughput(Throughput::Elements(KEYS as u64))
        .sample_size(20);
    for workers in [1, 2, 8] {
        let queue = queue();
        let reconciler = Arc::new(Counting {
            left: AtomicUsize::new(0),
            all_done: Notify::new(),
        });
        let shutdown = Shutdown::new();
        let options = ControllerOptions {
            workers,
            deadline: Duration::from_mins(1),
            ..ControllerOptions::default()
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

/// The queue alone under contention: so many tasks take and give back while one adds.
fn contended(c: &mut Criterion) {
    let runtime = Builder::new_multi_thread().enable_all().build().unwrap();
    let keys = keys();
    let mut group = c.benchmark_group("queue/add_next_done_contended");
    group
        .throughput(Throughput::Elements(KEYS as u64))
        .sample_size(20);
    for workers in [1, 2, 8] {
        let queue = queue();
        let left = Arc::new(AtomicUsize::new(0));
        let all_done = Arc::new(Notify::new());
        let tasks: Vec<_> = (0..workers)
            .map(|_| {
                let (queue, left) = (queue.clone(), Arc::clone(&left));
                let all_done = Arc::clone(&all_done);
                runtime.spawn(async move {
                    loop {
                        serve(&queue).await;
                        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                            all_done.notify_one();
                        }
                    }
                })
            })
            .collect();
        group.bench_function(BenchmarkId::from_parameter(workers), |b| {
            b.to_async(&runtime).iter(|| {
                let (queue, keys) = (queue.clone(), keys.clone());
                let (left, all_done) = (Arc::clone(&left), Arc::clone(&all_done));
                async move {
                    left.store(KEYS, Ordering::Release);
                    // On a worker thread, as the tasks are.
                    let adding = tokio::spawn(async move {
                        for key in keys {
                            queue.add(key, Priority::Normal);
                        }
                    });
                    all_done.notified().await;
                    adding.await.unwrap();
                }
            });
        });
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
    group.finish();
}

/// Adds alone: of keys that are new, and of keys that wait already (a busy object's many events).
fn add(c: &mut Criterion) {
    let keys = keys();
    let mut group = c.benchmark_group("queue/add");
    group.throughput(Throughput::Elements(KEYS as u64));
    let add = |queue: &Queue| {
        for key in &keys {
            queue.add(key.clone(), Priority::Normal);
        }
    };
    group.bench_function("new_key", |b| {
        b.iter_with_large_drop(|| {
            let queue = queue();
            add(&queue);
            queue
        });
    });
    let queue = queue();
    queue.pause(Pause::Standby);
    add(&queue);
    group.bench_function("waiting_key", |b| b.iter(|| add(&queue)));
    group.finish();
    assert_eq!(queue.len(), KEYS, "each key waits once");
}

/// A key's way while a million others wait for their time: with an add, and with a delay of its own
/// that an add then ends.
fn beside_delayed(c: &mut Criterion) {
    let runtime = alone();
    let queue = queue();
    for n in 0..DELAYED {
        let key = ObjectKey::new(&format!("namespace-{}", n % 100), &format!("delayed-{n}"));
        // Scattered over an hour, none of it soon.
        let seconds = 3600 + (n as u64 * 61_403) % 3600;
        queue.add_after(key, Duration::from_secs(seconds));
    }
    let key = ObjectKey::new("namespace-1", "ready");
    let mut group = c.benchmark_group("queue/beside_1m_delayed");
    group.throughput(Throughput::Elements(1));
    group.bench_function("add_next_done", |b| {
        b.iter(|| {
            queue.add(key.clone(), Priority::Normal);
            runtime.block_on(serve(&queue))
        });
    });
    group.bench_function("add_after_add_next_done", |b| {
        b.iter(|| {
            queue.add_after(key.clone(), Duration::from_mins(90));
            queue.add(key.clone(), Priority::Normal);
            runtime.block_on(serve(&queue))
        });
    });
    group.finish();
}

/// Fairness: one tenant's 10 000 keys stand ready, and another's one key comes. The time until that
/// has been served; without turns it would be the time of ten thousand.
fn other_tenant(c: &mut Criterion) {
    let runtime = alone();
    let queue = queue();
    for n in 0..KEYS {
        let key = ObjectKey::new("many", &format!("object-{n}"));
        queue.add(key, Priority::Normal);
    }
    let key = ObjectKey::new("one", "object");
    let mut served = 0_u64;
    c.bench_function("queue/other_tenants_first_of_10001", |b| {
        b.iter(|| {
            queue.add(key.clone(), Priority::Normal);
            runtime.block_on(async {
                loop {
                    served += 1;
                    let next = serve(&queue).await;
                    if next.namespace == key.namespace {
                        break;
                    }
                    // As many stand there for the next time.
                    queue.add(next, Priority::Normal);
                }
            });
        });
    });
    assert_eq!(queue.len(), KEYS);
    black_box(served);
}

criterion_group!(
    benches,
    controller,
    contended,
    add,
    beside_delayed,
    other_tenant
);
criterion_main!(benches);
