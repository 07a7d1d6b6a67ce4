//! Sessions with a modelled server: what the manager asks, as operations on the network.

use std::{fmt, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::{Instant, timeout};

use super::{
    data::{Gtid, Row},
    mysqls::Mysqls,
    network::{Event, Network},
    process::{Answered, ProcessId, SessionId},
};
use crate::mysql::{
    Access, Answer, CONNECT, Channel, Counters, GtidSet, MysqlError, Process, STATEMENT,
    ServerState, Session, Statement,
};

/// One account's way to one process.
pub(super) struct Door {
    pub(super) mysqls: Mysqls,
    pub(super) process: ProcessId,
    pub(super) user: &'static str,
}

impl Door {
    /// Opens a session. A process that is frozen does not answer.
    pub(super) async fn enter(&self) -> Result<Modelled, MysqlError> {
        self.mysqls.pause().await;
        let hangs = self
            .mysqls
            .until(|network, _| (!network.is_frozen(self.process)).then_some(()));
        if timeout(CONNECT, hangs).await.is_err() {
            let why = format!("no answer within {CONNECT:?}");
            return Err(MysqlError::Connect(why));
        }
        let id = self
            .mysqls
            .change(|network, _| network.open(self.process, self.user))
            .ok_or_else(|| MysqlError::Connect("Connection refused".to_owned()))?;
        Ok(Modelled {
            mysqls: self.mysqls.clone(),
            process: self.process,
            id,
            user: self.user,
            usable: true,
        })
    }
}

impl Access for Door {
    fn open(&self) -> Answer<'_, Box<dyn Session>> {
        async move { Ok(Box::new(self.enter().await?) as Box<dyn Session>) }.boxed()
    }
}

/// A session.
pub(super) struct Modelled {
    pub(super) mysqls: Mysqls,
    pub(super) process: ProcessId,
    id: SessionId,
    pub(super) user: &'static str,
    /// No statement was left unanswered.
    usable: bool,
}

impl fmt::Debug for Modelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Modelled")
            .field("process", &self.process)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl Drop for Modelled {
    fn drop(&mut self) {
        self.mysqls.change(|network, _| {
            network.with(self.process, |process, _| process.close(self.id));
        });
    }
}

/// What a look at the network finds.
type Found<T> = Option<Result<T, (u16, String)>>;

impl Modelled {
    /// Asks again and again until there is an answer, at most for `within`.
    pub(super) async fn ask<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&mut Network, Instant) -> Found<T>,
    ) -> Result<T, MysqlError> {
        let named = || what.to_owned();
        let lost = |why: &str| MysqlError::Lost {
            statement: named(),
            why: why.to_owned(),
        };
        if !self.usable {
            return Err(lost("closed before"));
        }
        self.usable = false;
        let (process, id) = (self.process, self.id);
        let mysqls = self.mysqls.clone();
        let answer = async {
            mysqls.pause().await;
            mysqls
                .until(|network, now| {
                    if network.is_frozen(process) {
                        return None;
                    }
                    let open = network.with(process, |it, _| it.sessions.contains_key(&id));
                    if open != Some(true) {
                        return Some(None);
                    }
                    look(network, now).map(Some)
                })
                .await
        };
        match timeout(within, answer).await {
            Ok(Some(Ok(found))) => {
                self.usable = true;
                Ok(found)
            }
            Ok(Some(Err((code, message)))) => {
                self.usable = true;
                Err(MysqlError::Server {
                    statement: named(),
                    code,
                    message,
                })
            }
            Ok(None) => Err(lost("the server has closed it")),
            Err(_) => Err(MysqlError::Timeout {
                statement: named(),
                within,
            }),
        }
    }

    async fn read<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut Network) -> Option<T>,
    ) -> Result<T, MysqlError> {
        self.ask(what, STATEMENT, |network, _| look(network).map(Ok))
            .await
    }

    /// Begins something once, and waits for the answer that this session gets.
    pub(super) async fn begin(
        &mut self,
        what: &str,
        within: Duration,
        begin: impl Fn(&mut Network, ProcessId, SessionId, Instant),
    ) -> Result<Option<Gtid>, MysqlError> {
        let (process, id) = (self.process, self.id);
        let mut asked = false;
        self.ask(what, within, |network, now| {
            if !asked {
                asked = true;
                begin(network, process, id, now);
            }
            match network.with(process, |it, _| it.answers.remove(&id))?? {
                Answered::Done(gtid) => Some(Ok(gtid)),
                Answered::Refused(code, message) => Some(Err((code, message))),
            }
        })
        .await
    }

    /// Inserts a row.
    pub(super) async fn insert(&mut self, row: Row, within: Duration) -> Result<Gtid, MysqlError> {
        let privileged = self.user == "root";
        let gtid = self
            .begin("INSERT", within, |network, process, session, now| {
                network.write(process, session, Some(row), privileged, now);
            })
            .await?;
        gtid.ok_or_else(|| MysqlError::Answer {
            statement: "INSERT".to_owned(),
        })
    }
}

impl Session for Modelled {
    fn is_usable(&self) -> bool {
        self.usable
    }

    fn run<'a>(&'a mut self, statement: &'a Statement, within: Duration) -> Answer<'a, ()> {
        self.execute(statement, within).boxed()
    }

    fn channel(&mut self) -> Answer<'_, Option<Channel>> {
        let process = self.process;
        self.read("SELECT", move |network| Some(network.channel(process)))
            .boxed()
    }

    fn globals(&mut self) -> Answer<'_, ServerState> {
        let process = self.process;
        self.read("SELECT", move |network| network.globals(process))
            .boxed()
    }

    fn counters(&mut self) -> Answer<'_, Counters> {
        let process = self.process;
        self.read("SELECT", move |network| network.counters(process))
            .boxed()
    }

    fn missing<'a>(&'a mut self, set: &'a str) -> Answer<'a, Option<String>> {
        async move {
            let set: GtidSet = set.parse()?;
            let process = self.process;
            let missing = self
                .read("SELECT GTID_SUBTRACT", |network| {
                    network.missing(process, &set)
                })
                .await?;
            Ok((!missing.is_empty()).then(|| missing.to_string()))
        }
        .boxed()
    }

    fn wait_executed<'a>(&'a mut self, set: &'a str, within: Duration) -> Answer<'a, bool> {
        async move {
            let set: GtidSet = set.parse()?;
            let process = self.process;
            let mut until = None;
            let what = "SELECT WAIT_FOR_EXECUTED_GTID_SET";
            self.ask(what, within + STATEMENT, |network, now| {
                let until = *until.get_or_insert_with(|| {
                    network.schedule(now + within, Event::Wake);
                    now + within
                });
                let missing = network.missing(process, &set)?;
                if missing.is_empty() {
                    return Some(Ok(true));
                }
                (now >= until).then_some(Ok(false))
            })
            .await
        }
        .boxed()
    }

    fn processes(&mut self) -> Answer<'_, Vec<Process>> {
        let process = self.process;
        self.read("SHOW PROCESSLIST", move |network| network.sessions(process))
            .boxed()
    }

    fn clone_status(&mut self) -> Answer<'_, Option<(String, String)>> {
        let process = self.process;
        self.read("SELECT", move |network| {
            network.with(process, |_, data| data.clone_status.clone())
        })
        .boxed()
    }

    fn partial_revokes(&mut self) -> Answer<'_, bool> {
        self.read("SELECT", |_| Some(false)).boxed()
    }
}
