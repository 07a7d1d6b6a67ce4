//! Receiving and applying.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    data::{Source, Transaction},
    network::{Event, Network},
    process::{By, Commit, ProcessId, Stage},
};

/// A receiver that waits for a server that does not answer may take this long to stop (measured).
const STOP_HANGING: Duration = Duration::from_secs(2);

/// An error number of MySQL with its message.
pub(super) type SqlError = (u16, &'static str);

impl Network {
    /// A transaction has come; also one of the receiver's own `server_id`
    /// (`replicate_same_server_id=ON`), and one that is here already and only went round in a ring: the
    /// applier passes over it.
    pub(super) fn receive(&mut self, id: ProcessId, transaction: Transaction, now: Instant) {
        self.with(id, |process, data| {
            process.receiver.queued = Some(transaction.at);
            data.received
                .insert(&transaction.gtid.uuid, transaction.gtid.number);
            data.relay.push_back(transaction);
        });
        self.apply(id, now);
    }

    /// The applier begins with what comes next, if it can.
    pub(super) fn apply(&mut self, id: ProcessId, now: Instant) {
        let token = self.id();
        let slow = self.slow_at(id).1;
        let takes = self.dice.within(&self.pace.apply) + slow + self.sync_takes(id);
        let takes = self.with(id, |process, data| {
            let applier = &mut process.applier;
            let may = applier.running
                && !applier.held
                && applier.applying.is_none()
                && process.closing.is_none()
                && process.stage == Stage::Up;
            if !may {
                return None;
            }
            let executed = &data.executed;
            let has = |it: &Transaction| executed.contains(&it.gtid.uuid, it.gtid.number);
            while data.relay.front().is_some_and(has) {
                data.relay.pop_front();
            }
            applier.applying = Some((data.relay.front()?.clone(), token));
            Some(takes)
        });
        if let Some(Some(takes)) = takes {
            self.schedule(now + takes, Event::Applied(id, token));
        }
    }

    /// The applier's transaction is in the own binary log, unless it fails.
    pub(super) fn applied(&mut self, id: ProcessId, token: u64, now: Instant) {
        self.with(id, |process, data| {
            let applier = &mut process.applier;
            let current = applier.applying.as_ref().filter(|(_, it)| *it == token);
            let Some((transaction, _)) = current.cloned() else {
                return;
            };
            if let Some(row) = transaction.row.filter(|row| data.rows.contains_key(row)) {
                applier.error = Some(format!(
                    "Worker 1 failed executing transaction '{}'; Could not execute Write_rows event; \
                     Duplicate entry '{row}' for key 'PRIMARY', Error_code: 1062",
                    transaction.gtid
                ));
                (applier.running, applier.applying) = (false, None);
                return;
            }
            let position = data.append(transaction);
            let by = By::Applier;
            process.committing.push_back(Commit { position, by });
        });
        self.feed(id, now);
        self.commit(id, now);
    }

    /// Whether the applier has stopped: it finishes what it is at.
    pub(super) fn applier_stopped(&mut self, id: ProcessId) -> bool {
        let stopped = self.with(id, |process, _| process.applier.applying.is_none());
        stopped.unwrap_or(true)
    }

    /// Orders the applier to stop.
    pub(super) fn stop_applier(&mut self, id: ProcessId) {
        self.with(id, |process, _| {
            process.applier.running = false;
            // One that waits for a lock is not under way yet.
            if process.applier.held {
                process.applier.applying = None;
            }
        });
    }

    /// Starts the applier.
    pub(super) fn start_applier(&mut self, id: ProcessId, now: Instant) -> Result<(), SqlError> {
        self.with(id, |process, data| {
            if data.source.is_none() {
                return Err(NOT_A_REPLICA);
            }
            if !process.applier.running {
                (process.applier.running, process.applier.error) = (true, None);
            }
            Ok(())
        })
        .unwrap_or(Ok(()))?;
        self.apply(id, now);
        Ok(())
    }

    /// How long the receiver may take to stop.
    pub(super) fn receiver_stops_within(&mut self, id: ProcessId) -> Duration {
        let hangs = self.with(id, |process, _| process.receiver.hangs) == Some(true);
        if hangs {
            self.dice.within(&(Duration::ZERO..=STOP_HANGING))
        } else {
            Duration::ZERO
        }
    }

    /// Stops the receiver: nothing is received, nor acknowledged, from now on.
    pub(super) fn stop_receiver(&mut self, id: ProcessId, now: Instant) {
        let generation = self.id();
        self.with(id, |process, _| {
            let receiver = &mut process.receiver;
            (receiver.running, receiver.hangs) = (false, false);
            receiver.generation = generation;
        });
        self.disconnect(id, now);
    }

    /// Starts the receiver, if it does not run.
    pub(super) fn start_receiver(&mut self, id: ProcessId, now: Instant) -> Result<(), SqlError> {
        let generation = self.id();
        let starts = self.with(id, |process, data| {
            if data.source.is_none() {
                return Err(NOT_A_REPLICA);
            }
            let receiver = &mut process.receiver;
            if receiver.running {
                return Ok(false);
            }
            receiver.running = true;
            receiver.generation = generation;
            receiver.acknowledges = process.replica_on;
            (receiver.errno, receiver.error) = (0, String::new());
            Ok(true)
        });
        if starts.unwrap_or(Ok(false))? {
            self.schedule(now, Event::Connect(id, generation));
        }
        Ok(())
    }

    /// `CHANGE REPLICATION SOURCE`. With both threads stopped the relay logs are dropped.
    pub(super) fn change_source(
        &mut self,
        id: ProcessId,
        host: &str,
        auto_position: bool,
    ) -> Result<(), SqlError> {
        self.with(id, |process, data| {
            if process.receiver.running {
                return Err(RECEIVER_RUNS);
            }
            if process.applier.running && auto_position {
                return Err(APPLIER_RUNS);
            }
            if !process.applier.running {
                data.drop_relay_log();
            }
            let before = data.source.as_ref().is_some_and(|it| it.auto_position);
            data.source = Some(Source {
                host: host.to_owned(),
                auto_position: auto_position || before,
            });
            let receiver = &mut process.receiver;
            (receiver.errno, receiver.error) = (0, String::new());
            Ok(())
        })
        .unwrap_or(Ok(()))
    }

    /// `RESET REPLICA ALL`.
    pub(super) fn reset_replica(&mut self, id: ProcessId) -> Result<(), SqlError> {
        self.with(id, |process, data| {
            if process.receiver.running || process.applier.running {
                return Err(CHANNEL_RUNS);
            }
            data.source = None;
            data.drop_relay_log();
            process.receiver = super::process::Receiver {
                generation: process.receiver.generation,
                ..Default::default()
            };
            process.applier.error = None;
            process.applier.applied = None;
            Ok(())
        })
        .unwrap_or(Ok(()))
    }

    /// Makes the applier wait for a lock, as `FLUSH TABLES WITH READ LOCK` does, or lets it go on.
    pub(super) fn hold_applier(&mut self, id: ProcessId, held: bool, now: Instant) {
        self.with(id, |process, _| process.applier.held = held);
        self.apply(id, now);
    }
}

const NOT_A_REPLICA: SqlError = (
    1200,
    "The server is not configured as replica; fix in config file or with CHANGE REPLICATION SOURCE TO",
);
const RECEIVER_RUNS: SqlError = (
    3021,
    "This operation cannot be performed with a running replica io thread",
);
const APPLIER_RUNS: SqlError = (
    1776,
    "This operation cannot be performed with a running replica sql thread",
);
const CHANNEL_RUNS: SqlError = (
    3081,
    "This operation cannot be performed with running replication threads",
);
