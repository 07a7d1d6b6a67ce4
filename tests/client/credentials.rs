//! Credentials that change under load: no request fails, and no watch ends.
//!
//! A few seconds each; MAINSTAY_LOAD_SECONDS=60 and MAINSTAY_TOKEN_SECONDS=5 for the full figures.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::jiff::Timestamp;
use mainstay::apiserver::{Access, ApiServer, ApiServerOptions, Client as User, Fault, Rule};
use mainstay::client::{
    CONFIG_MAP, Client, ClientOptions, Config, ConfigSource, DeleteOptions, WatchFrame,
    WatchOptions,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::identities::{Identity, Known, authority};

/// Requests under way at a time.
const TASKS: usize = 16;

fn setting(name: &str, default: f64) -> Duration {
    let said = std::env::var(name).ok().and_then(|text| text.parse().ok());
    Duration::from_secs_f64(said.unwrap_or(default))
}

fn length() -> Duration {
    setting("MAINSTAY_LOAD_SECONDS", 3.0)
}

/// An API server on the loopback, and the folder of its client's kubeconfig.
struct Scene {
    server: ApiServer,
    folder: tempfile::TempDir,
    client: Client,
}

impl Scene {
    /// Whose client authenticates as `user` says; files stand in the folder before it is made.
    async fn new(
        config: Arc<rustls::ServerConfig>,
        authority: &str,
        folder: tempfile::TempDir,
        user: Value,
        tokens: BTreeMap<String, User>,
    ) -> Self {
        let server = ApiServer::new(ApiServerOptions {
            tokens,
            ..ApiServerOptions::default()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = server.clone();
        tokio::spawn(async move {
            serving
                .serve(listener, Some(config), std::future::pending())
                .await;
        });
        let client = client(address, authority, folder.path(), &user).await;
        Self {
            server,
            folder,
            client,
        }
    }

    /// With tokens.
    async fn with_tokens(folder: tempfile::TempDir, user: Value, first: &str) -> Self {
        let access = Access::tls("load", ["127.0.0.1".to_owned()]).unwrap();
        // The kubeconfig of the server's own making holds its authority.
        let shown = access.kubeconfig("127.0.0.1:1".parse().unwrap(), "x", "x");
        let shown: Value = serde_yaml::from_str(&shown).unwrap();
        let pem = &shown["clusters"][0]["cluster"]["certificate-authority-data"];
        let pem = base64::Engine::decode(
            &base64::engine::general_purpose::STANDARD,
            pem.as_str().unwrap(),
        );
        let pem = String::from_utf8(pem.unwrap()).unwrap();
        let server = access.server().unwrap();
        Self::new(server, &pem, folder, user, only(&[first])).await
    }
}

/// A client of the server there, whose kubeconfig stands in `folder`.
pub(crate) async fn client(
    address: SocketAddr,
    authority: &str,
    folder: &Path,
    user: &Value,
) -> Client {
    write(&folder.join("ca.pem"), authority);
    let cluster =
        json!({"server": format!("https://{address}"), "certificate-authority": "ca.pem"});
    let config = json!({
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": user}],
    });
    let file = folder.join("config");
    write(&file, &config.to_string());
    let source = ConfigSource {
        kubeconfig: Some(file),
        context: None,
    };
    let options = ClientOptions {
        qps: 1e6,
        burst: 1000,
        ..ClientOptions::default()
    };
    Client::new(Config::load(&source).await.unwrap(), options).unwrap()
}

fn only(tokens: &[&str]) -> BTreeMap<String, User> {
    let users = tokens
        .iter()
        .map(|token| ((*token).to_owned(), User::admin("me")));
    users.collect()
}

/// Whole or not at all, as the kubelet replaces files.
pub(crate) fn write(file: &Path, text: &str) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

/// Requests of all kinds, and a watch, until it is told to stop.
struct Load {
    stop: Arc<AtomicBool>,
    sent: watch::Sender<usize>,
    tasks: JoinSet<Vec<String>>,
    watch: tokio::task::JoinHandle<Result<usize, String>>,
}

impl Load {
    async fn start(client: &Client) -> Self {
        let (stop, sent) = (Arc::<AtomicBool>::default(), watch::Sender::new(0));
        let options = WatchOptions::default();
        let watch = client.watch(CONFIG_MAP, Some("default"), &options);
        let mut watch = watch.await.unwrap();
        let stopped = Arc::clone(&stop);
        let watch = tokio::spawn(async move {
            let mut seen = 0;
            while !stopped.load(Ordering::SeqCst) {
                match watch.next::<Value>().await {
                    Some(Ok(WatchFrame::Error(error)) | Err(error)) => {
                        return Err(error.to_string());
                    }
                    Some(Ok(_)) => seen += 1,
                    None => return Err("it ended".to_owned()),
                }
            }
            Ok(seen)
        });
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (client, stop, sent) = (client.clone(), Arc::clone(&stop), sent.clone());
            tasks.spawn(async move {
                let mut failures = Vec::new();
                for round in 0.. {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let name = format!("c-{task}-{}", round / 4);
                    if let Err(error) = request(&client, round % 4, &name).await {
                        failures.push(format!("{name}: {error}"));
                    }
                    sent.send_modify(|sent| *sent += 1);
                }
                failures
            });
        }
        Self {
            stop,
            sent,
            tasks,
            watch,
        }
    }

    /// Waits until so many more requests have ended.
    async fn go_on(&self, requests: usize) {
        let mut sent = self.sent.subscribe();
        let until = *sent.borrow() + requests;
        sent.wait_for(|sent| *sent >= until).await.unwrap();
    }

    /// Requests, failures and what the watch saw.
    async fn end(mut self, client: &Client) -> (usize, Vec<String>, Result<usize, String>) {
        self.stop.store(true, Ordering::SeqCst);
        let mut failures = Vec::new();
        while let Some(task) = self.tasks.join_next().await {
            failures.extend(task.unwrap());
        }
        // One more event, for the watch to see that it is over.
        request(client, 0, "the-last").await.unwrap();
        let watched = self.watch.await.unwrap();
        (*self.sent.borrow(), failures, watched)
    }
}

/// The life of a ConfigMap: created (a POST is never repeated blindly), read, changed, deleted.
pub(crate) async fn request(
    client: &Client,
    step: usize,
    name: &str,
) -> Result<(), mainstay::client::Error> {
    let namespace = Some("default");
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    match step {
        0 => client
            .create::<_, Value>(CONFIG_MAP, namespace, &body)
            .await
            .map(drop),
        1 => client
            .get::<Value>(CONFIG_MAP, namespace, name)
            .await
            .map(drop),
        2 => {
            let change = json!({"data": {"a": "b"}});
            let patch = mainstay::client::Patch::Merge(&change);
            let patched = client.patch::<Value>(CONFIG_MAP, namespace, name, None, patch);
            patched.await.map(drop)
        }
        _ => {
            client
                .delete(CONFIG_MAP, namespace, name, &DeleteOptions::default())
                .await
        }
    }
}

async fn judge(what: &str, load: Load, client: &Client) {
    let started = Instant::now();
    let (sent, failures, watched) = load.end(client).await;
    println!(
        "{what}: {sent} requests, {} failed, watch: {watched:?} ({:?})",
        failures.len(),
        started.elapsed()
    );
    assert!(failures.is_empty(), "{what}: {}", failures.join("\n"));
    assert!(watched.is_ok_and(|events| events > 0), "{what}: the watch");
    assert!(sent > 100, "{what}: no load");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cgo1345_a_token_file_that_is_rotated_under_load_fails_no_request() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("token"), "t0\n");
    let user = json!({"tokenFile": "token"});
    let scene = Scene::with_tokens(folder, user, "t0").await;
    let load = Load::start(&scene.client).await;
    let (started, mut rotations) = (Instant::now(), 0);
    while started.elapsed() < length() {
        load.go_on(200).await;
        rotations += 1;
        let token = format!("t{rotations}");
        write(&scene.folder.path().join("token"), &token);
        // The old one is not known any more from this moment: the harshest rotation there is.
        scene.server.set_tokens(only(&[&token]));
    }
    judge(
        &format!("{rotations} rotations of a token file"),
        load,
        &scene.client,
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k1126_a_plugin_whose_token_expires_every_few_seconds_fails_no_request() {
    let life = setting("MAINSTAY_TOKEN_SECONDS", 1.0);
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("get-token");
    std::fs::write(&plugin, "#!/bin/sh\necho >> \"$0.runs\"\ncat \"$0.json\"\n").unwrap();
    std::fs::set_permissions(&plugin, Permissions::from_mode(0o700)).unwrap();
    issue(&plugin, "t0", life);
    let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "./get-token",
                      "interactiveMode": "Never"});
    let scene = Scene::with_tokens(folder, json!({"exec": exec}), "t0").await;
    let load = Load::start(&scene.client).await;
    let (started, mut issued) = (Instant::now(), 0);
    let mut valid = vec![("t0".to_owned(), Instant::now() + life)];
    // An identity provider: a token is good for its life, and a new one is there at half of it.
    while started.elapsed() < length() {
        load.go_on(50).await;
        let now = Instant::now();
        if valid
            .last()
            .is_none_or(|(_, until)| *until - now < life / 2)
        {
            issued += 1;
            let token = format!("t{issued}");
            valid.push((token.clone(), now + life));
            issue(&plugin, &token, life);
        }
        valid.retain(|(_, until)| *until > now);
        let names: Vec<&str> = valid.iter().map(|(name, _)| name.as_str()).collect();
        scene.server.set_tokens(only(&names));
    }
    let runs = std::fs::read_to_string(runs_of(&plugin))
        .unwrap()
        .lines()
        .count();
    let what = format!("a plugin's token for {life:?}, {issued} issued, {runs} runs");
    judge(&what, load, &scene.client).await;
    assert!(
        runs > 1 && runs <= 2 * issued + 2,
        "{runs} runs for {issued} tokens"
    );
}

fn issue(plugin: &Path, token: &str, life: Duration) {
    let expiry = Timestamp::now() + life;
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token, "expirationTimestamp": expiry.to_string()},
    });
    write(&plugin.with_extension("json"), &credential.to_string());
}

