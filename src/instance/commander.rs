//! Carries out commands, one at a time, each to its end: whoever asked may be gone by then.

use std::sync::Arc;

use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
};

use super::{
    Command, CommandError, CommandRefusal, Follow, InstanceError, InstanceStatus,
    board::{Board, Facts, Process},
    container::Container,
    poller::Refresh,
    supervisor::Server,
    term::{Obey, Terms},
};
use crate::mysql::{self, MysqlError, Session};
use crate::sync::watch;

/// What the commander is told.
pub(super) enum Order {
    /// To carry out a command.
    Obey {
        term: u64,
        command: Command,
        reply: oneshot::Sender<Result<InstanceStatus, CommandError>>,
    },
    /// That a clone has ended.
    Cloned(Result<(), InstanceError>),
}

/// What a command answers where it was not carried out.
pub(super) enum Refused {
    Stale,
    NotNow(String),
    Failed(String),
}

impl From<MysqlError> for Refused {
    fn from(error: MysqlError) -> Self {
        match error {
            MysqlError::NotNow(why) => Self::NotNow(why),
            error @ MysqlError::Connect(_) => Self::NotNow(error.to_string()),
            error => Self::Failed(error.to_string()),
        }
    }
}

impl From<InstanceError> for Refused {
    fn from(error: InstanceError) -> Self {
        match error {
            InstanceError::Mysql(error) => error.into(),
            error => Self::Failed(error.to_string()),
        }
    }
}

/// The one task that changes the server.
pub(super) struct Commander {
    pub(super) container: Arc<dyn Container>,
    pub(super) board: Board,
    pub(super) servers: watch::Receiver<Option<Server>>,
    pub(super) refresh: Refresh,
    pub(super) terms: Terms,
    /// The start whose semi-sync source is still to be switched off: after the answer, it takes long.
    pub(super) demoted: Option<u64>,
    /// A session kept open, with its start: when clients have used up all connections there may be
    /// no other.
    pub(super) spare: Option<(u64, Box<dyn Session>)>,
    /// The last start that such a session was opened for.
    pub(super) prepared: u64,
    /// Whom to follow after the clone, by whose order.
    ///
    /// A replica that begins to follow acknowledges commits of its source, so none may begin to by
    /// itself once a failover counts on its being stopped: any order that comes meanwhile ends this.
    pub(super) follow_after_clone: Option<(u64, Follow)>,
    /// For clone tasks to say that they have ended.
    pub(super) own_orders: mpsc::Sender<Order>,
    /// The clone task, if any.
    pub(super) clones: JoinSet<()>,
}

impl Commander {
    pub(super) fn new(
        container: Arc<dyn Container>,
        board: Board,
        servers: watch::Receiver<Option<Server>>,
        refresh: Refresh,
        own_orders: mpsc::Sender<Order>,
    ) -> Self {
        let terms = Terms::new(container.clone());
        Self {
            container,
            board,
            servers,
            refresh,
            terms,
            demoted: None,
            spare: None,
            prepared: 0,
            follow_after_clone: None,
            own_orders,
            clones: JoinSet::new(),
        }
    }

