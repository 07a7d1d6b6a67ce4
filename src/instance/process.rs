//! Child processes: started, signalled and reaped. As PID 1 also the orphans that the kernel hands
//! over.

use std::{
    collections::HashMap,
    fmt, io,
    process::{ChildStderr, Command},
    sync::{Arc, Mutex, PoisonError},
};

use nix::{
    errno::Errno,
    sys::{
        signal::{self, Signal},
        wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid},
    },
    unistd::Pid,
};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::oneshot,
};

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// With this code.
    Code(i32),
    /// By this signal.
    Signal(Signal),
    /// Nobody saw how.
    Unknown,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by {signal}"),
            Self::Unknown => f.write_str("ended"),
        }
    }
}

/// A child that runs, or ran.
pub(super) struct Child {
    /// For [`Children::signal`].
    pub(super) pid: Pid,
    /// Its standard error, if piped.
    pub(super) stderr: Option<ChildStderr>,
    exit: oneshot::Receiver<Exit>,
}

impl Child {
    /// Waits for its end. Can be cancelled and waited for again.
    pub(super) async fn wait(&mut self) -> Exit {
        (&mut self.exit).await.unwrap_or(Exit::Unknown)
    }
}

/// All children of this process that are ours. One task reaps, so that a pid is never signalled
/// after it was given to another process.
#[derive(Clone, Default)]
pub(super) struct Children {
    running: Arc<Mutex<HashMap<Pid, oneshot::Sender<Exit>>>>,
}

impl Children {
    /// Starts a child.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let (sender, exit) = oneshot::channel();
        // Held over the start: a child that ends at once is reaped only after it is known.
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let mut child = command.spawn()?;
        let pid = i32::try_from(child.id())
            .map(Pid::from_raw)
            .map_err(io::Error::other)?;
        running.insert(pid, sender);
        Ok(Child {
            pid,
            stderr: child.stderr.take(),
            exit,
        })
    }

    /// Sends a signal to a child; false if it has ended.
    pub(super) fn signal(&self, pid: Pid, signal: Signal) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.contains_key(&pid) && signal::kill(pid, signal).is_ok()
    }

    /// Reaps for ever.
    pub(super) async fn reap(self) -> io::Result<()> {
        let mut ended = signal(SignalKind::child())?;
        loop {
            self.reap_ended();
            ended.recv().await;
        }
    }

    /// Reaps every process that has ended: first our own, then, as PID 1, what is left.
    fn reap_ended(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<_> = running
            .keys()
            .filter_map(|&pid| Some((pid, exit(waitpid(pid, Some(WaitPidFlag::WNOHANG)))?)))
            .collect();
        for (pid, exit) in ended {
            if let Some(sender) = running.remove(&pid) {
                let _ = sender.send(exit);
            }
        }
        if std::process::id() != 1 {
            return;
        }
        // Looks without reaping first: another child of ours may have ended since.
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Ok(status) = waitid(Id::All, look) {
            match status.pid() {
                Some(pid) if !running.contains_key(&pid) => {
                    let _ = waitpid(pid, Some(WaitPidFlag::WNOHANG));
                }
                _ => break,
            }
        }
    }
}

/// How a process ended, or `None` while it runs.
fn exit(status: nix::Result<WaitStatus>) -> Option<Exit> {
    match status {
        Ok(WaitStatus::Exited(_, code)) => Some(Exit::Code(code)),
        Ok(WaitStatus::Signaled(_, signal, _)) => Some(Exit::Signal(signal)),
        Err(Errno::ECHILD) => Some(Exit::Unknown),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn tells_how_each_child_ended() {
        let children = Children::default();
        let reaper = tokio::spawn(children.clone().reap());
        let mut quick = children.spawn(&mut shell("exit 3")).unwrap();
        let mut slow = children.spawn(&mut shell("exec sleep 1000")).unwrap();
        assert_eq!(quick.wait().await, Exit::Code(3));
        assert!(
            !children.signal(quick.pid, Signal::SIGKILL),
            "its pid may be another's by now"
        );
        assert!(children.signal(slow.pid, Signal::SIGKILL));
        assert_eq!(slow.wait().await, Exit::Signal(Signal::SIGKILL));
        reaper.abort();
    }
}
