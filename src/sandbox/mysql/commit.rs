//! How a write becomes a transaction: durable in the binary log first, committed once it has its
//! acknowledgements, then answered. And how read-only waits for that.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    data::{Row, Transaction},
    network::{Event, Network},
    process::{Answered, By, Commit, ProcessId, SessionId, Stage, Write},
};

/// `lock_wait_timeout` of Mainstay's sessions.
const LOCK_WAIT: Duration = Duration::from_secs(10);

impl Network {
    /// A session begins a statement that writes. Its answer comes later, except where it is refused.
    pub(super) fn write(
        &mut self,
        id: ProcessId,
        session: SessionId,
        row: Option<Row>,
        privileged: bool,
        now: Instant,
    ) {
        let write = Write {
            session,
            row,
            privileged,
            token: 0,
        };
        self.begin(id, write, now);
    }

    fn begin(&mut self, id: ProcessId, mut write: Write, now: Instant) {
        let token = self.id();
        let takes = self.sync_takes(id);
        let takes = self.with(id, |process, data| {
            let session = write.session;
            if process.closing.is_some() {
                process.blocked.push_back(write);
                return None;
            }
            let refuses = process.super_read_only || (process.read_only && !write.privileged);
            let inserts_too = |other: &Write| other.row == write.row;
            let refusal = if refuses {
                let why = "The MySQL server is running with the --read-only option";
                Some((1290, why.to_owned()))
            } else if let Some(row) = write.row
                && (data.holds(row) || process.preparing.iter().any(inserts_too))
            {
                Some((1062, format!("Duplicate entry '{row}' for key 'PRIMARY'")))
            } else {
                None
            };
            if let Some((code, why)) = refusal {
                process.answer(session, Answered::Refused(code, why));
                return None;
            }
            write.token = token;
            process.preparing.push(write);
            Some(takes)
        });
        if let Some(Some(takes)) = takes {
            self.schedule(now + takes, Event::Synced(id, token));
        }
    }

    /// How long a commit takes to be durable.
    pub(super) fn sync_takes(&mut self, id: ProcessId) -> Duration {
        let slow = self.slow_at(id).0;
        self.dice.within(&self.pace.sync) + slow
    }

    /// How much slower than the pace disk and applier of a process are.
    pub(super) fn slow_at(&self, id: ProcessId) -> (Duration, Duration) {
        let host = self.processes.get(&id).map(|process| &process.host);
        let slow = host.and_then(|host| self.slow.get(host));
        slow.copied().unwrap_or_default()
    }

    /// A write is in the binary log: replicas can have it, recovery will commit it.
    pub(super) fn synced(&mut self, id: ProcessId, token: u64, now: Instant) {
        self.with(id, |process, data| {
            let at = process.preparing.iter().position(|it| it.token == token)?;
            let write = process.preparing.remove(at);
            let transaction = Transaction {
                gtid: data.next_gtid(),
                server_id: process.server_id,
                row: write.row,
                at: now,
            };
            let position = data.append(transaction);
            let by = By::Session(write.session);
            process.committing.push_back(Commit { position, by });
            Some(())
        });
        self.feed(id, now);
        self.commit(id, now);
    }

    /// Commits what has its acknowledgements, in the order of the log.
    pub(super) fn commit(&mut self, id: ProcessId, now: Instant) {
        let applied = self.with(id, |process, data| {
            let mut applied = false;
            while let Some(next) = process.committing.front() {
                if process.acknowledgements(next.position) < process.needed() {
                    break;
                }
                let by = next.by;
                process.committing.pop_front();
                let Some(gtid) = data.commit_next().map(|it| it.gtid.clone()) else {
                    break;
                };
                match by {
                    By::Session(session) => process.answer(session, Answered::Done(Some(gtid))),
                    By::Applier => {
                        data.relay.retain(|waiting| waiting.gtid != gtid);
                        let applied_one = process.applier.applying.take();
                        process.applier.applied = applied_one.map(|(one, _)| one.at);
                        applied = true;
                    }
                }
            }
            applied
        });
        self.close_if_idle(id, now);
        if applied == Some(true) {
            self.apply(id, now);
        }
    }

