//! A real control plane of one's own: etcd, kube-apiserver and the few controllers that belong to
//! an API server's behaviour, as child processes in a temporary folder on loopback ports.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair};
use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::{CLIENTS, Credentials, Target};
use crate::http::{Http, Pem};

/// What needs to be in a folder of programs; kube-controller-manager is missed by some cases only.
const NEEDED: [&str; 3] = ["etcd", "kube-apiserver", "kube-controller-manager"];
/// What an API server does not do itself, but its users take for its doing.
const CONTROLLERS: &str = "garbage-collector-controller,namespace-controller,serviceaccount-controller,\
    persistentvolumeclaim-protection-controller";
/// Notes on each claim since when no pod uses it.
const UNFORESEEN: &str = "PersistentVolumeClaimUnusedSinceTime";
/// Another process may take a port between its choice and its use.
const STARTS: u32 = 3;
/// A server that is not ready after so many looks at this distance will never be.
const LOOKS: u32 = 600;
const PAUSE: Duration = Duration::from_millis(100);

/// A folder with the programs: `KUBEBUILDER_ASSETS`, or what `tests/cluster` built. `Err` says why
/// there is none.
pub(crate) fn programs() -> Result<PathBuf, String> {
    if let Some(folder) = std::env::var_os("KUBEBUILDER_ASSETS") {
        let folder = PathBuf::from(folder);
        return match missing(&folder) {
            None => Ok(folder),
            Some(name) => Err(format!(
                "KUBEBUILDER_ASSETS={} has no {name}",
                folder.display()
            )),
        };
    }
    let state = std::env::var_os("MAINSTAY_CLUSTER_DIR")
        .unwrap_or_else(|| OsString::from("/var/tmp/mainstay-cluster"));
    let mut folders: Vec<PathBuf> = fs::read_dir(Path::new(&state).join("bin"))
        .map(|entries| {
            entries
                .filter_map(|entry| entry.ok().map(|entry| entry.path()))
                .collect()
        })
        .unwrap_or_default();
    folders.sort();
    let found = folders
        .into_iter()
        .rev()
        .find(|folder| missing(folder).is_none());
    found.ok_or_else(|| {
        "KUBEBUILDER_ASSETS is not set, and `tests/cluster/cluster build` was not run".to_owned()
    })
}

fn missing(folder: &Path) -> Option<&'static str> {
    NEEDED.into_iter().find(|name| !folder.join(name).is_file())
}

/// A control plane.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) target: Target,
    processes: Processes,
}

/// Its processes and their folder; they end with it.
#[derive(Debug)]
pub(crate) struct Processes {
    etcd: Child,
    apiserver: Child,
    _controllers: Child,
    _folder: TempDir,
}

impl Processes {
    /// Process ids of etcd and of kube-apiserver.
    #[allow(dead_code, reason = "for benches/apiserver.rs")]
    pub(crate) fn pids(&self) -> Vec<u32> {
        [&self.etcd, &self.apiserver]
            .into_iter()
            .filter_map(Child::id)
            .collect()
    }
}

impl Pair {
    /// Starts the programs in `folder` and waits until they are ready.
    pub(crate) async fn start(programs: &Path) -> Result<Self, String> {
        let mut last = String::new();
        for _ in 0..STARTS {
            match Self::try_start(programs).await {
                Ok(pair) => return Ok(pair),
                Err(what) => last = what,
            }
        }
        Err(last)
    }

    /// The server, and the processes, which end when they are dropped.
    #[allow(dead_code, reason = "for benches/apiserver.rs")]
    pub(crate) fn split(self) -> (Target, Processes) {
        (self.target, self.processes)
    }

