//! The operator's replicas: child processes of this binary, started again as a Deployment would.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::process::{Child, Command};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::folder::create_private;
use super::random;
use crate::runtime::Shutdown;

/// A replica that ended is started again after this, as a pod that is replaced is.
const FIRST_DELAY: Duration = Duration::from_secs(3);
/// The longest time until it is, when it ends again and again.
const LAST_DELAY: Duration = Duration::from_secs(30);
/// A replica that ran for so long had a good start.
const GOOD_RUN: Duration = Duration::from_secs(10);

/// How to start a replica.
#[derive(Clone, Debug)]
pub(super) struct OperatorSpec {
    /// Its name, which stays; its identity is `NAME_UID`, with a UID for each start.
    pub(super) name: String,
    /// The program.
    pub(super) program: PathBuf,
    /// Its arguments.
    pub(super) arguments: Vec<String>,
    /// Where its log is appended to.
    pub(super) log: PathBuf,
}

/// What a replica is now.
#[derive(Clone, Debug)]
pub(super) struct OperatorState {
    /// Who it is in the Lease; of its last start while it does not run.
    pub(super) identity: String,
    /// Its process, or why there is none.
    pub(super) process: Result<u32, String>,
    /// Since when.
    pub(super) since: Instant,
}

/// A replica that is kept running. Dropped, it is killed.
pub(super) struct OperatorProcess {
    name: String,
    state: watch::Receiver<OperatorState>,
    kills: mpsc::Sender<()>,
    keeper: JoinHandle<()>,
}

impl OperatorProcess {
    /// Starts a replica, and again whenever it ends, until `stop`.
    pub(super) fn keep(spec: OperatorSpec, stop: Shutdown) -> Self {
        let (state, states) = watch::channel(OperatorState {
            identity: String::new(),
            process: Err("not started yet".to_owned()),
            since: Instant::now(),
        });
        let (kills, killed) = mpsc::channel(1);
        Self {
            name: spec.name.clone(),
            state: states,
            kills,
            keeper: tokio::spawn(async move { keep(&spec, &state, killed, &stop).await }),
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What it is now.
    pub(super) fn state(&self) -> OperatorState {
        self.state.borrow().clone()
    }

    /// SIGKILL to its process, if there is one.
    pub(super) fn kill(&self) {
        // A full channel holds the same wish.
        let _ = self.kills.try_send(());
    }

    /// Waits until it is stopped for good.
    pub(super) async fn ended(&self) {
        let mut states = self.state.clone();
        // The keeper holds the sending side until its end.
        while states.changed().await.is_ok() {}
    }
}

impl Drop for OperatorProcess {
    fn drop(&mut self) {
        self.keeper.abort(); // which drops the child, which kills it
    }
}

async fn keep(
    spec: &OperatorSpec,
    state: &watch::Sender<OperatorState>,
    mut killed: mpsc::Receiver<()>,
    stop: &Shutdown,
) {
    let mut delay = FIRST_DELAY;
    while !stop.is_triggered() {
        let identity = Identity::new(&spec.name);
        let started = Instant::now();
        let why = match start(spec, &identity) {
            Err(error) => error,
            Ok(mut child) => {
                state.send_replace(OperatorState {
                    identity: identity.lease(),
                    process: Ok(child.id().unwrap_or_default()),
                    since: started,
                });
                run(&mut child, &mut killed, stop).await
            }
        };
        let now = Instant::now();
        delay = next_delay(delay, now.duration_since(started));
        state.send_replace(OperatorState {
            identity: identity.lease(),
            process: Err(why),
            since: now,
        });
        tokio::select! {
            biased;
            () = stop.triggered() => {}
            () = tokio::time::sleep(delay) => {}
        }
    }
}

/// Until the process ended; returns how.
async fn run(child: &mut Child, killed: &mut mpsc::Receiver<()>, stop: &Shutdown) -> String {
    // Held open: the operator stops when it is closed, however this process ends.
    let _lifeline = child.stdin.take();
    while killed.try_recv().is_ok() {} // meant for the process before
    tokio::select! {
        biased;
        ended = child.wait() => match ended {
            Ok(status) => words(status),
            Err(error) => error.to_string(),
        },
        Some(()) = killed.recv() => {
            let _ = child.kill().await;
            "killed".to_owned()
        }
        // Nothing outlives the demo that a graceful end would be good for.
        () = stop.triggered() => {
            let _ = child.kill().await;
            "stopped".to_owned()
        }
    }
}

fn words(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exited with {code}"),
        None => status.to_string(),
    }
}

/// How long to wait before the next start, after a run of this length.
fn next_delay(last: Duration, run: Duration) -> Duration {
    if run >= GOOD_RUN {
        FIRST_DELAY
    } else {
        (last * 2).min(LAST_DELAY)
    }
}

/// What the downward API would say of the replica's pod.
struct Identity {
    pod: String,
    uid: String,
}

impl Identity {
    fn new(name: &str) -> Self {
        Self {
            pod: name.to_owned(),
            uid: random::hex::<4>(),
        }
    }

