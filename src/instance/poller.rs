//! Reads the server's state, again and again.

use std::time::Duration;

use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, timeout},
};

use super::{
    board::{Board, Process},
    supervisor::Server,
};
use crate::mysql::{Heard, MysqlError, ServerState, Session, read_state};
use crate::sync::watch;

/// Pause between two readings.
const PAUSE: Duration = Duration::from_millis(250);
/// Pause between two tries while mysqld starts.
const PAUSE_STARTING: Duration = Duration::from_millis(50);
/// A server that takes longer to be read does not answer.
const READING: Duration = Duration::from_secs(2);

/// Asks for a reading.
#[derive(Clone)]
pub(super) struct Refresh(mpsc::Sender<oneshot::Sender<()>>);

impl Refresh {
    /// Returns once a reading that began after the call is on the board, or could not be made.
    pub(super) async fn now(&self) {
        let (done, wait) = oneshot::channel();
        if self.0.send(done).await.is_ok() {
            let _ = wait.await;
        }
    }
}

/// The one task that reads.
pub(super) struct Poller {
    board: Board,
    servers: watch::Receiver<Option<Server>>,
    asked: mpsc::Receiver<oneshot::Sender<()>>,
    session: Option<Box<dyn Session>>,
    heard: Heard,
    /// Start that `session` and `heard` belong to.
    start: u64,
}

impl Poller {
    /// A poller, and the way to ask it.
    pub(super) fn new(board: Board, servers: watch::Receiver<Option<Server>>) -> (Self, Refresh) {
        let (ask, asked) = mpsc::channel(16);
        let poller = Self {
            board,
            servers,
            asked,
            session: None,
            heard: Heard::default(),
            start: 0,
        };
        (poller, Refresh(ask))
    }

    /// Reads until nobody can ask any more.
    pub(super) async fn run(mut self) {
        let mut waiting = Vec::new();
        loop {
            self.poll().await;
            for done in waiting.drain(..) {
                let _ = oneshot::Sender::send(done, ());
            }
            let starting = self.board.look(|facts| facts.process == Process::Starting);
            let pause = tokio::time::sleep(if starting { PAUSE_STARTING } else { PAUSE });
            tokio::select! {
                biased;
                asked = self.asked.recv() => match asked {
                    Some(done) => waiting.push(done),
                    None => return,
                },
                Ok(()) = self.servers.changed() => {}
                () = pause => {}
            }
            while let Ok(done) = self.asked.try_recv() {
                waiting.push(done);
            }
        }
    }

    async fn poll(&mut self) {
        let Some(server) = self.servers.borrow_and_update().clone() else {
            self.session = None;
            return;
        };
        if server.start != self.start {
            (self.session, self.heard, self.start) = (None, Heard::default(), server.start);
        }
        let reading = match timeout(READING, self.read(&server)).await {
            Ok(reading) => reading.map_err(|error| error.to_string()),
            Err(_) => Err(format!("mysqld does not answer within {READING:?}")),
        };
        if reading.is_err() {
            self.session = None;
        }
        self.board.change(|facts| {
            let current = facts.starts == server.start;
            match reading {
                Ok(state)
                    if current && matches!(facts.process, Process::Starting | Process::Up) =>
                {
                    facts.process = Process::Up;
                    facts.server = Some(state);
                    facts.answered = Some(Instant::now());
                    facts.unreadable.clear();
                }
                Err(why) if current => {
                    facts.server = None;
                    facts.unreadable = why;
                }
                // It ended meanwhile: what was read of it is no longer so.
                _ => {}
            }
        });
    }

    async fn read(&mut self, server: &Server) -> Result<ServerState, MysqlError> {
        let session = match self.session.take().filter(|session| session.is_usable()) {
            Some(session) => session,
            None => server.accounts.admin.open().await?,
        };
        read_state(self.session.insert(session).as_mut(), &mut self.heard).await
    }
}
