//! Works in this process alone: scheduler, applier and store.

use std::convert::Infallible;
use std::hint::black_box;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::StreamExt;
use futures::channel::mpsc;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::runtime::controller::{Action, Config, applier};
use kube::runtime::reflector::{self, ObjectRef};
use kube::runtime::scheduler::{ScheduleRequest, scheduler};
use kube::runtime::watcher::Event;
use tokio::runtime::Runtime;

use crate::common::{
    CYCLES, EVENTS, KEYS, LOOKUPS, OBJECTS, PAUSE, PER_NAMESPACE, measured, names, p99, print,
    runtimes, shuffled,
};

const SYSTEM: &str = "kube-rs";

pub fn run(repetitions: usize) {
    let (alone, two) = runtimes();
    for _ in 0..repetitions {
        cycle(&alone);
        latency(&two);
        store();
    }
}

/// Adds all keys, then takes each. Nothing is given back: that is the runner's business.
fn cycle(runtime: &Runtime) {
    let keys: Vec<ObjectRef<Pod>> = (0..KEYS)
        .map(|n| ObjectRef::new(&format!("pod-{n:07}")).within(&format!("ns-{}", n % 10)))
        .collect();
    let (sender, requests) = mpsc::unbounded();
    let (cpu, _) = measured(CYCLES * KEYS, || {
        runtime.block_on(async {
            let mut scheduler = pin!(scheduler(requests));
            for _ in 0..CYCLES {
                let run_at = tokio::time::Instant::now();
                for key in &keys {
                    let message = key.clone();
                    let request = ScheduleRequest { message, run_at };
                    sender.unbounded_send(request).expect("it is read");
                }
                for _ in 0..KEYS {
                    black_box(scheduler.next().await.expect("it does not end"));
                }
            }
        });
    });
    print("queue_cycle", SYSTEM, cpu, "ns CPU");
}

fn pod(n: usize) -> Pod {
    let (namespace, name, owner) = names(n);
    let metadata = ObjectMeta {
        name: Some(name),
        namespace: Some(namespace),
        uid: Some(format!("{n:08x}-0000-4000-8000-000000000000")),
        resource_version: Some((1_000_000 + n).to_string()),
        labels: Some([("app".to_owned(), "orders".to_owned())].into()),
        owner_references: Some(vec![OwnerReference {
            kind: "ReplicaSet".to_owned(),
            name: "orders".to_owned(),
            uid: owner,
            controller: Some(true),
            ..OwnerReference::default()
        }]),
        ..ObjectMeta::default()
    };
    Pod {
        metadata,
        ..Pod::default()
    }
}

fn latency(runtime: &Runtime) {
    let (store, mut writer) = reflector::store();
    let object = pod(0);
    writer.apply_watcher_event(&Event::Init);
    writer.apply_watcher_event(&Event::InitApply(object.clone()));
    writer.apply_watcher_event(&Event::InitDone);
    let added = Arc::new(Mutex::new(Instant::now()));
    let times = Arc::new(Mutex::new(Vec::new()));
    let (sender, queue) = mpsc::unbounded::<Result<ObjectRef<Pod>, Infallible>>();
    let (noted, since) = (Arc::clone(&times), Arc::clone(&added));
    let applied = applier(
        move |_, _| {
            let after = since.lock().expect("no panic").elapsed();
            noted.lock().expect("no panic").push(after);
            futures::future::ready(Ok::<_, Infallible>(Action::await_change()))
        },
        |_, _: &Infallible, _| Action::await_change(),
        Arc::new(()),
        store,
        queue,
        Config::default().concurrency(8),
    );
    runtime.block_on(async {
        let running = tokio::spawn(applied.for_each(|_| futures::future::ready(())));
        let adding = tokio::spawn(async move {
            for _ in 0..EVENTS {
                tokio::time::sleep(PAUSE).await;
                *added.lock().expect("no panic") = Instant::now();
                let key = ObjectRef::from_obj(&object);
                sender.unbounded_send(Ok(key)).expect("it is read");
            }
        });
        adding.await.expect("it does not panic");
        running.await.expect("it does not panic");
    });
    let times = std::mem::take(&mut *times.lock().expect("no panic"));
    print("idle_latency_p99", SYSTEM, p99(times), "ns");
}

fn store() {
    let events: Vec<_> = (0..OBJECTS).map(|n| Event::Apply(pod(n))).collect();
    let (store, mut writer) = reflector::store::<Pod>();
    let (cpu, _) = measured(OBJECTS, || {
        for event in &events {
            writer.apply_watcher_event(event);
        }
    });
    print("store_apply_100k", SYSTEM, cpu, "ns CPU");
    let keys: Vec<ObjectRef<Pod>> = shuffled()
        .map(|n| {
            let (namespace, name, _) = names(n);
            ObjectRef::new(&name).within(&namespace)
        })
        .collect();
    let (cpu, _) = measured(3 * keys.len(), || {
        for _ in 0..3 {
            for key in &keys {
                black_box(store.get(black_box(key)).expect("it is there"));
            }
        }
    });
    print("store_get_100k", SYSTEM, cpu, "ns CPU");
    // A scan takes so long that fewer will do.
    let lookups = LOOKUPS / 20;
    let (cpu, _) = measured(lookups, || {
        for n in 0..lookups {
            let (namespace, _, _) = names(n * 997 % OBJECTS);
            let found =
                store.state_filter(|pod| pod.metadata.namespace.as_deref() == Some(&namespace));
            assert_eq!(black_box(found).len(), PER_NAMESPACE);
        }
    });
    print("index_500_of_100k", SYSTEM, cpu, "ns CPU");
}
