//! What the manager knows of its instance, and what it says of it.

use std::time::Duration;

use tokio::time::Instant;

use super::{InstancePhase, InstanceStatus};
use crate::mysql::ServerState;
use crate::sync::watch;

/// A server that answered before and has not for this long hangs: the kubelet may kill it. A disk
/// that stalls for a while must not get it killed.
const HUNG: Duration = Duration::from_mins(1);

/// The facts. Each has one writer, named with it.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(super) name: String,
    pub(super) pod_uid: String,
    /// Commander.
    pub(super) term: u64,
    /// Supervisor; the poller turns `Starting` into `Up`.
    pub(crate) process: Process,
    /// Supervisor.
    pub(super) starts: u64,
    /// Supervisor.
    pub(super) config_hash: String,
    /// The start that was promoted, and with how many acknowledgements. A restart ends it: commander.
    pub(super) promoted: Option<(u64, u32)>,
    /// Whom a clone is being received from: commander and its clone task.
    pub(super) cloning: Option<String>,
    /// Commander.
    pub(super) app_hash: String,
    /// What the last command or clone has left to say: commander and its clone task.
    pub(super) notice: String,
    /// Stop sequence.
    pub(super) stopping: bool,
    /// Poller; cleared by the supervisor when mysqld ends.
    pub(super) server: Option<ServerState>,
    /// Why there is no reading: poller.
    pub(super) unreadable: String,
    /// When mysqld last answered: poller.
    pub(super) answered: Option<Instant>,
}

/// mysqld's process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Process {
    /// The data directory is being created.
    Initialising,
    /// Started, has not answered yet.
    Starting,
    /// Has answered since it was started.
    Up,
    /// Ended, or could not be started, for this reason. Will be started.
    Down(String),
    /// Is being stopped, or is stopped, for good.
    Stopping,
}

impl Facts {
    /// What is said to others.
    pub(super) fn status(&self) -> InstanceStatus {
        let phase = match (&self.process, &self.cloning) {
            (Process::Stopping, _) => InstancePhase::Stopping,
            (_, Some(_)) => InstancePhase::Cloning,
            (Process::Initialising, _) => InstancePhase::Initialising,
            (Process::Starting, _) => InstancePhase::Starting,
            (Process::Up, _) => InstancePhase::Running,
            (Process::Down(_), _) => InstancePhase::Restarting,
        };
        let message = match (&self.process, &self.cloning) {
            (Process::Down(why), _) => why.clone(),
            (_, Some(donor)) => format!("receiving a clone of {donor}"),
            (Process::Up, _) if self.server.is_none() => self.unreadable.clone(),
            _ => self.notice.clone(),
        };
        InstanceStatus {
            name: self.name.clone(),
            pod_uid: self.pod_uid.clone(),
            term: self.term,
            phase,
            message,
            starts: self.starts,
            promoted: self.promoted_acks().is_some(),
            stopping: self.stopping,
            config_hash: self.config_hash.clone(),
            app_hash: self.app_hash.clone(),
            // Half of it is gone while a clone comes in, and it is not what it says it is.
            server: self.server.clone().filter(|_| self.cloning.is_none()),
        }
    }

    /// How many acknowledgements it was promoted with, since it was started.
    pub(super) fn promoted_acks(&self) -> Option<u32> {
        let (_, acks) = self.promoted.filter(|(start, _)| *start == self.starts)?;
        Some(acks)
    }

    /// Why the container should be killed, if it should. Initialising, crash recovery, a clone and
    /// waiting for a better configuration take as long as they take, and stopped replication is no
    /// reason (mariadb#1628).
    pub(super) fn hung(&self, now: Instant) -> Option<String> {
        if self.process != Process::Up || self.cloning.is_some() {
            return None;
        }
        let silent = now.saturating_duration_since(self.answered?);
        (silent > HUNG).then(|| format!("mysqld has not answered for {} s", silent.as_secs()))
    }

