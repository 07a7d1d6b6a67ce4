//! Works in this process alone: queue and store.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mainstay::client::Environment;
use mainstay::operator::kinds::Pod;
use mainstay::runtime::{
    Controller, ControllerOptions, Finish, Meta, ObjectKey, Outcome, OwnerReference, Priority,
    Queue, ReconcileError, Reconciler, Shutdown, Store,
};
use tokio::runtime::Runtime;

use crate::common::{
    CYCLES, EVENTS, KEYS, LOOKUPS, OBJECTS, PAUSE, measured, names, p99, print, runtimes, shuffled,
};

const SYSTEM: &str = "mainstay";

pub(crate) fn run(repetitions: usize) {
    let (alone, two) = runtimes();
    for _ in 0..repetitions {
        cycle(&alone);
        contended(&two);
        latency(&two);
        store();
    }
}

fn keys() -> Vec<ObjectKey> {
    (0..KEYS)
        .map(|n| ObjectKey::new(&format!("ns-{}", n % 10), &format!("pod-{n:07}")))
        .collect()
}

/// Adds all keys, then takes and gives back each.
fn cycle(runtime: &Runtime) {
    let keys = keys();
    let queue = Queue::new("cycle", &Environment::system());
    let priorities = [Priority::Low, Priority::Normal, Priority::High];
    let (cpu, _) = measured(CYCLES * KEYS, || {
        runtime.block_on(async {
            for _ in 0..CYCLES {
                for (n, key) in keys.iter().enumerate() {
                    queue.add(key.clone(), priorities[n % 3]);
                }
                for _ in 0..KEYS {
                    let item = queue.next().await.expect("it does not drain");
                    queue.done(&item.key, Finish::Success, Duration::ZERO);
                }
            }
        });
    });
    print("queue_cycle", SYSTEM, cpu, "ns CPU");
}

/// Eight workers take and give back while one task adds.
fn contended(runtime: &Runtime) {
    let queue = Queue::new("contended", &Environment::system());
    let left = Arc::new(AtomicUsize::new(0));
    let all_done = Arc::new(tokio::sync::Notify::new());
    for _ in 0..8 {
        let (queue, left, all_done) = (queue.clone(), Arc::clone(&left), Arc::clone(&all_done));
        runtime.spawn(async move {
            while let Some(item) = queue.next().await {
                queue.done(&item.key, Finish::Success, Duration::ZERO);
                if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                    all_done.notify_one();
                }
            }
        });
    }
    let keys: Vec<_> = (0..KEYS * CYCLES)
        .map(|n| ObjectKey::new(&format!("ns-{}", n % 10), &format!("pod-{n:07}")))
        .collect();
    left.store(keys.len(), Ordering::Release);
    let adder = queue.clone();
    let (cpu, wall) = measured(keys.len(), || {
        runtime.block_on(async {
            let adding = tokio::spawn(async move {
                for key in keys {
                    adder.add(key, Priority::Normal);
                }
            });
            all_done.notified().await;
            adding.await.expect("it does not panic");
        });
    });
    print("queue_contended_8", SYSTEM, wall, "ns");
    print("queue_contended_8_cpu", SYSTEM, cpu, "ns CPU");
}

/// Notes how long after the add a run begins.
struct Noting {
    added: Arc<Mutex<Instant>>,
    times: Arc<Mutex<Vec<Duration>>>,
}

impl Reconciler for Noting {
    async fn reconcile(&self, _: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let after = self.added.lock().expect("no panic").elapsed();
        self.times.lock().expect("no panic").push(after);
        Ok(Outcome::Done)
    }
}

fn latency(runtime: &Runtime) {
    let queue = Queue::new("latency", &Environment::system());
    let added = Arc::new(Mutex::new(Instant::now()));
    let times = Arc::new(Mutex::new(Vec::new()));
    let reconciler = Arc::new(Noting {
        added: Arc::clone(&added),
        times: Arc::clone(&times),
    });
    let options = ControllerOptions::default();
    let controller = Controller::new("latency", queue.clone(), reconciler, options);
    let shutdown = Shutdown::new();
    runtime.block_on(async {
        let running = tokio::spawn(controller.run(shutdown.clone(), Duration::from_secs(1)));
        let key = ObjectKey::new("ns", "a");
        let adding = tokio::spawn(async move {
            for _ in 0..EVENTS {
                tokio::time::sleep(PAUSE).await;
                *added.lock().expect("no panic") = Instant::now();
                queue.add(key.clone(), Priority::Normal);
            }
        });
        adding.await.expect("it does not panic");
        tokio::time::sleep(PAUSE).await;
        shutdown.trigger();
        running.await.expect("it does not panic");
    });
    let times = std::mem::take(&mut *times.lock().expect("no panic"));
    print("idle_latency_p99", SYSTEM, p99(times), "ns");
}

fn pods() -> Vec<Pod> {
    (0..OBJECTS)
        .map(|n| {
            let (namespace, name, owner) = names(n);
            let metadata = Meta {
                name: name.into(),
                namespace: namespace.into(),
                uid: format!("{n:08x}-0000-4000-8000-000000000000").into(),
                resource_version: (1_000_000 + n).to_string().into(),
                labels: [("app", "orders")].into(),
                owner_references: [OwnerReference {
                    kind: "ReplicaSet".into(),
                    name: "orders".into(),
                    uid: owner.into(),
                    controller: true,
                }]
                .into(),
                ..Meta::default()
            };
            Pod {
                metadata,
                ..Pod::default()
            }
        })
        .collect()
}

fn store() {
    let objects = pods();
    let mut store = None;
    let (cpu, _) = measured(OBJECTS, || store = Some(Store::of(objects)));
    print("store_apply_100k", SYSTEM, cpu, "ns CPU");
    let store = store.expect("it was made");
    let keys: Vec<_> = shuffled()
        .map(|n| {
            let (namespace, name, _) = names(n);
            ObjectKey::new(&namespace, &name)
        })
        .collect();
    let (cpu, _) = measured(3 * keys.len(), || {
        for _ in 0..3 {
            for key in &keys {
                black_box(store.get(black_box(key)).expect("it is synced"));
            }
        }
    });
    print("store_get_100k", SYSTEM, cpu, "ns CPU");
    // The scheduler's clock ticks every few milliseconds, in which this is done thousands of times.
    let lookups = 100 * LOOKUPS;
    let (cpu, _) = measured(lookups, || {
        for n in 0..lookups {
            let (namespace, _, _) = names(n * 997 % OBJECTS);
            let found = store.in_namespace(&namespace).expect("it is synced");
            // It is a view of what the store has, so that each is asked for, too.
            assert_eq!(found.iter().map(black_box).count(), 500);
        }
    });
    print("index_500_of_100k", SYSTEM, cpu, "ns CPU");
}