fn runs_of(plugin: &Path) -> PathBuf {
    plugin.with_extension("runs")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k1962_a_client_certificate_that_is_replaced_under_load_fails_no_request_and_no_watch() {
    let ours = authority();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    let put = move |identity: &Identity| {
        // One after the other: half a rotation is what a reader may see.
        write(&path.join("tls.crt"), &identity.certificate);
        write(&path.join("tls.key"), &identity.key);
    };
    let mut current = ours.client();
    put(&current);
    let known = Known::new(&ours.pem);
    known.accept(&current);
    let config = ours.server("127.0.0.1", &known);
    let user = json!({"client-certificate": "tls.crt", "client-key": "tls.key"});
    let scene = Scene::new(config, &ours.pem, folder, user, BTreeMap::new()).await;
    // Connections come and go meanwhile, so that handshakes are made all the time.
    scene
        .server
        .faults()
        .add(Rule::always(Fault::GoAway).share(0.005));
    let load = Load::start(&scene.client).await;
    let (started, mut replaced) = (Instant::now(), 0);
    while replaced == 0 || started.elapsed() < length() {
        load.go_on(200).await;
        let next = ours.client();
        known.accept(&next);
        put(&next);
        let waiting = Instant::now();
        while !known.has_seen(&next) {
            assert!(
                waiting.elapsed() < Duration::from_secs(20),
                "it is never shown"
            );
            load.go_on(20).await;
        }
        // Whoever showed the old one now would be refused.
        known.refuse(&current);
        (current, replaced) = (next, replaced + 1);
    }
    load.go_on(200).await;
    judge(
        &format!("{replaced} client certificates"),
        load,
        &scene.client,
    )
    .await;
}
