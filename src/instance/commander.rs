//! Carries out commands, one at a time, each to its end: whoever asked may be gone by then.

use std::{sync::Arc, time::Duration};

use nix::sys::signal::Signal;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    AppAccount, Command, CommandError, CommandRefusal, Follow, InstanceError, InstanceStatus,
    Promote,
    board::{Board, Facts, Process},
    cloning::Cloning,
    poller::Refresh,
    process::Children,
    settings::Settings,
    supervisor::Server,
    term::{Obey, Terms},
};
use crate::mysql::{
    self, Demoted, MysqlError, STATEMENT, Session, Source, ensure_app, is_reserved,
};

/// How long a promotion may wait for transactions.
const PROMOTION: Duration = Duration::from_secs(30);
/// Limit for a demotion, after which mysqld is killed. A little more than what
/// [`mysql::demote`] takes at most in a server that answers.
const DEMOTION: Duration = Duration::from_secs(5);

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
enum Refused {
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
    settings: Arc<Settings>,
    board: Board,
    servers: watch::Receiver<Option<Server>>,
    children: Children,
    refresh: Refresh,
    terms: Terms,
    /// The start that was promoted, and with how many acknowledgements. A restart ends it.
    promoted: Option<(u64, u32)>,
    /// A session kept open, with its start: when clients have used up all connections there may be
    /// no other.
    spare: Option<(u64, Session)>,
    /// The last start that such a session was opened for.
    prepared: u64,
    /// Whom to follow after the clone, by whose order.
    ///
    /// A replica that begins to follow acknowledges commits of its source, so none may begin to by
    /// itself once a failover counts on its being stopped: any order that comes meanwhile ends this.
    follow_after_clone: Option<(u64, Follow)>,
    /// For clone tasks to say that they have ended.
    own_orders: mpsc::Sender<Order>,
}

