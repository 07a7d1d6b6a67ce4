//! Sessions with a modelled server: what the manager asks, as operations on the network.

use std::{fmt, time::Duration};

use futures_util::FutureExt as _;
use tokio::time::{Instant, sleep, timeout};

use super::{
    mysqls::Mysqls,
    process::{Answered, ProcessId, SessionId},
    replica::SqlError,
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
    mysqls: Mysqls,
    process: ProcessId,
    id: SessionId,
    user: &'static str,
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
    async fn ask<T>(
        &mut self,
        what: &str,
        within: Duration,
        mut look: impl FnMut(&mut super::network::Network, Instant) -> Found<T>,
    ) -> Result<T, MysqlError> {
        let statement = || what.to_owned();
        let lost = |why: &str| MysqlError::Lost {
            statement: statement(),
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
                    statement: statement(),
                    code,
                    message,
                })
            }
            Ok(None) => Err(lost("the server has closed it")),
            Err(_) => Err(MysqlError::Timeout {
                statement: statement(),
                within,
            }),
        }
    }

    async fn read<T>(
        &mut self,
        what: &str,
        mut look: impl FnMut(&mut super::network::Network) -> Option<T>,
    ) -> Result<T, MysqlError> {
        self.ask(what, STATEMENT, |network, _| look(network).map(Ok))
            .await
    }

    /// Begins something once, and waits for the answer that this session gets.
    async fn begin(
        &mut self,
        what: &str,
        within: Duration,
        begin: impl Fn(&mut super::network::Network, ProcessId, SessionId, Instant),
    ) -> Result<Option<super::Gtid>, MysqlError> {
        let (process, id) = (self.process, self.id);
        let mut begun = false;
        self.ask(what, within, |network, now| {
            if !begun {
                begun = true;
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
    pub(super) async fn insert(
        &mut self,
        row: super::Row,
        within: Duration,
    ) -> Result<super::Gtid, MysqlError> {
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

    async fn execute(&mut self, statement: &Statement, within: Duration) -> Result<(), MysqlError> {
        let process = self.process;
        let what = words(statement);
        let done = |result: Result<(), SqlError>| {
            Some(result.map_err(|(code, message)| (code, message.to_owned())))
        };
        match statement {
            Statement::Set("super_read_only", value) if value == "ON" => {
                let asked = self.begin(what, within, |network, process, session, now| {
                    network.set_read_only(process, session, now);
                });
                asked.await.map(drop)
            }
            Statement::Set(variable, value) => {
                if (*variable, value.as_str()) == ("rpl_semi_sync_source_enabled", "OFF") {
                    self.slow_switch().await;
                }
                self.ask(what, within, |network, now| {
                    let known = network.set(process, variable, value, now);
                    let unknown = || (1193, format!("Unknown system variable '{variable}'"));
                    Some(if known { Ok(()) } else { Err(unknown()) })
                })
                .await
            }
            Statement::StopReceiver => self.stop_receiver(what, within).await,
            Statement::StopReplica => {
                self.stop_receiver(what, within).await?;
                self.ask(what, within, |network, _| {
                    network.stop_applier(process);
                    network.applier_stopped(process).then_some(Ok(()))
                })
                .await
            }
            Statement::StartReplica => {
                self.ask(what, within, |network, now| {
                    let receiver = network.start_receiver(process, now);
                    done(receiver.and_then(|()| network.start_applier(process, now)))
                })
                .await
            }
            Statement::StartReceiver => {
                self.ask(what, within, |network, now| {
                    done(network.start_receiver(process, now))
                })
                .await
            }
            Statement::StartApplier => {
                self.ask(what, within, |network, now| {
                    done(network.start_applier(process, now))
                })
                .await
            }
            Statement::ChangeSource {
                source,
                auto_position,
            } => {
                self.ask(what, within, |network, _| {
                    done(network.change_source(process, &source.host, *auto_position))
                })
                .await
            }
            Statement::ResetReplica => {
                self.ask(what, within, |network, _| {
                    done(network.reset_replica(process))
                })
                .await
            }
            Statement::Kill(id) => {
                self.ask(what, within, |network, _| {
                    let closed = network.with(process, |it, _| {
                        let open = it.sessions.contains_key(id);
                        it.close(*id);
                        open
                    })?;
                    let unknown = || (1094, format!("Unknown thread id: {id}"));
                    Some(if closed { Ok(()) } else { Err(unknown()) })
                })
                .await
            }
            Statement::KillQuery(id) => {
                self.ask(what, within, |network, _| {
                    let clones = network.with(process, |it, _| {
                        it.clone.as_ref().is_some_and(|clone| clone.session == *id)
                    })?;
                    if clones {
                        network.fail_clone(process, "Query execution was interrupted");
                    }
                    Some(Ok(()))
                })
                .await
            }
            Statement::Clone(donor) => {
                let clone = self.begin(what, within, |network, process, session, now| {
                    network.clone(process, session, &donor.host, now);
                });
                clone.await.map(drop)
            }
            Statement::FlushBinaryLogs | Statement::ReloadTls => {
                self.ask(what, within, |_, _| Some(Ok(()))).await
            }
            Statement::Logged(_) => {
                let privileged = self.user == "root";
                let logged = self.begin(what, within, |network, process, session, now| {
                    network.write(process, session, None, privileged, now);
                });
                logged.await.map(drop)
            }
        }
    }

    async fn stop_receiver(&mut self, what: &str, within: Duration) -> Result<(), MysqlError> {
        let process = self.process;
        let takes = self
            .mysqls
            .change(|network, _| network.receiver_stops_within(process));
        sleep(takes).await;
        self.ask(what, within, |network, now| {
            network.stop_receiver(process, now);
            Some(Ok(()))
        })
        .await
    }

    async fn slow_switch(&mut self) {
        let takes = self.mysqls.change(|network, _| {
            let range = network.pace.source_off.clone();
            network.dice.within(&range)
        });
        sleep(takes).await;
    }
}

/// The first words of a statement.
fn words(statement: &Statement) -> &'static str {
    match statement {
        Statement::Set(..) => "SET GLOBAL",
        Statement::StopReplica => "STOP REPLICA",
        Statement::StopReceiver => "STOP REPLICA IO_THREAD",
        Statement::StartReplica => "START REPLICA",
        Statement::StartReceiver => "START REPLICA IO_THREAD",
        Statement::StartApplier => "START REPLICA SQL_THREAD",
        Statement::ChangeSource { .. } => "CHANGE REPLICATION SOURCE",
        Statement::ResetReplica => "RESET REPLICA ALL",
        Statement::Kill(_) => "KILL",
        Statement::KillQuery(_) => "KILL QUERY",
        Statement::Clone(_) => "CLONE INSTANCE",
        Statement::FlushBinaryLogs => "FLUSH BINARY LOGS",
        Statement::ReloadTls => "ALTER INSTANCE RELOAD TLS",
        Statement::Logged(_) => "DDL",
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
        self.read("SELECT", move |network| network.channel(process))
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
                    network.schedule(now + within, super::network::Event::Wake);
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
