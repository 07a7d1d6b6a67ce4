//! Receiving a clone: longer than any request may take, and across a restart of mysqld.

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::{
    InstanceError, aside,
    board::{Board, Process},
    settings::Settings,
    supervisor::Server,
};
use crate::mysql::{self, Donor, MysqlError, STATEMENT, Session};

/// How long mysqld may take to come back with the clone. Recovery of a big clone takes its time.
const RESTART: Duration = Duration::from_hours(1);
/// Tries to reach the server that has come back.
const TRIES: u32 = 50;

/// A clone that is being received.
pub(super) struct Cloning {
    pub(super) settings: Arc<Settings>,
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
    pub(super) async fn run(mut self, mut session: Session) -> Result<(), InstanceError> {
        self.keep_binary_logs(&mut session).await?;
        let donor = Donor {
            host: self.donor.clone(),
            port: self.settings.mysql_port,
            password: self.settings.read_passwords()?.clone,
        };
        mysql::clone_from(&mut session, &donor).await?;
        drop(session);
        let mut session = self.restarted().await?;
        match mysql::clone_failure(&mut session).await? {
            None => Ok(()),
            Some(why) => Err(MysqlError::NotNow(why).into()),
        }
    }

    /// Keeps what only this instance may have, where it has anything.
    async fn keep_binary_logs(&self, session: &mut Session) -> Result<(), InstanceError> {
        if mysql::read_globals(session).await?.gtid_executed.is_empty() {
            return Ok(());
        }
        session.run("FLUSH BINARY LOGS", STATEMENT).await?;
        let (datadir, aside) = (self.settings.datadir(), self.settings.own().join("aside"));
        let time = utc(SystemTime::now());
        if let Some(folder) = aside::keep(&datadir, &aside, &time)? {
            tracing::info!(folder = %folder.display(), "binary logs kept aside");
        }
        Ok(())
    }

    /// Waits until mysqld has been started again and answers.
    async fn restarted(&mut self) -> Result<Session, InstanceError> {
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
            match Session::open(&server.admin).await {
                Ok(session) => return Ok(session),
                Err(error) if tries == TRIES => return Err(error.into()),
                Err(_) => tries += 1,
            }
            sleep(Duration::from_millis(100)).await;
        }
    }
}

/// A time as the name of a folder: `20260131T235959Z`.
fn utc(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let seconds = i64::try_from(seconds).unwrap_or_default();
    let time = jiff::Timestamp::from_second(seconds).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_by_utc() {
        assert_eq!(
            utc(UNIX_EPOCH + Duration::from_secs(1_769_903_999)),
            "20260131T235959Z"
        );
    }
}
