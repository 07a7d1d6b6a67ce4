//! The embedded API server beside kube-apiserver with etcd: writes a second, watch events a second
//! with a hundred watchers, and bytes an object with 100 000 ConfigMaps.
//!
//! Both are processes of their own, asked over HTTPS by one client on the same machine in the same
//! run. The real ones are those of the truth test (`tests/conformance`); where there are none, only
//! the embedded server is measured. `cargo bench --bench apiserver -- 20000` takes fewer objects.

#[path = "../tests/conformance/http.rs"]
#[allow(dead_code, reason = "shared with the truth test")]
mod http;
#[path = "../tests/conformance/target/mod.rs"]
#[allow(dead_code, reason = "shared with the truth test")]
mod target;

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use target::{Pair, Target, programs};
use tokio::task::JoinSet;

/// ConfigMaps, where no other number is given.
const OBJECTS: usize = 100_000;
/// Bytes of data in each.
const DATA: usize = 512;
/// Requests in flight while objects are made and changed.
const CLIENTS: usize = 32;
/// Watches of one namespace.
const WATCHERS: usize = 100;
/// Objects in that namespace, each of which is changed once.
const CHANGES: usize = 2_000;
/// A started process says where it listens within so many looks at this distance.
const LOOKS: u32 = 500;
const PAUSE: Duration = Duration::from_millis(20);

fn main() -> ExitCode {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime starts");
    match runtime.block_on(measure_both()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("apiserver: {what}");
            ExitCode::FAILURE
        }
    }
}

async fn measure_both() -> Result<(), String> {
    let objects = std::env::args()
        .skip(1)
        .find_map(|argument| argument.parse().ok())
        .unwrap_or(OBJECTS);
    let mut columns = Vec::new();
    {
        let embedded = Embedded::start().await?;
        let pids = [embedded.process.id()];
        columns.push((
            "mainstay apiserver",
            measure(embedded.target, &pids, objects).await?,
        ));
    }
    match programs() {
        Ok(folder) => {
            let (target, processes) = Pair::start(&folder).await?.split();
            let pids = processes.pids();
            columns.push((
                "kube-apiserver + etcd",
                measure(target, &pids, objects).await?,
            ));
        }
        Err(why) => eprintln!("apiserver: no kube-apiserver to compare with: {why}"),
    }
    print(objects, &columns);
    Ok(())
}

/// What was measured of one server.
#[derive(Clone, Copy, Debug)]
struct Measured {
    idle: u64,
    full: u64,
    creates: f64,
    list: Duration,
    told: Told,
}

/// What watchers were told.
#[derive(Clone, Copy, Debug)]
struct Told {
    changes: f64,
    events: f64,
    /// Watches that the server ended, for they were slow.
    reopened: usize,
}

/// A row's name, and what stands in it with so many objects.
type Row = (&'static str, fn(&Measured, usize) -> String);

const ROWS: [Row; 8] = [
    ("creates a second", |it, _| format!("{:.0}", it.creates)),
    ("updates a second, watched", |it, _| {
        format!("{:.0}", it.told.changes)
    }),
    ("watch events a second", |it, _| {
        format!("{:.0}", it.told.events)
    }),
    ("watches that had to be reopened", |it, _| {
        it.told.reopened.to_string()
    }),
    ("list of all, in pages of 500", |it, _| {
        format!("{:.2} s", it.list.as_secs_f64())
    }),
    ("memory when empty", |it, _| {
        format!("{} MiB", it.idle >> 20)
    }),
    ("memory when full", |it, _| format!("{} MiB", it.full >> 20)),
    ("bytes an object", |it, objects| {
        format!(
            "{:.0}",
            it.full.saturating_sub(it.idle) as f64 / objects as f64
        )
    }),
];

fn print(objects: usize, columns: &[(&str, Measured)]) {
    println!(
        "\n{objects} ConfigMaps with {DATA} bytes of data, {CLIENTS} requests in flight, {WATCHERS} watchers\n"
    );
    print!("{:32}", "");
    columns.iter().for_each(|(name, _)| print!("{name:>24}"));
    println!();
    for (row, value) in ROWS {
        print!("{row:32}");
        columns
            .iter()
            .for_each(|(_, measured)| print!("{:>24}", value(measured, objects)));
        println!();
    }
}

async fn measure(target: Target, pids: &[u32], objects: usize) -> Result<Measured, String> {
    let target = Arc::new(target);
    for namespace in ["full", "watched"] {
        let body =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        expect(&target, "POST", "/api/v1/namespaces", Some(body), 201).await?;
    }
    let idle = memory(pids)?;
    let begin = Instant::now();
    all(&target, objects, |target, n| async move {
        let path = "/api/v1/namespaces/full/configmaps";
        expect(&target, "POST", path, Some(config_map(n, 0)), 201).await
    })
    .await?;
    let creates = objects as f64 / begin.elapsed().as_secs_f64();
    let full = memory(pids)?;
    let begin = Instant::now();
    let listed = list(&target).await?;
    if listed != objects {
        return Err(format!("{listed} objects are listed, {objects} were made"));
    }
    let list = begin.elapsed();
    let told = fan_out(&target).await?;
    Ok(Measured {
        idle,
        full,
        creates,
        list,
        told,
    })
}

const WATCHED: &str = "/api/v1/namespaces/watched/configmaps";

/// Updates and events a second: of every update each watcher is told.
async fn fan_out(target: &Arc<Target>) -> Result<Told, String> {
    all(target, CHANGES, |target, n| async move {
        expect(&target, "POST", WATCHED, Some(config_map(n, 0)), 201).await
    })
    .await?;
    let (_, list) = target
        .admin("GET", &format!("{WATCHED}?limit=1"), None)
        .await?;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or("0");
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let lines = watch(target, version).await?;
        watchers.spawn(follow(Arc::clone(target), lines));
    }
    let begin = Instant::now();
    all(target, CHANGES, |target, n| async move {
        let path = format!("{WATCHED}/config-{n}");
        expect(&target, "PUT", &path, Some(config_map(n, 1)), 200).await
    })
    .await?;
    let changes = CHANGES as f64 / begin.elapsed().as_secs_f64();
    let mut reopened = 0;
    while let Some(watcher) = watchers.join_next().await {
        reopened += watcher.map_err(|error| error.to_string())??;
    }
    let events = (CHANGES * WATCHERS) as f64 / begin.elapsed().as_secs_f64();
    Ok(Told {
        changes,
        events,
        reopened,
    })
}