impl Commander {
    pub(super) fn new(
        settings: Arc<Settings>,
        board: Board,
        servers: watch::Receiver<Option<Server>>,
        children: Children,
        refresh: Refresh,
        own_orders: mpsc::Sender<Order>,
    ) -> Self {
        let terms = Terms::new(settings.own().join("term"));
        Self {
            settings,
            board,
            servers,
            children,
            refresh,
            terms,
            promoted: None,
            spare: None,
            prepared: 0,
            follow_after_clone: None,
            own_orders,
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
                order = orders.recv() => order,
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
                }
                Some(Order::Cloned(done)) => self.cloned(done).await,
                None => return,
            }
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
        if let Command::Demote = command {
            return self.demote(&process).await;
        }
        if let Some(donor) = cloning {
            return self.while_cloning(&donor, &command).await;
        }
        self.follow_after_clone = None;
        match process {
            Process::Up => {}
            Process::Stopping => return Err(Refused::NotNow("mysqld is being stopped".to_owned())),
            _ => return Err(Refused::NotNow("mysqld does not answer yet".to_owned())),
        }
        match command {
            Command::Demote => Ok(()),
            Command::StopReceiver => {
                let (mut session, start) = self.session().await?;
                mysql::stop_receiver(&mut session).await?;
                self.give_back(session, start);
                Ok(())
            }
            Command::Follow(follow) => self.follow(follow).await,
            Command::Promote(promote) => self.promote(promote).await,
            Command::Open => self.open().await,
            Command::SetAcks { acks } => self.set_acks(acks).await,
            Command::Clone(follow) => self.clone_from(term, follow).await,
            Command::EnsureApp(account) => self.ensure_app(account).await,
        }
    }

    /// Whatever happens, it is not writable afterwards: a server that can't be demoted is killed, one
    /// that does not run starts read-only, one that receives a clone is read-only for clients.
    async fn demote(&mut self, process: &Process) -> Result<(), Refused> {
        self.promoted = None;
        let server = self.servers.borrow().clone();
        let Some(server) = server.filter(|_| *process == Process::Up) else {
            return Ok(());
        };
        if self.board.look(|facts| facts.cloning.is_some()) {
            return Ok(());
        }
        let demotion = async {
            let (mut session, start) = self.session().await?;
            let mut helper = Session::open(&server.admin).await?;
            let demoted = mysql::demote(&mut session, &mut helper).await?;
            self.give_back(session, start);
            Ok::<_, MysqlError>(demoted)
        };
        let why = match tokio::time::timeout(DEMOTION, demotion).await {
            Ok(Ok(Demoted::Cleanly)) => return Ok(()),
            Ok(Ok(Demoted::MustBeKilled)) => "read-only did not take effect in time".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not done within {DEMOTION:?}"),
        };
        tracing::warn!(%why, "demotion: mysqld is killed");
        self.children.signal(server.pid, Signal::SIGKILL);
        // Not writable once it is gone, which the supervisor sees.
        let gone = self
            .servers
            .wait_for(|now| now.as_ref().is_none_or(|now| now.start != server.start));
        gone.await
            .map_err(|_| Refused::Failed("the manager is ending".to_owned()))?;
        self.board
            .change(|facts| facts.notice = format!("mysqld was killed to demote it: {why}"));
        Ok(())
    }

    /// A clone is only interrupted by the order to clone another instance: it fails, and the order can
    /// be repeated. Any other order at least keeps this instance from following the donor afterwards.
    async fn while_cloning(&mut self, donor: &str, command: &Command) -> Result<(), Refused> {
        match command {
            Command::Clone(follow) if follow.source_host == donor => return Ok(()),
            Command::Clone(_) => {
                let (mut session, _) = self.session().await?;
                mysql::stop_cloning(&mut session).await?;
                return Err(Refused::NotNow(format!(
                    "the clone of {donor} is being given up first"
                )));
            }
            _ => self.follow_after_clone = None,
        }
        match command {
            Command::StopReceiver => Ok(()),
            _ => Err(Refused::NotNow(format!("it receives a clone of {donor}"))),
        }
    }

    /// A clone has ended, in one way or the other.
    async fn cloned(&mut self, done: Result<(), InstanceError>) {
        let highest = self.terms.highest().ok();
        let ordered = self
            .follow_after_clone
            .take()
            .filter(|(term, _)| Some(*term) == highest);
        let done = match (done, ordered) {
            (Ok(()), Some((_, follow))) => {
                self.follow(follow).await.map_err(|refused| match refused {
                    Refused::Stale => String::new(),
                    Refused::NotNow(why) | Refused::Failed(why) => why,
                })
            }
            (done, _) => done.map_err(|error| format!("the clone failed: {error}")),
        };
        if let Err(why) = &done {
            tracing::warn!(%why, "clone");
        }
        self.board.change(|facts| {
            facts.cloning = None;
            facts.notice = done.err().unwrap_or_default();
        });
    }

    async fn follow(&mut self, follow: Follow) -> Result<(), Refused> {
        let source = source(&self.settings, follow)?;
        self.promoted = None;
        let (mut session, start) = self.session().await?;
        mysql::follow(&mut session, &source).await?;
        self.give_back(session, start);
        self.board.change(|facts| facts.notice.clear());
        Ok(())
    }

    async fn promote(&mut self, promote: Promote) -> Result<(), Refused> {
        let (mut session, start) = self.session().await?;
        mysql::promote(&mut session, &promote.required, promote.acks, PROMOTION).await?;
        self.promoted = Some((start, promote.acks));
        self.give_back(session, start);
        self.board.change(|facts| facts.notice.clear());
        Ok(())
    }

    async fn open(&mut self) -> Result<(), Refused> {
        let (mut session, start) = self.session().await?;
        let acks = self.promoted_acks(start)?;
        mysql::open(&mut session, acks).await?;
        self.give_back(session, start);
        Ok(())
    }

    async fn set_acks(&mut self, acks: u32) -> Result<(), Refused> {
        let (mut session, start) = self.session().await?;
        self.promoted_acks(start)?;
        mysql::set_acks(&mut session, acks).await?;
        self.promoted = Some((start, acks));
        self.give_back(session, start);
        Ok(())
    }

    /// How many acknowledgements it was promoted with, since it was started.
    fn promoted_acks(&self, start: u64) -> Result<u32, Refused> {
        let promoted = self
            .promoted
            .filter(|(of, _)| *of == start)
            .map(|(_, acks)| acks);
        promoted
            .ok_or_else(|| Refused::NotNow("it was not promoted since it was started".to_owned()))
    }

    async fn clone_from(&mut self, term: u64, follow: Follow) -> Result<(), Refused> {
        self.promoted = None;
        let (mut session, start) = self.session().await?;
        mysql::prepare_clone(&mut session).await?;
        let donor = follow.source_host.clone();
        self.follow_after_clone = Some((term, follow));
        self.board.change(|facts| {
            facts.cloning = Some(donor.clone());
            facts.notice.clear();
        });
        let clone = Cloning {
            settings: self.settings.clone(),
            board: self.board.clone(),
            servers: self.servers.clone(),
            start,
            donor,
        };
        let orders = self.own_orders.clone();
        tokio::spawn(async move {
            let done = clone.run(session).await;
            let _ = orders.send(Order::Cloned(done)).await;
        });
        Ok(())
    }

    async fn ensure_app(&mut self, account: AppAccount) -> Result<(), Refused> {
        if is_reserved(&account.username) {
            return Err(Refused::Failed(format!(
                "the account name {:?} is reserved",
                account.username
            )));
        }
        let (mut session, start) = self.session().await?;
        let read_only = mysql::read_globals(&mut session).await?.super_read_only;
        self.give_back(session, start);
        let Some(server) = self.servers.borrow().clone().filter(|_| !read_only) else {
            return Err(Refused::NotNow("it is not the writable primary".to_owned()));
        };
        // As root: the manager's own account may not touch data or accounts.
        let mut session = Session::open(&server.root).await?;
        let revokes: bool = session
            .row("SELECT @@GLOBAL.partial_revokes", STATEMENT)
            .await?;
        for statement in ensure_app(
            &account.username,
            &account.password,
            &account.database,
            revokes,
        ) {
            session.run(&statement, PROMOTION).await?;
        }
        self.board.change(|facts| facts.app_hash = account.hash);
        Ok(())
    }

    /// A session with the running server: the spare one if it is good.
    async fn session(&mut self) -> Result<(Session, u64), MysqlError> {
        let server = self.servers.borrow().clone();
        let Some(server) = server else {
            return Err(MysqlError::NotNow("mysqld does not run".to_owned()));
        };
        match self.spare.take() {
            Some((start, session)) if start == server.start && session.is_usable() => {
                Ok((session, start))
            }
            _ => Ok((Session::open(&server.admin).await?, server.start)),
        }
    }

    fn give_back(&mut self, session: Session, start: u64) {
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

/// Where and how to follow, with the replication password as it is now.
fn source(settings: &Settings, follow: Follow) -> Result<Source, InstanceError> {
    Ok(Source {
        host: follow.source_host,
        port: settings.mysql_port,
        password: settings.read_passwords()?.replication,
        ca: settings.tls_files().0,
        acknowledge: follow.acknowledge,
    })
}
