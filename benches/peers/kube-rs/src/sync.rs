//! A reflector's store, filled by a watcher.

use std::io::Write as _;
use std::pin::pin;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client};
use tokio::signal::unix::{SignalKind, signal};

/// Fills a cache of `count` objects, says so, and says each time another `batch` changes were seen.
pub fn run(count: usize, batch: usize) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    // On a worker, as the others: not on the main thread.
    runtime.block_on(async {
        tokio::spawn(follow(count, batch))
            .await
            .expect("it does not panic");
    });
}

fn say(what: &str) {
    println!("{what}");
    std::io::stdout().flush().expect("somebody reads");
}

async fn follow(count: usize, batch: usize) {
    let client = Client::try_default().await.expect("KUBECONFIG");
    let (store, writer) = reflector::store();
    let events = watcher(Api::<Pod>::all(client), watcher::Config::default());
    let mut events = pin!(reflector(writer, events.default_backoff()));
    let mut stop = signal(SignalKind::terminate()).expect("signals");
    let (mut synced, mut seen) = (false, 0);
    loop {
        let event = tokio::select! {
            event = events.next() => event.expect("a watcher does not end"),
            _ = stop.recv() => return,
        };
        match event {
            Ok(Event::InitDone) if !synced => {
                assert_eq!(store.len(), count);
                synced = true;
                say("synced");
            }
            Ok(Event::Apply(_)) => {
                seen += 1;
                if seen % batch == 0 {
                    say("handled");
                }
            }
            _ => {}
        }
    }
}
