//! Running mysqld's executable: to check a configuration, to create a data directory, to serve.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{ChildStderr, Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use nix::sys::signal::Signal;
use tokio::sync::oneshot;

use super::{
    InstanceError,
    container::Signals,
    local::ChildSignals,
    process::{Child, Children, Exit},
    stop::Stop,
};
use crate::mysql::Errors;
use crate::sync::watch;

/// How long to wait for the rest of a log after its process has ended.
const LOG_END: Duration = Duration::from_secs(1);

/// A mysqld process, whose error log goes to our standard error.
pub(super) struct Run {
    child: Child,
    children: Children,
    errors: Arc<Mutex<Errors>>,
    log_ended: oneshot::Receiver<()>,
}

impl Run {
    /// Starts mysqld.
    pub(super) fn start(
        children: &Children,
        executable: &Path,
        option_file: &Path,
        arguments: &[&str],
    ) -> Result<Self, InstanceError> {
        let mut command = Command::new(executable);
        command
            .arg(format!("--defaults-file={}", option_file.display()))
            .args(arguments)
            // What mysqld takes for a supervisor that starts it again: RESTART, and the end of a
            // clone, then end it instead of failing with error 3707.
            .env("MYSQLD_PARENT_PID", std::process::id().to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let child = children.spawn(&mut command);
        let mut child = child.map_err(|source| InstanceError::file("run", executable, source))?;
        let errors = Arc::<Mutex<Errors>>::default();
        let (ended, log_ended) = oneshot::channel();
        if let Some(stderr) = child.stderr.take() {
            let errors = errors.clone();
            // A thread of its own: it blocks on the pipe, and on our standard error.
            std::thread::spawn(move || {
                copy_log(stderr, &errors);
                let _ = ended.send(());
            });
        }
        Ok(Self {
            child,
            children: children.clone(),
            errors,
            log_ended,
        })
    }

    /// For its signals.
    pub(super) fn signals(&self) -> Arc<dyn Signals> {
        Arc::new(ChildSignals {
            children: self.children.clone(),
            pid: self.child.pid,
        })
    }

    /// Waits for its end. Can be cancelled and waited for again.
    pub(super) async fn wait(&mut self) -> Exit {
        self.child.wait().await
    }

    /// What came before did not keep it from starting.
    pub(super) fn forget_errors(&self) {
        self.errors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// The errors in its log, once it has ended.
    pub(super) async fn errors(&mut self) -> Option<String> {
        let _ = tokio::time::timeout(LOG_END, &mut self.log_ended).await;
        self.errors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .summary()
    }

    /// Waits for a run that ends by itself; killed when the manager has to stop.
    pub(super) async fn finish(
        mut self,
        what: &'static str,
        stop: &mut watch::Receiver<Stop>,
    ) -> Result<(), InstanceError> {
        let stopped = async {
            let _ = stop.wait_for(|stop| *stop != Stop::No).await;
        };
        let exit = tokio::select! {
            biased;
            exit = self.child.wait() => exit,
            () = stopped => {
                self.children.signal(self.child.pid, Signal::SIGKILL);
                self.child.wait().await
            }
        };
        if exit == Exit::Code(0) {
            return Ok(());
        }
        let why = self.errors().await.unwrap_or_else(|| exit.to_string());
        Err(InstanceError::Process { what, why })
    }
}

/// Copies a log line by line to our standard error and remembers its errors.
fn copy_log(log: ChildStderr, errors: &Mutex<Errors>) {
    for line in BufReader::new(log).split(b'\n').map_while(Result::ok) {
        errors
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .read(&String::from_utf8_lossy(&line));
        let mut out = std::io::stderr().lock();
        let _ = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn a_run_that_fails_is_explained_in_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("mysqld");
        let log = "2026-01-01T00:00:00Z 0 [ERROR] [MY-000067] [Server] unknown variable 'x=1'.";
        std::fs::write(&script, format!("#!/bin/sh\necho \"{log}\" >&2\nexit 1\n")).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let children = Children::default();
        let reaper = tokio::spawn(children.clone().reap());
        let (_keep, mut stop) = watch::channel(Stop::No);
        let run = Run::start(&children, &script, Path::new("my.cnf"), &[]).unwrap();
        let error = run
            .finish("mysqld refuses it", &mut stop)
            .await
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "mysqld refuses it: unknown variable 'x=1'."
        );
        reaper.abort();
    }
}
