//! Instance managers as processes on loopback addresses, each with a real mysqld.

use std::{
    future::Future,
    net::Ipv4Addr,
    path::{Path, PathBuf},
    process::{Command as Process, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http_body_util::Full;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use mainstay::{
    instance::{AppAccount, Command, Promote},
    mysql::GtidSet,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::Instant,
};

use crate::process::{Instance, follow};

pub(crate) const MYSQL_PORT: u16 = 33060;
pub(crate) const MANAGER_PORT: u16 = 18443;
pub(crate) const TOKEN: &str = "the-token";
pub(crate) const APP: &str = "it's the app's";
/// Clusters that run at a time. Most of their time they wait.
pub(crate) const AT_A_TIME: usize = 3;
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

pub(crate) fn set(text: &str) -> GtidSet {
    text.parse().unwrap()
}

pub(crate) fn promote(required: &str, acks: u32) -> Command {
    Command::Promote(Promote {
        required: required.to_owned(),
        acks,
    })
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
    pub(crate) http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    authority: Authority,
    /// A few clusters at a time: each needs up to two gigabytes of memory.
    _turn: SemaphorePermit<'static>,
}

impl Cluster {
    pub(crate) async fn new(mysqld: PathBuf) -> Arc<Self> {
        static TURN: Semaphore = Semaphore::const_new(AT_A_TIME);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let turn = TURN.acquire().await.unwrap();
        // 127/8 is ours alone; process and test tell clusters apart.
        let number = std::process::id().wrapping_mul(16) + NEXT.fetch_add(1, Ordering::Relaxed);
        let [_, high, middle, low] = number.to_be_bytes();
        let subnet = [127, high ^ middle | 1, low];
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(authority.certificate.der().clone()).unwrap();
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
        let cluster = Self {
            folder,
            mysqld,
            subnet,
            http,
            authority,
            _turn: turn,
        };
        cluster.write_files();
        cluster.renew_certificate();
        Arc::new(cluster)
    }

    fn write_files(&self) {
        for (name, content) in [
            ("tls/ca.crt", &*self.authority.certificate.pem()),
            ("internal/token", &format!("{TOKEN}\n")),
            ("internal/admin", "admin'pw\\"),
            ("internal/replication", "replication-pw"),
            ("internal/clone", "clone-pw"),
            ("root", "root-pw"),
            ("my.cnf", "[mysqld]\ninnodb_buffer_pool_size=32M\n"),
        ] {
            let path = self.path(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
    }

    /// Writes a certificate for every instance that expires later than the one before.
    pub(crate) fn renew_certificate(&self) {
        static EXPIRES: AtomicU32 = AtomicU32::new(4000);
        let expires = i32::try_from(EXPIRES.fetch_add(1, Ordering::Relaxed)).unwrap();
        let names: Vec<_> = (0..8).map(|ordinal| self.host(ordinal)).collect();
        let mut certificate = rcgen::CertificateParams::new(names).unwrap();
        certificate.not_after = rcgen::date_time_ymd(expires, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = certificate.signed_by(&key, &self.authority.issuer).unwrap();
        std::fs::write(self.path("tls/tls.crt"), certificate.pem()).unwrap();
        std::fs::write(self.path("tls/tls.key"), key.serialize_pem()).unwrap();
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
            replica.obey(1, follow(&instances[0])).await;
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

/// A CA of the cluster's own.
struct Authority {
    certificate: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = rcgen::KeyPair::generate().unwrap();
        let mut ca = rcgen::CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        ca.distinguished_name
            .push(rcgen::DnType::CommonName, "test CA");
        let certificate = ca.self_signed(&key).unwrap();
        Self {
            certificate,
            issuer: rcgen::Issuer::new(ca, key),
        }
    }
}
