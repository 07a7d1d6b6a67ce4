//! Instance managers as processes on loopback addresses, each with a real mysqld.

use std::{
    future::Future,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Child, Command as Process, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use mainstay::{
    instance::{
        AppAccount, Command, CommandError, Follow, InstancePhase, InstanceStatus, Promote,
        TERM_HEADER,
    },
    mysql::ServerState,
};
use mysql_async::{Conn, OptsBuilder, prelude::Queryable as _};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

pub(crate) const MYSQL_PORT: u16 = 33060;
pub(crate) const MANAGER_PORT: u16 = 18443;
pub(crate) const TOKEN: &str = "the-token";
pub(crate) const APP: &str = "it's the app's";
/// What anything here may take on a slow machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// The mysqld to test with, or `None` after saying so.
pub(crate) fn mysqld() -> Option<PathBuf> {
    let named = std::env::var_os("MAINSTAY_TEST_MYSQLD").map(PathBuf::from);
    if named.is_none() {
        eprintln!("skipped: MAINSTAY_TEST_MYSQLD names no mysqld");
    }
    named
}

/// Waits until `look` answers something.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(began.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Files that the instances of a cluster share, and their addresses.
pub(crate) struct Cluster {
    pub(crate) folder: tempfile::TempDir,
    mysqld: PathBuf,
    subnet: [u8; 3],
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
}

impl Cluster {
    pub(crate) fn new(mysqld: PathBuf) -> Arc<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // 127/8 is ours alone; process and test tell clusters apart.
        let number = std::process::id().wrapping_mul(16) + NEXT.fetch_add(1, Ordering::Relaxed);
        let [_, high, middle, low] = number.to_be_bytes();
        let subnet = [127, high ^ middle | 1, low];
        let folder = tempfile::tempdir().unwrap();
        let roots = write_files(folder.path(), subnet);
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(tls)
            .https_only()
            .enable_http1()
            .enable_http2()
            .build();
        let http = Client::builder(TokioExecutor::new()).build(connector);
        Arc::new(Self {
            folder,
            mysqld,
            subnet,
            http,
        })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn host(&self, ordinal: u8) -> String {
        let [a, b, c] = self.subnet;
        Ipv4Addr::new(a, b, c, ordinal + 1).to_string()
    }

    /// Starts a manager. Its volume stays from one to the next.
    pub(crate) fn start(self: &Arc<Self>, ordinal: u8) -> Instance {
        let name = format!("t-{ordinal}");
        let volume = self.path(&name);
        let run = volume.join("run");
        std::fs::create_dir_all(&run).unwrap();
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(self.path(&format!("{name}.log")))
            .unwrap();
        let host = self.host(ordinal);
        let process = Process::new(env!("CARGO_BIN_EXE_mainstay"))
            .args([
                "instance",
                "run",
                "--name",
                &name,
                "--pod-uid",
                "uid",
                "--host",
                &host,
            ])
            .args(["--ordinal", &ordinal.to_string(), "--bind-address", &host])
            .args(["--mysql-port", &MYSQL_PORT.to_string()])
            .args(["--listen", &format!("{host}:{MANAGER_PORT}")])
            .args([Path::new("--volume"), &volume, Path::new("--run"), &run])
            .args([
                Path::new("--tmp"),
                &volume.join("tmp"),
                Path::new("--mysqld"),
                &self.mysqld,
            ])
            .args([
                Path::new("--config"),
                &self.path("my.cnf"),
                Path::new("--tls"),
                &self.path("tls"),
            ])
            .args([Path::new("--internal"), &self.path("internal")])
            .args([Path::new("--root-password"), &self.path("root")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Instance {
            cluster: self.clone(),
            host,
            run,
            volume,
            process,
        }
    }

    /// Starts `count` instances: the first is the writable primary, the others acknowledge.
    pub(crate) async fn bootstrap(self: &Arc<Self>, count: u8) -> Vec<Instance> {
        let instances: Vec<_> = (0..count).map(|ordinal| self.start(ordinal)).collect();
        for instance in &instances {
            let status = instance.running().await;
            let server = status.server.unwrap();
            assert!(server.super_read_only, "starts read-only");
            assert_eq!(
                server.gtid_executed, "",
                "starts without a transaction of its own"
            );
            assert_eq!(server.replication, None);
        }
        for replica in &instances[1..] {
            replica.obey(1, replica.follow(&instances[0])).await;
        }
        let acks = u32::from(count / 2);
        let promote = Promote {
            required: String::new(),
            acks,
        };
        instances[0].obey(1, Command::Promote(promote)).await;
        let refused = instances[0].command(1, &ensure_app()).await.unwrap_err();
        assert!(refused.message.contains("writable"), "{refused:?}");
        instances[0].obey(1, Command::Open).await;
        let status = instances[0].obey(1, ensure_app()).await;
        assert_eq!(status.app_hash, "h1");
        instances
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for entry in std::fs::read_dir(self.folder.path())
            .into_iter()
            .flatten()
            .flatten()
        {
            if entry
                .path()
                .extension()
                .is_some_and(|extension| extension == "log")
            {
                eprintln!("==== {}", entry.path().display());
                eprintln!(
                    "{}",
                    std::fs::read_to_string(entry.path()).unwrap_or_default()
                );
            }
        }
    }
}

pub(crate) fn ensure_app() -> Command {
    Command::EnsureApp(AppAccount {
        username: "app".into(),
        password: APP.into(),
        database: "my_app".into(),
        hash: "h1".into(),
    })
}

fn write_files(folder: &Path, subnet: [u8; 3]) -> rustls::RootCertStore {
    let ca_key = rcgen::KeyPair::generate().unwrap();
    let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    ca.distinguished_name
        .push(rcgen::DnType::CommonName, "test CA");
    let ca_certificate = ca.self_signed(&ca_key).unwrap();
    let issuer = rcgen::Issuer::new(ca, ca_key);
    let key = rcgen::KeyPair::generate().unwrap();
    let [a, b, c] = subnet;
    let names: Vec<_> = (1..8)
        .map(|host| Ipv4Addr::new(a, b, c, host).to_string())
        .collect();
    let certificate = rcgen::CertificateParams::new(names)
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();
    for (name, content) in [
        ("tls/ca.crt", ca_certificate.pem()),
        ("tls/tls.crt", certificate.pem()),
        ("tls/tls.key", key.serialize_pem()),
        ("internal/token", format!("{TOKEN}\n")),
        ("internal/admin", "admin'pw\\".into()),
        ("internal/replication", "replication-pw".into()),
        ("internal/clone", "clone-pw".into()),
        ("root", "root-pw".into()),
        ("my.cnf", "[mysqld]\ninnodb_buffer_pool_size=32M\n".into()),
    ] {
        let path = folder.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }
    let mut roots = rustls::RootCertStore::empty();
    roots.add(ca_certificate.der().clone()).unwrap();
    roots
}

/// A manager process.
pub(crate) struct Instance {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) host: String,
    pub(crate) run: PathBuf,
    pub(crate) volume: PathBuf,
    pub(crate) process: Child,
}

impl Instance {
    fn request(&self, path: &str) -> http::request::Builder {
        Request::builder()
            .uri(format!("https://{}:{MANAGER_PORT}{path}", self.host))
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
    }

    /// Code and body of a request; `None` where there is no answer.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Option<(StatusCode, Bytes)> {
        let answer = self.cluster.http.request(request).await.ok()?;
        let code = answer.status();
        Some((code, answer.into_body().collect().await.ok()?.to_bytes()))
    }

    pub(crate) async fn get(&self, path: &str) -> Option<(StatusCode, Bytes)> {
        self.send(self.request(path).body(Full::default()).unwrap())
            .await
    }

    pub(crate) async fn status(&self) -> Option<InstanceStatus> {
        let (_, body) = self.get("/v1/status").await?;
        serde_json::from_slice(&body).ok()
    }

    /// Waits for a status that satisfies `is`.
    pub(crate) async fn status_when(
        &self,
        what: &str,
        is: impl Fn(&InstanceStatus) -> bool,
    ) -> InstanceStatus {
        until(&format!("{}: {what}", self.host), || async {
            self.status().await.filter(|status| is(status))
        })
        .await
    }

    pub(crate) async fn running(&self) -> InstanceStatus {
        self.status_when("running", |status| {
            status.phase == InstancePhase::Running && status.server.is_some()
        })
        .await
    }

    pub(crate) async fn server(&self) -> ServerState {
        self.running().await.server.unwrap()
    }

    pub(crate) async fn command(
        &self,
        term: u64,
        command: &Command,
    ) -> Result<InstanceStatus, CommandError> {
        let body = Full::from(serde_json::to_vec(command).unwrap());
        let request = self
            .request("/v1/command")
            .method("POST")
            .header(TERM_HEADER, term)
            .body(body);
        let (code, body) = self.send(request.unwrap()).await.expect("an answer");
        if code == StatusCode::OK {
            return Ok(serde_json::from_slice(&body).unwrap());
        }
        Err(serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{code}: {body:?}")))
    }

    pub(crate) async fn obey(&self, term: u64, command: Command) -> InstanceStatus {
        match self.command(term, &command).await {
            Ok(status) => status,
            Err(error) => panic!("{}: {command:?}: {error:?}", self.host),
        }
    }

    /// The command to follow `source`.
    pub(crate) fn follow(&self, source: &Instance) -> Command {
        Command::Follow(Follow {
            source_host: source.host.clone(),
            acknowledge: true,
        })
    }

    /// Waits until it has executed `set`, by the server's own judgement.
    pub(crate) async fn executed(&self, set: &str) {
        let mut root = self.root().await;
        let query = format!(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {})",
            LIMIT.as_secs()
        );
        let reached: Option<u8> = root.query_first(query).await.unwrap();
        assert_eq!(reached, Some(0), "{} executes {set}", self.host);
        root.disconnect().await.unwrap();
    }

    pub(crate) async fn connect(&self, user: &str, password: &str) -> mysql_async::Result<Conn> {
        let options = OptsBuilder::default()
            .ip_or_hostname(&self.host)
            .tcp_port(MYSQL_PORT)
            .prefer_socket(false)
            .user(Some(user))
            .pass(Some(password));
        Conn::new(options).await
    }

    pub(crate) async fn app(&self) -> mysql_async::Result<Conn> {
        self.connect("app", APP).await
    }

    /// A session as root over the socket.
    pub(crate) async fn root(&self) -> Conn {
        let socket = self.run.join("mysqld.sock");
        let options = OptsBuilder::default()
            .socket(socket.to_str())
            .user(Some("root"))
            .pass(Some("root-pw"));
        Conn::new(options).await.unwrap()
    }

    fn mysqld_pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.run.join("mysqld.pid")).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    pub(crate) fn signal_mysqld(&self, signal: Signal) {
        kill(self.mysqld_pid().expect("mysqld runs"), signal).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the manager's end; its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let process = std::sync::Mutex::new(&mut self.process);
        until("the manager ends", || async {
            process.lock().unwrap().try_wait().unwrap()
        })
        .await
        .code()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // As in a container, where the end of PID 1 is the end of all.
        let pid = self.mysqld_pid();
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(pid) = pid {
            let _ = kill(pid, Signal::SIGKILL);
            while Path::new(&format!("/proc/{pid}")).exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