async fn watch(target: &Target, version: &str) -> Result<http::Lines, String> {
    let path = format!("{WATCHED}?watch=true&resourceVersion={version}");
    let response = target
        .send(None, "GET", &path, Vec::new(), Vec::new())
        .await?;
    Ok(http::Lines::new(response.into_body()))
}

/// Reads of every change. A server may end a watch that is slow: it goes on where it was, as clients
/// do. Gives how often that was so.
async fn follow(target: Arc<Target>, mut lines: http::Lines) -> Result<usize, String> {
    let mut last = Vec::new();
    let mut reopened = 0;
    for _ in 0..CHANGES {
        last = loop {
            if let Some(line) = lines.next().await? {
                break line;
            }
            let event: Value = serde_json::from_slice(&last).unwrap_or_default();
            let version = event["object"]["metadata"]["resourceVersion"].as_str();
            let version = version.ok_or_else(|| format!("a watch ended: {event}"))?;
            lines = watch(&target, version).await?;
            reopened += 1;
        };
    }
    Ok(reopened)
}

async fn list(target: &Target) -> Result<usize, String> {
    let mut count = 0;
    let mut next = String::new();
    loop {
        let path = format!("/api/v1/namespaces/full/configmaps?limit=500&continue={next}");
        let (status, page) = target.admin("GET", &path, None).await?;
        if status != 200 {
            return Err(format!("list: {status} {page}"));
        }
        // A real cluster puts one of its own in.
        let items = page["items"].as_array().into_iter().flatten();
        let own = |item: &&Value| {
            let name = item["metadata"]["name"].as_str();
            name.is_some_and(|name| name.starts_with("config-"))
        };
        count += items.filter(own).count();
        match page["metadata"]["continue"].as_str() {
            Some(token) if !token.is_empty() => token.clone_into(&mut next),
            _ => return Ok(count),
        }
    }
}

fn config_map(n: usize, round: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("config-{n}"), "labels": {"app": format!("app-{}", n % 100)}},
        "data": {"round": round.to_string(), "text": "x".repeat(DATA)},
    })
}

/// Does `work` for every number below `count`, a few at a time.
async fn all<F, Work>(target: &Arc<Target>, count: usize, work: F) -> Result<(), String>
where
    F: Fn(Arc<Target>, usize) -> Work + Clone + Send + 'static,
    Work: Future<Output = Result<(), String>> + Send,
{
    let next = Arc::new(AtomicUsize::new(0));
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        let (target, next, work) = (Arc::clone(target), Arc::clone(&next), work.clone());
        clients.spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= count {
                    return Ok::<(), String>(());
                }
                work(Arc::clone(&target), n).await?;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.map_err(|error| error.to_string())??;
    }
    Ok(())
}

async fn expect(
    target: &Target,
    method: &str,
    path: &str,
    body: Option<Value>,
    wanted: u16,
) -> Result<(), String> {
    match target.admin(method, path, body).await? {
        (status, _) if status == wanted => Ok(()),
        (status, body) => Err(format!("{method} {path}: {status} {body}")),
    }
}

/// Resident bytes of these processes.
fn memory(pids: &[u32]) -> Result<u64, String> {
    let mut sum = 0;
    for pid in pids {
        let output = Command::new("ps")
            .args(["-o", "rss=", "-p", &pid.to_string()])
            .output()
            .map_err(|error| format!("ps: {error}"))?;
        let kib: u64 = String::from_utf8_lossy(&output.stdout)
            .trim()
            .parse()
            .map_err(|_| format!("process {pid} has ended"))?;
        sum += kib * 1024;
    }
    Ok(sum)
}

/// `mainstay apiserver`, which ends with it.
struct Embedded {
    target: Target,
    process: Ended,
}

/// A process that is killed when it is dropped.
struct Ended(Child);

impl Ended {
    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Embedded {
    async fn start() -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let kubeconfig = folder.path().join("kubeconfig");
        let process = Command::new(env!("CARGO_BIN_EXE_mainstay"))
            .args([
                "apiserver",
                "--tls",
                "--token",
                "admin=admin-token",
                "--kubeconfig-out",
            ])
            .arg(&kubeconfig)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("mainstay apiserver: {error}"))?;
        let process = Ended(process);
        let file = kubeconfig.display().to_string();
        for _ in 0..LOOKS {
            if let Ok(target) = Target::of_kubeconfig(&file)
                && matches!(target.admin("GET", "/readyz", None).await, Ok((200, _)))
            {
                return Ok(Self { target, process });
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err("mainstay apiserver does not become ready".to_owned())
    }
}
