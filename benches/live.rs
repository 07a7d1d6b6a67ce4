//! A large cache that goes on living: how long after a write a reconcile starts, while all other
//! objects are gone through again.
//!
//! `KUBECONFIG=FILE cargo bench --bench live -- [OBJECTS [CHANGES [SECONDS]]]`, by default 100 000
//! `ConfigMaps` in ten namespaces `live-N` of that API server (made if they are missing, and left
//! there), 200 changes a second, for 60 s. Without `KUBECONFIG` against the API server in memory, which
//! then shares the process.

#[path = "capacity/proc.rs"]
mod proc;

use std::collections::HashMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mainstay::apiserver::{Access, ApiServer, ApiServerOptions};
use mainstay::client::{
    CONFIG_MAP, Client, ClientOptions, Config, ConfigSource, Error, NAMESPACE, Patch, Resource,
};
use mainstay::runtime::{
    Change, Controller, ControllerOptions, Kind, ListWatch, Meta, ObjectKey, Outcome, Priority,
    Queue, ReconcileError, Reconciler, Scope, Shutdown, Store,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// This process.
const OWN: &str = "self";
const NAMESPACES: usize = 10;
const LABEL: &str = "bench=live";
/// What a reconcile waits for, as if it asked somebody.
const WORK: Duration = Duration::from_millis(2);

#[derive(serde::Deserialize)]
struct Row {
    metadata: Meta,
    #[serde(default)]
    data: Data,
}

#[derive(Default, serde::Deserialize)]
struct Data {
    /// When it was written, in microseconds since the program began.
    #[serde(default)]
    at: String,
}

impl Kind for Row {
    const RESOURCE: Resource = CONFIG_MAP;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

fn main() -> ExitCode {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let number = |nth: usize, or: u64| numbers.get(nth).copied().unwrap_or(or);
    let objects = usize::try_from(number(0, 100_000)).expect("a number of objects");
    let (changes, seconds) = (number(1, 200), number(2, 60));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    runtime.block_on(measure(objects, changes, Duration::from_secs(seconds)));
    ExitCode::SUCCESS
}

async fn measure(objects: usize, changes: u64, lasts: Duration) {
    let client = connect().await;
    let filled = Instant::now();
    fill(&client, objects).await;
    println!("filling: {:.1} s", filled.elapsed().as_secs_f64());

    let began = Instant::now();
    let seen = Arc::new(Seen {
        began,
        told: Times::default(),
        started: Times::default(),
        last: Mutex::default(),
    });
    let (queue, store) = (
        Queue::new("live", client.environment()),
        Store::<Row>::new(),
    );
    let (woken, told) = (queue.clone(), Arc::clone(&seen));
    let handler = move |change: Change<Row>| {
        if let Change::Applied { old, new } = change {
            let priority = if old.is_some() {
                told.told.record(began, &new.data);
                Priority::Normal
            } else {
                Priority::Low
            };
            woken.add(new.metadata.key(), priority);
        }
    };
    let scope = Scope {
        label_selector: Some(LABEL.to_owned()),
        ..Scope::default()
    };
    let shutdown = Shutdown::new();
    let (cpu, resident) = (proc::cpu(OWN), mib("VmRSS"));
    let watch = ListWatch::new(client.clone(), scope, store.clone(), handler);
    let watching = tokio::spawn(watch.run(shutdown.clone()));
    store.synced().await;
    let keys: Vec<ObjectKey> = store
        .list()
        .expect("synced")
        .iter()
        .map(|row| row.metadata.key())
        .collect();
    println!(
        "first list of {}: {:.2} s, CPU {:.2} s, resident {:.0} MiB (before {:.0}, at most {:.0})",
        keys.len(),
        began.elapsed().as_secs_f64(),
        proc::cpu(OWN) - cpu,
        mib("VmRSS"),
        resident,
        mib("VmHWM"),
    );
    let reconciler = Arc::new(Looker {
        store: store.clone(),
        seen: Arc::clone(&seen),
    });
    let controller = Controller::new(
        "live",
        queue.clone(),
        reconciler,
        ControllerOptions::default(),
    );
    let running = tokio::spawn(controller.run(shutdown.clone(), Duration::from_secs(1)));
    until_empty(&queue).await;

    let begun = Instant::now();
    let cpu = proc::cpu(OWN);
    for key in &keys {
        queue.add(key.clone(), Priority::Low);
    }
    let going_through = async {
        until_empty(&queue).await;
        begun.elapsed()
    };
    let writing = write(&client, &keys, changes, lasts, began);
    let (resync, written) = tokio::join!(going_through, writing);
    println!(
        "{written} changes in {:.1} s, all {} gone through again meanwhile in {:.1} s; CPU {:.2} s (the writer's is in it), resident {:.0} MiB, at most {:.0}",
        begun.elapsed().as_secs_f64(),
        keys.len(),
        resync.as_secs_f64(),
        proc::cpu(OWN) - cpu,
        mib("VmRSS"),
        mib("VmHWM"),
    );
    shutdown.trigger();
    let _ = running.await;
    let _ = watching.await;
    seen.told.print("sending to the cache");
    seen.started.print("sending to the reconcile's start");
}

async fn connect() -> Client {
    let kubeconfig = match std::env::var_os("KUBECONFIG") {
        Some(file) => file.into(),
        None => in_memory().await,
    };
    let source = ConfigSource {
        kubeconfig: Some(kubeconfig),
        context: None,
    };
    let config = Config::load(&source).await.expect("a kubeconfig");
    let options = ClientOptions {
        qps: 1e6,
        burst: 1_000_000,
        max_in_flight: 1000,
        ..ClientOptions::default()
    };
    Client::new(config, options).expect("a client")
}

async fn in_memory() -> std::path::PathBuf {
    let server = ApiServer::new(ApiServerOptions::default());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let address = listener.local_addr().expect("an address");
    let file = std::env::temp_dir().join(format!("mainstay-live-{}", std::process::id()));
    let kubeconfig = Access::plain("live").kubeconfig(address, "live", "any");
    std::fs::write(&file, kubeconfig).expect("a file");
    tokio::spawn(async move { server.serve(listener, None, std::future::pending()).await });
    file
}

/// Makes what is missing.
async fn fill(client: &Client, objects: usize) {
    for nth in 0..NAMESPACES {
        let namespace = json!({"metadata": {"name": format!("live-{nth}")}});
        there(client.create::<_, Value>(NAMESPACE, None, &namespace).await);
    }
    let mut tasks = JoinSet::new();
    for first in 0..64 {
        let client = client.clone();
        tasks.spawn(async move {
            for nth in (first..objects).step_by(64) {
                let object = json!({
                    "metadata": {"name": format!("o-{nth}"), "labels": {"bench": "live"}},
                    "data": {"at": "0", "filler": "x".repeat(1000)},
                });
                let namespace = format!("live-{}", nth % NAMESPACES);
                there(
                    client
                        .create::<_, Value>(CONFIG_MAP, Some(&namespace), &object)
                        .await,
                );
            }
        });
    }
    tasks.join_all().await;
}

fn there(created: Result<Value, Error>) {
    match created {
        Ok(_) | Err(Error::AlreadyExists { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

/// Changes one object after the other, at that pace. Returns how many.
async fn write(
    client: &Client,
    keys: &[ObjectKey],
    changes: u64,
    lasts: Duration,
    began: Instant,
) -> usize {
    let mut tick =
        tokio::time::interval(Duration::from_secs(1) / u32::try_from(changes).expect("a pace"));
    let (mut tasks, begun, mut written) = (JoinSet::new(), Instant::now(), 0);
    // Far from one another.
    let order = keys.iter().cycle().step_by(7919);
    for key in order {
        if begun.elapsed() >= lasts {
            break;
        }
        tick.tick().await;
        let (client, key) = (client.clone(), key.clone());
        tasks.spawn(async move {
            let body = json!({"data": {"at": began.elapsed().as_micros().to_string()}});
            let patch = Patch::Merge(&body);
            let patched =
                client.patch::<Value>(CONFIG_MAP, Some(&*key.namespace), &key.name, None, patch);
            patched.await.expect("a write");
        });
        written += 1;
    }
    tasks.join_all().await;
    written
}

async fn until_empty(queue: &Queue) {
    let mut look = tokio::time::interval(Duration::from_millis(10));
    while !queue.is_empty() {
        look.tick().await;
    }
}

/// Times from a write on, in microseconds.
#[derive(Default)]
struct Times(Mutex<Vec<u64>>);

impl Times {
    fn record(&self, began: Instant, data: &Data) {
        let now = u64::try_from(began.elapsed().as_micros()).expect("a short run");
        if let Ok(at @ 1..) = data.at.parse::<u64>()
            && at <= now
        {
            self.0.lock().expect("no panic").push(now - at);
        }
    }

    fn print(&self, what: &str) {
        let mut times = self.0.lock().expect("no panic").clone();
        times.sort_unstable();
        let part =
            |part: usize| times[(times.len() * part / 1000).min(times.len() - 1)] as f64 / 1000.0;
        println!(
            "from {what}: {} times, p50 {:.2} ms, p99 {:.2} ms, longest {:.2} ms",
            times.len(),
            part(500),
            part(990),
            part(1000)
        );
    }
}

struct Seen {
    began: Instant,
    told: Times,
    started: Times,
    /// What a key was reconciled at last.
    last: Mutex<HashMap<ObjectKey, String>>,
}

struct Looker {
    store: Store<Row>,
    seen: Arc<Seen>,
}

impl Reconciler for Looker {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let Some(row) = self.store.get(key)? else {
            return Ok(Outcome::Done);
        };
        let at = &row.data.at;
        let before = self
            .seen
            .last
            .lock()
            .expect("no panic")
            .insert(key.clone(), at.clone());
        if before.is_some_and(|before| before != *at) {
            self.seen.started.record(self.seen.began, &row.data);
        }
        tokio::time::sleep(WORK).await;
        Ok(Outcome::Done)
    }
}

/// A line of its own status, in MiB.
fn mib(name: &str) -> f64 {
    proc::status(OWN, name) as f64 / f64::from(1 << 20)
}
