//! A stop signal that many tasks wait for.

use super::tasks::Tasks;
use crate::sync::watch;
use tokio::signal::unix::{SignalKind, signal};

/// A stop signal that many tasks can wait for. Clones share it; once triggered it stays triggered.
#[derive(Clone, Debug)]
pub struct Shutdown {
    triggered: watch::Sender<bool>,
}

impl Shutdown {
    /// A signal that was not triggered yet.
    #[must_use]
    pub fn new() -> Self {
        Self {
            triggered: watch::Sender::new(false),
        }
    }

    /// Asks everyone who waits to stop. More than once does nothing more.
    pub fn trigger(&self) {
        self.triggered.send_replace(true);
    }

    /// Whether a stop was asked for.
    #[must_use]
    pub fn is_triggered(&self) -> bool {
        *self.triggered.borrow()
    }

    /// Waits until a stop is asked for; returns at once when it was already. Cancel-safe.
    pub async fn triggered(&self) {
        // `self` holds the sender, so the channel can't close while we wait.
        let _ = self
            .triggered
            .subscribe()
            .wait_for(|triggered| *triggered)
            .await;
    }

    /// A signal that SIGTERM or SIGINT triggers; a second one exits the process at once (code 1).
    /// What listens is one of `tasks`. It goes on until they are dropped, which should be last of all:
    /// without it no signal ends the process. They must not be stopped, for which it would never be
    /// ready.
    ///
    /// # Errors
    /// When the handlers can't be installed.
    pub fn on_signals(tasks: &mut Tasks) -> std::io::Result<Self> {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let shutdown = Self::new();
        let trigger = shutdown.clone();
        tasks.spawn("signals", |_| async move {
            loop {
                let name = tokio::select! {
                    biased;
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                };
                if trigger.is_triggered() {
                    tracing::warn!(signal = name, "second signal: exiting at once");
                    std::process::exit(1);
                }
                tracing::info!(signal = name, "stopping");
                trigger.trigger();
            }
        });
        Ok(shutdown)
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn everyone_who_waits_is_woken_and_late_comers_do_not_wait() {
        let shutdown = Shutdown::new();
        assert!(!shutdown.is_triggered());
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let shutdown = shutdown.clone();
                tokio::spawn(async move { shutdown.triggered().await })
            })
            .collect();
        tokio::task::yield_now().await;
        assert!(waiting.iter().all(|task| !task.is_finished()));
        shutdown.trigger();
        for task in waiting {
            task.await.unwrap();
        }
        assert!(shutdown.is_triggered());
        shutdown.triggered().await;
    }

    #[tokio::test]
    async fn sigterm_triggers_and_signals_are_listened_to_from_then_on() {
        let mut tasks = Tasks::new();
        let shutdown = Shutdown::on_signals(&mut tasks).unwrap();
        nix::sys::signal::raise(nix::sys::signal::Signal::SIGTERM).unwrap();
        shutdown.triggered().await;
        assert_eq!(tasks.ended().now_or_never(), None, "a second one is heard");
    }
}
