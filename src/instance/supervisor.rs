//! Keeps mysqld running.

use std::{sync::Arc, time::Duration};

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::{
    InstanceError,
    board::{Board, Process},
    container::{Accounts, Container, Mysqld, Prepared, Signals},
    process::Exit,
    stop::Stop,
};
use crate::sync::watch;

/// A server that ends this soon after its start will likely do so again.
const EARLY: Duration = Duration::from_secs(10);
/// Longest pause between two starts.
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often to see whether the configuration has changed, while paused.
const LOOK: Duration = Duration::from_millis(500);
/// mysqld's exit code after RESTART or a clone (`MYSQLD_RESTART_EXIT`).
pub(crate) const RESTART_EXIT: i32 = 16;

/// A mysqld that was started, and has neither ended nor been told to.
#[derive(Clone)]
pub(super) struct Server {
    /// Which start it was.
    pub(super) start: u64,
    /// For signals.
    pub(super) signals: Arc<dyn Signals>,
    /// With the passwords that this start gave them.
    pub(super) accounts: Accounts,
}

/// The one task that starts mysqld.
pub(super) struct Supervisor {
    pub(super) container: Arc<dyn Container>,
    pub(super) board: Board,
    pub(super) servers: watch::Sender<Option<Server>>,
    pub(super) stop: watch::Receiver<Stop>,
}

impl Supervisor {
    /// Starts mysqld again and again, until told to stop; mysqld has ended when it returns.
    pub(super) async fn run(mut self) {
        let mut failures = 0;
        while *self.stop.borrow() == Stop::No {
            let (why, soon) = match self.serve().await {
                Ok(ended) => ended,
                Err(error) => (error.to_string(), false),
            };
            if *self.stop.borrow() != Stop::No {
                break;
            }
            failures = if soon { 0 } else { failures + 1 };
            tracing::warn!(%why, "mysqld is down");
            self.board.change(|facts| {
                facts.process = Process::Down(why);
                facts.server = None;
            });
            self.pause(pause(failures)).await;
        }
        self.board.change(|facts| {
            facts.process = Process::Stopping;
            facts.server = None;
        });
    }

    /// Prepares and runs mysqld once. Says how it ended and whether to start it again at once.
    async fn serve(&mut self) -> Result<(String, bool), InstanceError> {
        let stop = self.stop.clone();
        let Prepared { config_hash, start } = self.container.prepare(&self.board, stop).await?;
        let mut mysqld = start()?;
        let started = Instant::now();
        let start = self.board.look(|facts| facts.starts) + 1;
        self.board.change(|facts| {
            facts.starts = start;
            facts.config_hash = config_hash;
            facts.process = Process::Starting;
        });
        self.servers.send_replace(Some(Server {
            start,
            signals: mysqld.signals(),
            accounts: mysqld.accounts(),
        }));
        let (exit, answered) = self.watch(mysqld.as_mut()).await;
        self.servers.send_replace(None);
        // At once: the operator fails over on this, its reason can follow.
        let stopping = *self.stop.borrow() != Stop::No;
        self.board.change(|facts| {
            if !stopping {
                facts.process = Process::Down(format!("mysqld ended ({exit})"));
            }
            facts.server = None;
        });
        let errors = mysqld.ended().await?;
        let why = errors.map_or(format!("mysqld ended ({exit})"), |errors| {
            format!("mysqld ended ({exit}): {errors}")
        });
        let asked = matches!(exit, Exit::Code(0 | RESTART_EXIT));
        Ok((why, answered && (asked || started.elapsed() >= EARLY)))
    }

    /// Waits for mysqld's end; passes on the order to stop. Says how it ended and whether it ever
    /// answered.
    async fn watch(&mut self, mysqld: &mut dyn Mysqld) -> (Exit, bool) {
        let signals = mysqld.signals();
        let mut facts = self.board.subscribe();
        let (mut answered, mut stopping) = (false, Stop::No);
        loop {
            tokio::select! {
                biased;
                exit = mysqld.wait() => return (exit, answered),
                up = facts.wait_for(|facts| facts.process == Process::Up), if !answered => {
                    drop(up);
                    answered = true;
                    mysqld.answers();
                }
                stop = self.stop.wait_for(|stop| *stop > stopping) => {
                    let Ok(stop) = stop.map(|stop| *stop) else { continue };
                    stopping = stop;
                    // Our own sessions end first: mysqld waits 2 s for sessions to end by themselves.
                    self.servers.send_replace(None);
                    let signal = if stop == Stop::Kill { Signal::SIGKILL } else { Signal::SIGTERM };
                    signals.signal(signal);
                    self.board.change(|facts| facts.process = Process::Stopping);
                }
            }
        }
    }

    /// Waits before the next start, no longer than until the configuration changes.
    async fn pause(&mut self, pause: Duration) {
        let container = self.container.clone();
        let hash = || container.config_hash().ok();
        let before = hash();
        let changed = async {
            while hash() == before {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = changed => {}
            _ = self.stop.wait_for(|stop| *stop != Stop::No) => {}
        }
    }
}

/// Pause before the next start, after so many that failed in a row.
fn pause(failures: u32) -> Duration {
    match failures {
        0 => Duration::ZERO,
        failures => Duration::from_secs(1)
            .saturating_mul(1 << (failures - 1).min(16))
            .min(PAUSE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound() {
        let seconds: Vec<_> = (0..8).map(|failures| pause(failures).as_secs()).collect();
        assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
