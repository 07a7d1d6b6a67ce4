//! The statements of Mainstay, as operations on the network.

use std::time::Duration;

use tokio::time::sleep;

use super::{process::SessionId, replica::SqlError, session::Modelled};
use crate::mysql::{MysqlError, Statement};

impl Modelled {
    /// Runs a statement.
    pub(super) async fn execute(
        &mut self,
        statement: &Statement,
        within: Duration,
    ) -> Result<(), MysqlError> {
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
            Statement::Set(variable, value) => self.set(variable, value, within).await,
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
            Statement::Kill(id) => self.close(*id, within).await,
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
            // The log can't be closed while a commit waits.
            Statement::FlushBinaryLogs => {
                self.ask(what, within, |network, _| {
                    let idle = network.with(process, |it, _| it.committing.is_empty())?;
                    idle.then_some(Ok(()))
                })
                .await
            }
            Statement::ReloadTls => self.ask(what, within, |_, _| Some(Ok(()))).await,
            Statement::Logged(_) => {
                let privileged = self.user == "root";
                let logged = self.begin(what, within, |network, process, session, now| {
                    network.write(process, session, None, privileged, now);
                });
                logged.await.map(drop)
            }
        }
    }

    async fn set(
        &mut self,
        variable: &str,
        value: &str,
        within: Duration,
    ) -> Result<(), MysqlError> {
        let process = self.process;
        if (variable, value) == ("rpl_semi_sync_source_enabled", "OFF") {
            self.slow_switch().await;
        }
        self.ask("SET GLOBAL", within, |network, now| {
            let known = network.set(process, variable, value, now);
            let unknown = || (1193, format!("Unknown system variable '{variable}'"));
            Some(if known { Ok(()) } else { Err(unknown()) })
        })
        .await
    }

    /// Closes another session.
    async fn close(&mut self, id: SessionId, within: Duration) -> Result<(), MysqlError> {
        let process = self.process;
        self.ask("KILL", within, |network, _| {
            let closed = network.with(process, |it, _| {
                let open = it.sessions.contains_key(&id);
                it.close(id);
                open
            })?;
            let unknown = || (1094, format!("Unknown thread id: {id}"));
            Some(if closed { Ok(()) } else { Err(unknown()) })
        })
        .await
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
