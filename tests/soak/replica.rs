//! A replica of the operator, a process of its own.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as Http;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::reading::Reading;

/// One that takes longer to say how it is does not answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A replica. Dropped, it is killed.
pub(crate) struct Replica {
    child: Child,
    address: SocketAddr,
    http: Http<HttpConnector, Empty<Bytes>>,
}

impl Replica {
    /// Starts one that logs into `folder`.
    pub(crate) fn start(name: &str, kubeconfig: &Path, folder: &Path) -> Self {
        let address = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port");
        let log = std::fs::File::create(folder.join(format!("{name}.log"))).expect("a log");
        let child = Command::new(env!("CARGO_BIN_EXE_mainstay"))
            .args(["run", "--instance-access", "direct"])
            .args(["--listen", &address.to_string(), "--kubeconfig"])
            .arg(kubeconfig)
            .env("POD_NAME", name)
            .stdin(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        Self {
            child,
            address,
            http: Http::builder(TokioExecutor::new()).build_http(),
        }
    }

    /// How it is; `None` where it does not say.
    pub(crate) async fn reading(&self) -> Option<Reading> {
        timeout(PATIENCE, self.ask()).await.ok()?
    }

    async fn ask(&self) -> Option<Reading> {
        let url = format!("http://{}/metrics", self.address);
        let answer = self.http.get(url.parse().ok()?).await.ok()?;
        let body = answer.into_body().collect().await.ok()?.to_bytes();
        Reading::of(std::str::from_utf8(&body).ok()?)
    }

    /// How it ended, where it did.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("its state can be asked for")
    }

    /// Stops it where it is, or lets it go on.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.signal(if frozen {
            Signal::SIGSTOP
        } else {
            Signal::SIGCONT
        });
    }

    /// Asks it to end, and waits until it does.
    pub(crate) async fn stop(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        self.child.wait().await.expect("it ends")
    }

    fn signal(&self, signal: Signal) {
        let pid = self.child.id().expect("it runs");
        let pid = Pid::from_raw(pid.try_into().expect("a process's number"));
        kill(pid, signal).expect("it takes a signal");
    }
}
