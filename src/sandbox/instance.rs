//! A modelled instance: the instance manager itself, over a modelled container.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::JoinSet,
};

use super::mysql::{Files, Modelled, Volume};
use crate::instance::Manager;
use crate::sync::watch;

/// Exit code of a container whose process 1 was killed.
const KILLED: i32 = 128 + 9;

/// What one instance is.
#[derive(Clone, Debug)]
pub struct InstanceSpec {
    /// Pod name.
    pub name: String,
    /// Pod UID.
    pub pod_uid: String,
    /// Name by which other instances reach this one; `Follow` and `Clone` name it.
    pub host: String,
    /// MySQL's `server_id`.
    pub server_id: u32,
    /// The cluster's bearer token.
    pub token: String,
    /// Rendered my.cnf.
    pub config: String,
    /// Where the data is.
    pub volume: Volume,
}

/// An instance that was started. Clones are one and the same; it runs on without any.
#[derive(Clone)]
pub struct ModelledInstance {
    container: Arc<Modelled>,
    files: Arc<Mutex<Files>>,
    manager: Manager,
    /// Its exit code, once it has ended.
    ended: watch::Receiver<Option<i32>>,
    fate: watch::Sender<Fate>,
}

/// What is to become of it. Only ever grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Run,
    Terminate,
    Die,
}

impl ModelledInstance {
    /// Starts it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    #[must_use]
    pub fn start(spec: InstanceSpec) -> Self {
        let files = Arc::new(Mutex::new(Files {
            token: spec.token,
            config: spec.config,
        }));
        let container = Arc::new(Modelled {
            host: spec.host,
            server_id: spec.server_id,
            volume: spec.volume,
            files: files.clone(),
        });
        let mut tasks = JoinSet::new();
        let (manager, supervisor) =
            Manager::start(&spec.name, &spec.pod_uid, container.clone(), &mut tasks);
        let (fate, mut order) = watch::channel(Fate::Run);
        let (end, ended) = watch::channel(None);
        let instance = Self {
            container,
            files,
            manager,
            ended,
            fate,
        };
        let this = instance.clone();
        tokio::spawn(async move {
            let mut dies = order.clone();
            let terminates = async {
                if order
                    .wait_for(|fate| *fate >= Fate::Terminate)
                    .await
                    .is_ok()
                {
                    this.manager.clone().terminate().await;
                }
                std::future::pending::<()>().await;
            };
            let killed = async {
                let _ = dies.wait_for(|fate| *fate == Fate::Die).await;
            };
            let code = tokio::select! {
                biased;
                () = killed => KILLED,
                () = supervisor => 0,
                () = terminates => 0,
                // A task that ended is a panic.
                _ = tasks.join_next() => 1,
            };
            this.container.kill_mysqld();
            tasks.shutdown().await;
            end.send_replace(Some(code));
        });
        instance
    }

    /// Serves the manager's protocol on one plain connection, until it ends or the instance does.
    pub async fn serve_stream<S>(&self, stream: S)
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let gone = self.ended();
        tokio::select! {
            biased;
            _ = gone => {}
            () = self.manager.serve_stream(stream) => {}
        }
    }

    /// Answers a probe of the kubelet by its path (`/livez`, `/readyz`, `/startupz`).
    ///
    /// # Errors
    /// Why the container is not well.
    pub fn probe(&self, path: &str) -> Result<(), String> {
        self.manager.probe(path)
    }

    /// SIGTERM: the stop sequence begins.
    pub fn terminate(&self) {
        self.order(Fate::Terminate);
    }

    /// SIGKILL of the container: manager and mysqld are gone when this returns.
    pub fn kill(&self) {
        self.order(Fate::Die);
        self.kill_mysqld();
    }

    /// SIGKILL of mysqld alone.
    pub fn kill_mysqld(&self) {
        self.container.kill_mysqld();
    }

    /// What is mounted changes: the rendered my.cnf.
    pub fn set_config(&self, config: &str) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        config.clone_into(&mut files.config);
    }

    /// Waits for its end; its exit code.
    pub async fn ended(&self) -> i32 {
        let mut ended = self.ended.clone();
        let code = ended.wait_for(Option::is_some).await;
        code.ok().and_then(|code| *code).unwrap_or(KILLED)
    }

    fn order(&self, fate: Fate) {
        self.fate.send_if_modified(|now| {
            let grows = fate > *now;
            *now = fate.max(*now);
            grows
        });
    }
}
