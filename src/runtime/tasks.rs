//! Tasks that live until they are asked to stop: each has a name and an owner, and one that ends on its
//! own is told. A process that lost one looks alive and does not do its work.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::future::Future;

use tokio::task::{Id, JoinError, JoinSet};

use super::shutdown::Shutdown;

/// Tasks that stop together. Dropped, it ends them where they are.
#[derive(Debug, Default)]
pub struct Tasks {
    stop: Shutdown,
    set: JoinSet<()>,
    names: HashMap<Id, String>,
}

/// A task that ended although nobody had asked it to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Its name.
    pub task: String,
    /// What it died of.
    pub why: String,
}

impl Ended {
    /// It came to its end.
    pub(crate) fn returned(task: impl Into<String>) -> Self {
        Self {
            task: task.into(),
            why: "it returned".to_owned(),
        }
    }

    /// It panicked.
    pub(crate) fn panicked(task: impl Into<String>, panic: &(dyn Any + Send)) -> Self {
        Self {
            task: task.into(),
            why: format!("it panicked: {}", panic_message(panic)),
        }
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ended unexpectedly: {}", self.task, self.why)
    }
}

impl Tasks {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a task; it ends when the signal that `task` is given comes, not before.
    pub fn spawn<F>(&mut self, name: impl Into<String>, task: impl FnOnce(Shutdown) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handle = self.set.spawn(task(self.stop.clone()));
        self.names.insert(handle.id(), name.into());
    }

    /// Waits for a task that ends on its own. Never completes while all live. Cancel-safe.
    pub async fn ended(&mut self) -> Ended {
        match self.set.join_next_with_id().await {
            None => std::future::pending().await,
            Some(Ok((id, ()))) => Ended::returned(self.names.remove(&id).unwrap_or_default()),
            Some(Err(error)) => self.died(error),
        }
    }

    /// Asks all to stop and waits until they have. Returns those that died meanwhile.
    pub async fn stop(mut self) -> Vec<Ended> {
        self.stop.trigger();
        let mut died = Vec::new();
        while let Some(ended) = self.set.join_next_with_id().await {
            if let Err(error) = ended {
                died.push(self.died(error));
            }
        }
        died
    }

    fn died(&mut self, error: JoinError) -> Ended {
        let task = self.names.remove(&error.id()).unwrap_or_default();
        match error.try_into_panic() {
            Ok(panic) => Ended::panicked(task, &*panic),
            Err(error) => Ended {
                task,
                why: error.to_string(),
            },
        }
    }
}

/// What a panic says.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a message")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_dies_is_named_with_what_it_died_of_and_the_others_stop_when_asked() {
        let mut tasks = Tasks::new();
        let (stopped, mut stops) = tokio::sync::mpsc::unbounded_channel();
        tasks.spawn("lives", |stop| async move {
            stop.triggered().await;
            let _ = stopped.send(());
        });
        tasks.spawn("returns", |_| async {});
        let ended = tasks.ended().await;
        assert_eq!(ended.to_string(), "returns ended unexpectedly: it returned");
        tasks.spawn("dies", |_| async { panic!("seen in a {}", "test") });
        let ended = tasks.ended().await;
        assert_eq!(
            ended.to_string(),
            "dies ended unexpectedly: it panicked: seen in a test"
        );
        tasks.spawn("dies late", |stop| async move {
            stop.triggered().await;
            panic!("at the end");
        });
        let died = tasks.stop().await;
        assert_eq!(died.len(), 1);
        assert_eq!(died[0].task, "dies late");
        assert!(stops.try_recv().is_ok());
    }
}