    /// Why clients should not be sent here, if they should not.
    pub(super) fn unready(&self) -> Option<String> {
        let status = self.status();
        if status.phase == InstancePhase::Running && status.server.is_some() {
            return None;
        }
        Some(format!("{:?}: {}", status.phase, status.message))
    }
}

/// A status without what changes all the time: when the rest differs, watchers are told at once.
pub(super) fn shape(status: &InstanceStatus) -> InstanceStatus {
    let mut shape = status.clone();
    if let Some(server) = &mut shape.server {
        server.gtid_executed.clear();
        server.gtid_purged.clear();
        server.semi_sync_waiting = 0;
        if let Some(replication) = &mut server.replication {
            replication.received.clear();
            replication.source_silent_ms = 0;
            replication.lag_seconds = None;
        }
    }
    shape
}

/// Holds the facts; every change is seen by all who watch.
#[derive(Clone, Debug)]
pub(crate) struct Board {
    facts: watch::Sender<Facts>,
}

impl Board {
    /// A board for an instance of which nothing is known yet.
    pub(super) fn new(name: &str, pod_uid: &str) -> Self {
        let facts = Facts {
            name: name.to_owned(),
            pod_uid: pod_uid.to_owned(),
            term: 0,
            process: Process::Initialising,
            starts: 0,
            config_hash: String::new(),
            promoted: None,
            cloning: None,
            app_hash: String::new(),
            notice: String::new(),
            stopping: false,
            server: None,
            unreadable: String::new(),
            answered: None,
        };
        Self {
            facts: watch::Sender::new(facts),
        }
    }

    /// Changes facts and tells watchers.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Facts)) {
        self.facts.send_modify(change);
    }

    /// Looks at the facts as they are now.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Facts) -> T) -> T {
        look(&self.facts.borrow())
    }

    /// The facts and every change of them.
    pub(super) fn subscribe(&self) -> watch::Receiver<Facts> {
        self.facts.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mysql::Replication;

    fn up() -> Facts {
        let board = Board::new("demo-0", "uid");
        board.change(|facts| {
            facts.process = Process::Up;
            facts.server = Some(ServerState {
                replication: Some(Replication::default()),
                ..ServerState::default()
            });
            facts.answered = Some(Instant::now());
        });
        board.look(Clone::clone)
    }

    #[test]
    fn a_clone_shows_through_the_restart_that_ends_it() {
        let mut facts = up();
        facts.cloning = Some("demo-1".into());
        for process in [
            Process::Up,
            Process::Down("ended".into()),
            Process::Starting,
        ] {
            facts.process = process;
            assert_eq!(facts.status().phase, InstancePhase::Cloning);
            assert_eq!(facts.status().server, None);
        }
        facts.process = Process::Stopping;
        assert_eq!(facts.status().phase, InstancePhase::Stopping);
    }

    #[test]
    fn mariadb_1628_stopped_replication_is_neither_unlive_nor_unready() {
        let facts = up();
        assert_eq!(facts.hung(Instant::now()), None);
        assert_eq!(facts.unready(), None);
    }

    #[test]
    fn only_a_server_that_answered_can_hang() {
        let mut facts = up();
        let later = Instant::now() + 2 * HUNG;
        assert!(facts.hung(later).is_some());
        for process in [
            Process::Initialising,
            Process::Starting,
            Process::Down(String::new()),
        ] {
            facts.process = process;
            assert_eq!(
                facts.hung(later),
                None,
                "ps#1467: recovery and initialisation take their time"
            );
        }
        facts.process = Process::Up;
        facts.cloning = Some("demo-1".into());
        assert_eq!(facts.hung(later), None);
    }

    #[test]
    fn progress_is_no_change_of_shape_and_an_error_is() {
        let status = up().status();
        let mut other = status.clone();
        let server = other.server.as_mut().unwrap();
        server.gtid_executed = "x".into();
        server.replication.as_mut().unwrap().source_silent_ms = 5;
        assert_eq!(shape(&status), shape(&other));
        let server = other.server.as_mut().unwrap();
        server.replication.as_mut().unwrap().receiver.error = "no".into();
        assert_ne!(shape(&status), shape(&other));
    }
}