    /// Carries out orders until nobody can give any more.
    pub(super) async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        // Shown from the start; an unreadable term is said with the first command.
        if let Ok(term) = self.terms.highest() {
            self.board.change(|facts| facts.term = term);
        }
        loop {
            let order = tokio::select! {
                biased;
                order = orders.recv() => order,
                Ok(()) = self.servers.changed() => {
                    let start = self.servers.borrow_and_update().as_ref().map(|server| server.start);
                    self.spare.take_if(|(of, _)| Some(*of) != start);
                    continue;
                }
                start = up_since(&self.board, self.prepared) => {
                    self.prepared = start;
                    if let Ok((session, start)) = self.session().await {
                        self.give_back(session, start);
                    }
                    continue;
                }
            };
            match order {
                Some(Order::Obey {
                    term,
                    command,
                    reply,
                }) => {
                    tracing::info!(term, ?command, "command");
                    let done = self.execute(term, command).await;
                    self.refresh.now().await;
                    let _ = reply.send(match done {
                        Ok(()) => Ok(self.board.look(Facts::status)),
                        Err(refused) => Err(self.refusal(refused)),
                    });
                    self.rest_of_demotion().await;
                }
                Some(Order::Cloned(done)) => self.cloned(done).await,
                None => return,
            }
        }
    }

    /// Nothing commits any more, so nothing waits on this.
    async fn rest_of_demotion(&mut self) {
        let Some(demoted) = self.demoted.take() else {
            return;
        };
        let rest = async {
            let (mut session, start) = self.session().await?;
            if start == demoted {
                mysql::semi_sync_source_off(session.as_mut()).await?;
            }
            self.give_back(session, start);
            Ok::<_, MysqlError>(())
        };
        if let Err(error) = rest.await {
            tracing::warn!(%error, "the semi-sync source stays on");
        }
    }

    fn refusal(&self, refused: Refused) -> CommandError {
        let term = self.board.look(|facts| facts.term);
        let (refusal, message) = match refused {
            Refused::Stale => {
                let message = format!("a leader of term {term} was obeyed already");
                (CommandRefusal::StaleTerm, message)
            }
            Refused::NotNow(message) => (CommandRefusal::NotNow, message),
            Refused::Failed(message) => (CommandRefusal::Failed, message),
        };
        tracing::warn!(?refusal, %message, "command refused");
        CommandError {
            refusal,
            message,
            term,
        }
    }

    async fn execute(&mut self, term: u64, command: Command) -> Result<(), Refused> {
        if self.terms.obey(term)? == Obey::Stale {
            return Err(Refused::Stale);
        }
        self.board.change(|facts| facts.term = term);
        let (process, cloning) = self
            .board
            .look(|facts| (facts.process.clone(), facts.cloning.clone()));
        match (&command, &process, cloning) {
            // Whatever the state.
            (Command::Demote, process, cloning) => {
                let writable = *process == Process::Up && cloning.is_none();
                return self.demote(writable).await;
            }
            (_, _, Some(donor)) => return self.while_cloning(&donor, &command).await,
            (_, Process::Up, None) => {}
            (_, Process::Stopping, _) => {
                return Err(Refused::NotNow("mysqld is being stopped".to_owned()));
            }
            _ => return Err(Refused::NotNow("mysqld does not answer yet".to_owned())),
        }
        match command {
            Command::Demote => self.demote(true).await,
            Command::StopReceiver => self.stop_receiver().await,
            Command::Follow(follow) => self.follow(follow).await,
            Command::Promote(promote) => self.promote(promote).await,
            Command::Open => self.open().await,
            Command::SetAcks { acks } => self.set_acks(acks).await,
            Command::Clone(follow) => self.clone_from(term, follow).await,
            Command::EnsureApp(account) => self.ensure_app(account).await,
        }
    }

    /// A session with the running server: the spare one if it is good.
    pub(super) async fn session(&mut self) -> Result<(Box<dyn Session>, u64), MysqlError> {
        let server = self.servers.borrow().clone();
        let Some(server) = server else {
            return Err(MysqlError::NotNow("mysqld does not run".to_owned()));
        };
        match self.spare.take() {
            Some((start, session)) if start == server.start && session.is_usable() => {
                Ok((session, start))
            }
            _ => Ok((server.accounts.admin.open().await?, server.start)),
        }
    }

    pub(super) fn give_back(&mut self, session: Box<dyn Session>, start: u64) {
        if session.is_usable() {
            self.spare = Some((start, session));
        }
    }
}

/// Waits until a start later than `before` answers, and says which.
async fn up_since(board: &Board, before: u64) -> u64 {
    let mut facts = board.subscribe();
    let up = facts.wait_for(|facts| facts.starts > before && facts.process == Process::Up);
    let start = up.await.map(|facts| facts.starts);
    // The board that is borrowed here sends to itself.
    start.unwrap_or(before)
}
