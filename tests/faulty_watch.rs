//! A watch through a proxy with faults while objects change: at the end the cache equals the server's
//! list, and what the handler was told adds up to it.
//!
//! Some seconds against the API server in memory. `MAINSTAY_WATCH_SECONDS=600` for the long run, and
//! `MAINSTAY_WATCH_KUBECONFIG=FILE` for an API server of one's own (namespace `default` is written to).
//! `cargo test --test faulty_watch -- --nocapture` prints what happened.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mainstay::apiserver::{Access, ApiServer, ApiServerOptions, Fault, Rule};
use mainstay::client::{
    CONFIG_MAP, Client, ClientOptions, Config, ConfigSource, DeleteOptions, Error, Jitter,
    ListOptions, Patch, Resource,
};
use mainstay::runtime::{Change, Kind, ListWatch, Meta, Scope, Shutdown, Store};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Names that are written to.
const NAMES: u64 = 300;
/// Writes a second.
const WRITES: u32 = 40;
const LABEL: &str = "faulty-watch";
/// Until the cache has caught up once the faults are over. A silent watch is given up after 6 min 30 s.
const CATCH_UP: Duration = Duration::from_mins(7);
/// What the process may grow by after its first list. The server in memory keeps its history in it.
const GROWTH: usize = 64 << 20;

#[derive(Debug, serde::Deserialize)]
struct Row {
    metadata: Meta,
}

impl Kind for Row {
    const RESOURCE: Resource = CONFIG_MAP;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// Key → (UID, version).
type Rows = BTreeMap<String, (String, String)>;

fn row(meta: &Meta) -> (String, (String, String)) {
    let version = meta.resource_version.to_string();
    (meta.key().to_string(), (meta.uid.to_string(), version))
}

/// Adds up what the handler is told.
#[derive(Default)]
struct Told {
    rows: Rows,
    changes: usize,
    wrong: Vec<String>,
}

impl Told {
    fn change(&mut self, change: &Change<Row>) {
        let (key, before, after) = match change {
            Change::Applied { old, new } => {
                let (key, now) = row(&new.metadata);
                (key, old.as_ref().map(|old| row(&old.metadata).1), Some(now))
            }
            Change::Deleted { last } => {
                let (key, last) = row(&last.metadata);
                (key, Some(last), None)
            }
        };
        let held = match after {
            Some(now) => self.rows.insert(key.clone(), now),
            None => self.rows.remove(&key),
        };
        if held != before {
            self.wrong.push(format!("{key}: {held:?}, told {before:?}"));
        }
        self.changes += 1;
    }
}

fn rules(long: bool) -> Vec<Rule> {
    let part = |share, verb, fault| Rule {
        share,
        ..Rule::always(fault).on(verb)
    };
    let status = |code| Fault::Status {
        code,
        retry_after: None,
    };
    let slow = Fault::Slow {
        bytes: 50,
        milliseconds: 5,
    };
    let mut rules = vec![
        part(0.15, "watch", Fault::HalfFrame),
        part(0.15, "watch", Fault::Gone),
        part(0.15, "watch", Fault::Garbage),
        part(0.15, "watch", Fault::Repeat),
        part(0.15, "watch", Fault::NoBookmark),
        part(0.3, "watch", slow),
        // None lasts: the others strike at those that begin.
        part(
            1.0,
            "watch",
            Fault::Reset {
                after_bytes: if long { 100_000 } else { 3_000 },
            },
        ),
        part(0.1, "watch", status(429)),
        part(0.1, "watch", Fault::DropBefore),
        part(0.1, "list", status(503)),
        part(0.1, "list", Fault::Gone),
        part(0.1, "list", Fault::Reset { after_bytes: 5_000 }),
        part(0.2, "list", Fault::Gzip),
    ];
    if long {
        let silent = Rule::always(Fault::Silent).on("watch");
        rules.push(Rule {
            share: 0.1,
            times: Some(1),
            ..silent
        });
    }
    rules
}

/// A server on loopback; a client of it, and the server.
async fn serve(options: ApiServerOptions, folder: &Path, name: &str) -> (Client, ApiServer) {
    let server = ApiServer::new(options);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let file = folder.join(name);
    let kubeconfig = Access::plain(name).kubeconfig(address, "watcher", "any");
    std::fs::write(&file, kubeconfig).unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, None, std::future::pending()).await });
    (client(file).await, server)
}

async fn client(kubeconfig: PathBuf) -> Client {
    let source = ConfigSource {
        kubeconfig: Some(kubeconfig),
        context: None,
    };
    let config = Config::load(&source).await.unwrap();
    let options = ClientOptions {
        qps: 1_000.0,
        burst: 1_000,
        ..ClientOptions::default()
    };
    Client::new(config, options).unwrap()
}

