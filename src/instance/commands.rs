//! What each command does. See [`Command`] for what it promises.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::board::Facts;
use super::{
    AppAccount, Command, Follow, InstanceError, Promote,
    cloning::Cloning,
    commander::{Commander, Order, Refused},
    settings::Settings,
};
use crate::mysql::{
    self, Demoted, MysqlError, STATEMENT, Session, Source, ensure_app, is_reserved,
};

/// How long a promotion may wait for transactions.
const PROMOTION: Duration = Duration::from_secs(30);
/// Limit for a demotion, after which mysqld is killed. A little more than what
/// [`mysql::demote`] takes at most in a server that answers.
const DEMOTION: Duration = Duration::from_secs(5);

impl Commander {
    pub(super) async fn stop_receiver(&mut self) -> Result<(), Refused> {
        let (mut session, start) = self.session().await?;
        mysql::stop_receiver(&mut session).await?;
        self.give_back(session, start);
        Ok(())
    }

    /// Whatever happens, it is not writable afterwards: a server that can't be demoted is killed. One
    /// that does not run or has just been started is read-only (and may be recovering: it is not
    /// killed), one that receives a clone is read-only for clients.
    pub(super) async fn demote(&mut self, may_be_writable: bool) -> Result<(), Refused> {
        self.board.change(|facts| facts.promoted = None);
        let server = self.servers.borrow().clone();
        let Some(server) = server.filter(|_| may_be_writable) else {
            return Ok(());
        };
        let demotion = async {
            let (mut session, start) = self.session().await?;
            let mut helper = Session::open(&server.admin).await?;
            let demoted = mysql::demote(&mut session, &mut helper).await?;
            self.give_back(session, start);
            self.demoted = Some(start);
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
    pub(super) async fn while_cloning(
        &mut self,
        donor: &str,
        command: &Command,
    ) -> Result<(), Refused> {
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
    pub(super) async fn cloned(&mut self, done: Result<(), InstanceError>) {
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
        // What was read during the clone, that it is writable, must not outlive it.
        self.refresh.now().await;
        self.board.change(|facts| {
            facts.cloning = None;
            facts.notice = done.err().unwrap_or_default();
        });
    }

    pub(super) async fn follow(&mut self, follow: Follow) -> Result<(), Refused> {
        self.is_another(&follow)?;
        let source = source(&self.settings, follow)?;
        self.board.change(|facts| facts.promoted = None);
        let (mut session, start) = self.session().await?;
        mysql::follow(&mut session, &source).await?;
        self.give_back(session, start);
        self.board.change(|facts| facts.notice.clear());
        Ok(())
    }

    fn is_another(&self, follow: &Follow) -> Result<(), Refused> {
        if follow.source_host == self.settings.host {
            return Err(Refused::Failed(
                "an instance can't follow itself".to_owned(),
            ));
        }
        Ok(())
    }

    pub(super) async fn promote(&mut self, promote: Promote) -> Result<(), Refused> {
        let (mut session, start) = self.session().await?;
        mysql::promote(&mut session, &promote.required, promote.acks, PROMOTION).await?;
        self.give_back(session, start);
        self.board.change(|facts| {
            facts.promoted = Some((start, promote.acks));
            facts.notice.clear();
        });
        Ok(())
    }

    pub(super) async fn open(&mut self) -> Result<(), Refused> {
        let (mut session, start) = self.session().await?;
        let acks = self.promoted_acks()?;
        mysql::open(&mut session, acks).await?;
        self.give_back(session, start);
        Ok(())
    }

    pub(super) async fn set_acks(&mut self, acks: u32) -> Result<(), Refused> {
        let (mut session, start) = self.session().await?;
        self.promoted_acks()?;
        mysql::set_acks(&mut session, acks).await?;
        self.board
            .change(|facts| facts.promoted = Some((start, acks)));
        self.give_back(session, start);
        Ok(())
    }

    fn promoted_acks(&self) -> Result<u32, Refused> {
        self.board
            .look(Facts::promoted_acks)
            .ok_or_else(|| Refused::NotNow("it was not promoted since it was started".to_owned()))
    }

    pub(super) async fn clone_from(&mut self, term: u64, follow: Follow) -> Result<(), Refused> {
        self.is_another(&follow)?;
        self.board.change(|facts| facts.promoted = None);
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

    pub(super) async fn ensure_app(&mut self, account: AppAccount) -> Result<(), Refused> {
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
