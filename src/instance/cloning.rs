//! Receiving a clone: longer than any request may take, and across a restart of mysqld.

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};

use super::{
    InstanceError,
    board::{Board, Process},
    container::Container,
    supervisor::Server,
};
use crate::mysql::{self, MysqlError, STATEMENT, Session, Statement};
use crate::sync::watch;

/// How long mysqld may take to come back with the clone. Recovery of a big clone takes its time.
const RESTART: Duration = Duration::from_hours(1);
/// Tries to reach the server that has come back.
const TRIES: u32 = 50;

/// A clone that is being received.
pub(super) struct Cloning {
    pub(super) container: Arc<dyn Container>,
    pub(super) board: Board,
    pub(super) servers: watch::Receiver<Option<Server>>,
    /// The start of mysqld that receives it.
    pub(super) start: u64,
    /// Whose clone.
    pub(super) donor: String,
}

impl Cloning {
    /// Clones over `session`. When it returns without an error mysqld runs with the clone, read-only
    /// and without a source.
    pub(super) async fn run(mut self, mut session: Box<dyn Session>) -> Result<(), InstanceError> {
        self.keep_binary_logs(session.as_mut()).await?;
        let donor = self.container.donor(&self.donor)?;
        mysql::clone_from(session.as_mut(), &donor).await?;
        drop(session);
        let mut session = self.restarted().await?;
        match mysql::clone_failure(session.as_mut()).await? {
            None => Ok(()),
            Some(why) => Err(MysqlError::NotNow(why).into()),
        }
    }

    /// Keeps what only this instance may have, where it has anything.
    async fn keep_binary_logs(&self, session: &mut dyn Session) -> Result<(), InstanceError> {
        if session.globals().await?.gtid_executed.is_empty() {
            return Ok(());
        }
        session.run(&Statement::FlushBinaryLogs, STATEMENT).await?;
        if let Some(folder) = self.container.keep_binary_logs()? {
            tracing::info!(%folder, "binary logs kept aside");
        }
        Ok(())
    }

    /// Waits until mysqld has been started again and answers.
    async fn restarted(&mut self) -> Result<Box<dyn Session>, InstanceError> {
        let ended = |why: &str| InstanceError::Process {
            what: "mysqld after the clone",
            why: why.to_owned(),
        };
        let before = self.start;
        let mut facts = self.board.subscribe();
        let up = facts.wait_for(|facts| facts.starts > before && facts.process == Process::Up);
        match timeout(RESTART, up).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) => return Err(ended("the manager is ending")),
            Err(_) => return Err(ended("it does not answer")),
        }
        let mut tries = 0;
        loop {
            let server = self
                .servers
                .borrow()
                .clone()
                .ok_or_else(|| ended("it does not run"))?;
            match server.accounts.admin.open().await {
                Ok(session) => return Ok(session),
                Err(error) if tries == TRIES => return Err(error.into()),
                Err(_) => tries += 1,
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}