    /// `SET GLOBAL super_read_only=ON`: takes effect once nothing is under way; what begins meanwhile
    /// waits behind it.
    pub(super) fn set_read_only(&mut self, id: ProcessId, session: SessionId, now: Instant) {
        self.with(id, |process, _| {
            if process.super_read_only && process.read_only {
                process.answer(session, Answered::Done(None));
            } else {
                process.closing = Some(session);
            }
        });
        self.close_if_idle(id, now);
        self.schedule(now + LOCK_WAIT, Event::LockTimeout(id, session));
    }

    fn close_if_idle(&mut self, id: ProcessId, now: Instant) {
        let blocked = self.with(id, |process, _| {
            let busy = !process.preparing.is_empty()
                || !process.committing.is_empty()
                || process.applier.applying.is_some();
            let session = process.closing.take_if(|_| !busy)?;
            (process.read_only, process.super_read_only) = (true, true);
            process.answer(session, Answered::Done(None));
            Some(std::mem::take(&mut process.blocked))
        });
        if let Some(Some(blocked)) = blocked {
            for write in blocked {
                self.begin(id, write, now);
            }
            self.apply(id, now);
        }
    }

    pub(super) fn lock_timeout(&mut self, id: ProcessId, session: SessionId, now: Instant) {
        let blocked = self.with(id, |process, _| {
            process.closing.take_if(|by| *by == session)?;
            let why = "Lock wait timeout exceeded; try restarting transaction".to_owned();
            process.answer(session, Answered::Refused(1205, why));
            Some(std::mem::take(&mut process.blocked))
        });
        if let Some(Some(blocked)) = blocked {
            for write in blocked {
                self.begin(id, write, now);
            }
            self.apply(id, now);
        }
    }

    /// `SET GLOBAL` of any other variable that is modelled; false for one that is not.
    pub(super) fn set(&mut self, id: ProcessId, name: &str, value: &str, now: Instant) -> bool {
        let on = value == "ON";
        let known = self.with(id, |process, _| {
            match name {
                "super_read_only" => process.super_read_only = on,
                "read_only" => {
                    process.read_only = on;
                    process.super_read_only &= on;
                }
                "rpl_semi_sync_replica_enabled" => process.replica_on = on,
                "rpl_semi_sync_source_enabled" => {
                    process.source_on = on;
                    if !on {
                        process.acknowledged.clear();
                    }
                }
                "rpl_semi_sync_source_wait_for_replica_count" => {
                    process.wait_for = value.parse().unwrap_or(process.wait_for);
                }
                // Always as Mainstay sets them, or without effect here.
                "rpl_semi_sync_source_timeout"
                | "rpl_semi_sync_source_wait_point"
                | "rpl_semi_sync_source_wait_no_replica"
                | "clone_valid_donor_list" => {}
                _ => return false,
            }
            true
        });
        // Fewer acknowledgements, or none, may be what commits have.
        self.commit(id, now);
        known.unwrap_or(true)
    }

    /// A server that shuts down gives up waiting: what waits is committed, and its clients may or may
    /// not be told so before their connections are closed.
    pub(super) fn give_up(&mut self, id: ProcessId, now: Instant) {
        let luck = self.dice.coin();
        let ends = self.dice.within(&self.pace.shut_down);
        self.with(id, |process, data| {
            for commit in std::mem::take(&mut process.committing) {
                let gtid = data.commit_next().map(|it| it.gtid.clone());
                match commit.by {
                    By::Session(session) if luck => process.answer(session, Answered::Done(gtid)),
                    By::Session(session) => process.close(session),
                    By::Applier => process.applier.applying = None,
                }
            }
            process.preparing.clear();
            debug_assert_eq!(process.stage, Stage::Ending);
        });
        self.schedule(now + ends, Event::ShutDown(id));
    }
}