    async fn try_start(programs: &Path) -> Result<Self, String> {
        let folder = tempfile::Builder::new()
            .prefix("mainstay-truth-")
            .tempdir()
            .map_err(|error| error.to_string())?;
        let [client, peer, secure] = ports()?;
        let pem = credentials(folder.path(), secure)?;
        let start =
            |name: &str, arguments: Vec<String>| spawn(programs, folder.path(), name, arguments);
        let at = |name: &str| folder.path().join(name).display().to_string();

        let etcd = start(
            "etcd",
            vec![
                format!("--data-dir={}", at("data")),
                format!("--listen-client-urls=http://127.0.0.1:{client}"),
                format!("--advertise-client-urls=http://127.0.0.1:{client}"),
                format!("--listen-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-advertise-peer-urls=http://127.0.0.1:{peer}"),
                format!("--initial-cluster=default=http://127.0.0.1:{peer}"),
                "--unsafe-no-fsync".to_owned(),
                "--log-level=warn".to_owned(),
                "--quota-backend-bytes=8589934592".to_owned(),
            ],
        )?;
        let mut apiserver = start(
            "kube-apiserver",
            vec![
                format!("--etcd-servers=http://127.0.0.1:{client}"),
                "--bind-address=127.0.0.1".to_owned(),
                "--advertise-address=127.0.0.1".to_owned(),
                "--endpoint-reconciler-type=none".to_owned(),
                format!("--secure-port={secure}"),
                format!("--tls-cert-file={}", at("server.crt")),
                format!("--tls-private-key-file={}", at("server.key")),
                "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
                format!("--service-account-key-file={}", at("server.pub")),
                format!("--service-account-signing-key-file={}", at("account.key")),
                format!("--token-auth-file={}", at("tokens.csv")),
                "--authorization-mode=RBAC".to_owned(),
                "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
            ],
        )?;
        let target = Target {
            http: Http::new(&format!("https://127.0.0.1:{secure}"), &pem)?,
            credentials: Credentials::Tokens,
            shared: false,
            accounts: true,
        };
        ready(
            &target,
            &mut apiserver,
            &folder.path().join("kube-apiserver.log"),
        )
        .await?;
        let controllers = start(
            "kube-controller-manager",
            vec![
                format!("--kubeconfig={}", at("kubeconfig")),
                format!("--controllers={CONTROLLERS}"),
                "--leader-elect=false".to_owned(),
                "--secure-port=0".to_owned(),
                // The garbage collector may look for new kinds as soon as it can.
                "--kube-api-qps=200".to_owned(),
                "--kube-api-burst=400".to_owned(),
            ]
            .into_iter()
            .chain(gates(programs))
            .collect(),
        )?;
        Ok(Self {
            target,
            processes: Processes {
                etcd,
                apiserver,
                _controllers: controllers,
                _folder: folder,
            },
        })
    }
}

/// Turns off what writes to objects at times that nobody can foresee.
fn gates(programs: &Path) -> Option<String> {
    let help = std::process::Command::new(programs.join("kube-controller-manager"))
        .arg("--help")
        .output()
        .ok()?;
    let known = String::from_utf8_lossy(&help.stdout).contains(UNFORESEEN);
    known.then(|| format!("--feature-gates={UNFORESEEN}=false"))
}

fn ports<const N: usize>() -> Result<[u16; N], String> {
    // All are held until all are chosen, so that none is chosen twice.
    let mut held = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        *port = listener
            .local_addr()
            .map_err(|error| error.to_string())?
            .port();
        held.push(listener);
    }
    Ok(ports)
}

fn spawn(
    programs: &Path,
    folder: &Path,
    name: &str,
    arguments: Vec<String>,
) -> Result<Child, String> {
    let log =
        File::create(folder.join(format!("{name}.log"))).map_err(|error| error.to_string())?;
    Command::new(programs.join(name))
        .args(arguments)
        .current_dir(folder)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", programs.join(name).display()))
}

/// Writes certificates, keys, tokens and a kubeconfig; says whom a client trusts.
fn credentials(folder: &Path, port: u16) -> Result<Pem, String> {
    let failed = |error: rcgen::Error| error.to_string();
    let names = ["127.0.0.1".to_owned(), "localhost".to_owned()];
    let key = KeyPair::generate().map_err(failed)?;
    let mut server = CertificateParams::new(names).map_err(failed)?;
    server.distinguished_name.push(DnType::CommonName, "truth");
    server
        .extended_key_usages
        .push(ExtendedKeyUsagePurpose::ServerAuth);
    let certificate = server.self_signed(&key).map_err(failed)?.pem();
    let tokens = CLIENTS.map(|(name, user, group)| format!("{name}-token,{user},{user},{group:?}"));
    let kubeconfig = format!(
        "{{apiVersion: v1, kind: Config, current-context: a, \
         clusters: [{{name: a, cluster: {{server: 'https://127.0.0.1:{port}', certificate-authority: server.crt}}}}], \
         users: [{{name: a, user: {{token: admin-token}}}}], \
         contexts: [{{name: a, context: {{cluster: a, user: a}}}}]}}"
    );
    let files = [
        ("server.crt", certificate.clone()),
        ("server.key", key.serialize_pem()),
        ("server.pub", key.public_key_pem()),
        ("account.key", key.serialize_pem()),
        ("tokens.csv", tokens.join("\n")),
        ("kubeconfig", kubeconfig),
    ];
    for (name, text) in files {
        fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(Pem {
        authority: certificate.into_bytes(),
        identity: None,
    })
}

async fn ready(target: &Target, apiserver: &mut Child, log: &Path) -> Result<(), String> {
    for _ in 0..LOOKS {
        if let Ok(Some(status)) = apiserver.try_wait() {
            return Err(format!("kube-apiserver ended: {status}: {}", tail(log)));
        }
        if matches!(target.admin("GET", "/readyz", None).await, Ok((200, _))) {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!(
        "kube-apiserver does not become ready: {}",
        tail(log)
    ))
}

fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