/// One random write. Of what is there already, or gone, nothing is to be said.
async fn write(client: &Client, chance: &mut Jitter) {
    let name = format!("{LABEL}-{}", chance.bits() % NAMES);
    let namespace = Some("default");
    let written = if chance.bits().is_multiple_of(4) {
        let options = DeleteOptions::default();
        client.delete(CONFIG_MAP, namespace, &name, &options).await
    } else {
        let body = json!({"data": {"v": chance.bits().to_string()}});
        let patch = Patch::Merge(&body);
        let patched = client.patch::<Value>(CONFIG_MAP, namespace, &name, None, patch);
        match patched.await {
            Err(Error::NotFound { .. }) => {
                let object = json!({
                    "metadata": {"name": name, "labels": {LABEL: "yes"}},
                    "data": {"v": "new"},
                });
                let created = client.create(CONFIG_MAP, namespace, &object).await;
                created.map(|_: Value| ())
            }
            patched => patched.map(|_| ()),
        }
    };
    match written {
        Ok(()) | Err(Error::NotFound { .. } | Error::AlreadyExists { .. }) => {}
        Err(error) => panic!("the server itself has no faults: {error}"),
    }
}

fn scope() -> Scope {
    Scope {
        namespaces: ["default".to_owned()].into(),
        label_selector: Some(format!("{LABEL}=yes")),
        field_selector: None,
    }
}

async fn on_the_server(client: &Client) -> Rows {
    let options = ListOptions {
        label_selector: scope().label_selector,
        ..ListOptions::default()
    };
    let page = client
        .list::<Row>(CONFIG_MAP, Some("default"), &options)
        .await;
    let items = page.unwrap().items.into_iter();
    let rows = items.map(|object| row(&object.unwrap().metadata));
    rows.collect()
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cache_behind_a_faulty_proxy_equals_the_server() {
    let seconds = std::env::var("MAINSTAY_WATCH_SECONDS").map(|text| text.parse().unwrap());
    let lasts = Duration::from_secs(seconds.unwrap_or(6));
    let long = lasts >= Duration::from_mins(1);
    let metrics = metrics_exporter_prometheus::PrometheusBuilder::new()
        .install_recorder()
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Held to the end, where it is our own.
    let mut own = None;
    let upstream = if let Some(file) = std::env::var_os("MAINSTAY_WATCH_KUBECONFIG") {
        client(file.into()).await
    } else {
        let options = ApiServerOptions::default();
        let (client, server) = serve(options, folder.path(), "server").await;
        own = Some(server);
        client
    };
    let options = ApiServerOptions {
        upstream: Some(upstream.clone()),
        ..ApiServerOptions::default()
    };
    let (through, proxy) = serve(options, folder.path(), "proxy").await;

    for rule in rules(long) {
        proxy.faults().add(rule);
    }
    let (store, told) = (Store::<Row>::new(), Arc::<Mutex<Told>>::default());
    let telling = Arc::clone(&told);
    let handler = move |change: Change<Row>| telling.lock().unwrap().change(&change);
    let watch = ListWatch::new(through, scope(), store.clone(), handler);
    let shutdown = Shutdown::new();
    let watching = tokio::spawn(watch.run(shutdown.clone()));

    let mut chance = Jitter::seeded(1);
    for _ in 0..NAMES {
        write(&upstream, &mut chance).await;
    }
    let in_time = tokio::time::timeout(CATCH_UP, store.synced()).await;
    in_time.expect("a first list comes through");
    let (begun, before, mut most) = (Instant::now(), resident(), 0);
    let mut tick = tokio::time::interval(Duration::from_secs(1) / WRITES);
    let mut writes = 0;
    while begun.elapsed() < lasts {
        tick.tick().await;
        write(&upstream, &mut chance).await;
        writes += 1;
        most = most.max(resident());
    }
    let injected = proxy.faults().injected();
    proxy.faults().clear();

    let server = on_the_server(&upstream).await;
    let over = Instant::now();
    loop {
        let cached = store.list().unwrap();
        let cached: Rows = cached.iter().map(|held| row(&held.metadata)).collect();
        if cached == server {
            break;
        }
        assert!(over.elapsed() < CATCH_UP, "{cached:#?} is not {server:#?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let caught_up = over.elapsed();
    shutdown.trigger();
    watching.await.unwrap();
    drop(own);
    let told = told.lock().unwrap();
    println!(
        "{writes} writes in {:.0} s, {} changes told, {} objects at the end, caught up {:.2} s after the faults",
        lasts.as_secs_f64(),
        told.changes,
        server.len(),
        caught_up.as_secs_f64(),
    );
    println!("faults: {injected:?}");
    println!(
        "resident: {:.1} MiB before, {:.1} MiB at most",
        before as f64 / f64::from(1 << 20),
        most as f64 / f64::from(1 << 20)
    );
    let rendered = metrics.render();
    let counted = ["mainstay_watch_lists_total{", "mainstay_watch_ends_total{"];
    for line in rendered.lines() {
        if counted.iter().any(|name| line.starts_with(name)) {
            println!("{line}");
        }
    }
    assert_eq!(told.wrong, Vec::<String>::new());
    assert_eq!(told.rows, server);
    assert!(!injected.is_empty(), "no fault struck");
    assert!(most < before + GROWTH, "it grew by {}", most - before);
}