    /// As `mainstay run` makes it of them.
    fn lease(&self) -> String {
        format!("{}_{}", self.pod, self.uid)
    }
}

fn start(spec: &OperatorSpec, identity: &Identity) -> Result<Child, String> {
    let log = open_log(&spec.log).map_err(|error| format!("{}: {error}", spec.log.display()))?;
    let mut command = Command::new(&spec.program);
    // What is set for an operator of the person's own is not meant for this one.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MAINSTAY_") {
            command.env_remove(name);
        }
    }
    command
        .args(&spec.arguments)
        .env("POD_NAME", &identity.pod)
        .env("POD_UID", &identity.uid)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(log)
        // Ctrl-C is for the demo alone.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("{}: {error}", spec.program.display()))
}

fn open_log(path: &Path) -> std::io::Result<File> {
    create_private(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, folder: &Path) -> OperatorSpec {
        OperatorSpec {
            name: "mainstay-1".into(),
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            log: folder.join("log"),
        }
    }

    async fn until(
        process: &OperatorProcess,
        what: impl FnMut(&OperatorState) -> bool,
    ) -> OperatorState {
        let mut states = process.state.clone();
        states.wait_for(what).await.unwrap().clone()
    }

    /// Until that many starts are in the log.
    async fn logged(log: &Path, starts: usize) {
        let text = || std::fs::read_to_string(log).unwrap_or_default();
        while text() != "mainstay-1\n".repeat(starts) {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_killed_replica_comes_back_as_somebody_else() {
        let folder = tempfile::tempdir().unwrap();
        let spec = shell("echo $POD_NAME >&2; exec sleep 600", folder.path());
        let log = spec.log.clone();
        let stop = Shutdown::new();
        let process = OperatorProcess::keep(spec, stop.clone());
        let first = until(&process, |state| state.process.is_ok()).await;
        assert!(first.identity.starts_with("mainstay-1_"), "{first:?}");
        logged(&log, 1).await;
        process.kill();
        let down = until(&process, |state| state.process.is_err()).await;
        assert_eq!(down.process, Err("killed".into()));
        assert_eq!(down.identity, first.identity);
        let second = until(&process, |state| state.process.is_ok()).await;
        assert_ne!(second.identity, first.identity);
        assert!(second.since.duration_since(down.since) >= FIRST_DELAY);
        logged(&log, 2).await;
        stop.trigger();
        process.ended().await;
    }

    #[tokio::test(start_paused = true)]
    async fn how_it_ended_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let process = OperatorProcess::keep(shell("exit 3", folder.path()), Shutdown::new());
        until(&process, |state| {
            state.process == Err("exited with 3".into())
        })
        .await;
        let mut spec = shell("", folder.path());
        spec.program = "/nowhere/mainstay".into();
        let missing = OperatorProcess::keep(spec, Shutdown::new());
        let state = until(&missing, |state| !state.identity.is_empty()).await;
        assert!(
            state
                .process
                .unwrap_err()
                .starts_with("/nowhere/mainstay: ")
        );
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_left_running() {
        let folder = tempfile::tempdir().unwrap();
        let process = OperatorProcess::keep(shell("exec cat", folder.path()), Shutdown::new());
        let state = until(&process, |state| state.process.is_ok()).await;
        let pid = nix::unistd::Pid::from_raw(state.process.unwrap().try_into().unwrap());
        drop(process);
        let gone = async {
            // A zombie is gone once the runtime has reaped it.
            while nix::sys::signal::kill(pid, None).is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), gone)
            .await
            .unwrap();
    }

    #[test]
    fn a_replica_that_keeps_ending_is_started_ever_later() {
        let mut delay = FIRST_DELAY;
        let mut delays = Vec::new();
        for _ in 0..5 {
            delay = next_delay(delay, Duration::ZERO);
            delays.push(delay.as_secs());
        }
        assert_eq!(delays, [6, 12, 24, 30, 30]);
        assert_eq!(next_delay(delay, GOOD_RUN), FIRST_DELAY);
    }
}
