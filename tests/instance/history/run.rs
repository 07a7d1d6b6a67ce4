//! Runs a history and writes down what comes of it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    time::Duration,
};

use mainstay::{
    instance::{AppAccount, Command, CommandError, Follow, InstancePhase, InstanceStatus, Promote},
    mysql::GtidSet,
};
use tokio::{
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{Number, Op, World, Wrote, state::Names};
use crate::harness::{APP, set, until};

/// A state that stays the same for this long has come to rest.
const REST: Duration = Duration::from_millis(1500);

/// An application waits for the answer to an insert for as long.
const PATIENCE: Duration = Duration::from_secs(4);
/// Within this an insert comes to where it waits.
const BEHIND: Duration = Duration::from_secs(1);

/// Runs a history. The text has a line for each step with its outcome, and the states at the end.
pub(crate) async fn run<W: World>(world: &mut W, history: &[Op]) -> String {
    let mut run = Run {
        world,
        names: Names::default(),
        known: BTreeSet::new(),
        up: BTreeSet::new(),
        frozen: BTreeSet::new(),
        waiting: BTreeMap::new(),
        text: String::new(),
    };
    for op in history {
        let outcome = run.step(*op).await;
        let arrow = if outcome.is_empty() { "" } else { " → " };
        let _ = writeln!(run.text, "{op}{arrow}{outcome}");
    }
    run.look().await;
    std::mem::take(&mut run.text)
}

struct Run<'a, W> {
    world: &'a mut W,
    names: Names,
    /// Instances that were ever started, and those that are.
    known: BTreeSet<Number>,
    up: BTreeSet<Number>,
    frozen: BTreeSet<Number>,
    waiting: BTreeMap<u64, JoinHandle<Wrote>>,
    text: String,
}

impl<W> Drop for Run<'_, W> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("until then:\n{}", self.text);
        }
    }
}

impl<W: World> Run<'_, W> {
    async fn step(&mut self, op: Op) -> String {
        match op {
            Op::Start(i) => {
                self.world.start(i);
                self.known.insert(i);
                self.up.insert(i);
                let status = self.running(i).await;
                self.names.learn(i, &self.world.host(i), &status);
            }
            Op::Follow(..)
            | Op::FollowSilently(..)
            | Op::StopReceiver(_)
            | Op::Demote(_)
            | Op::Promote(..)
            | Op::PromoteAnyway(..)
            | Op::PromoteBeyond(_)
            | Op::Open(_)
            | Op::SetAcks(..)
            | Op::EnsureApp(_)
            | Op::Clone(..) => return self.order(op).await,
            Op::Runs(i) => {
                let status = self.running(i).await;
                let said = status.message.split(':').next().unwrap_or_default();
                return said.to_owned();
            }
            Op::CreateTable(i) => self.world.create_table(i).await,
            Op::Insert(i, row) => {
                let insert = self.world.insert(i, row);
                return answer(insert).await;
            }
            Op::InsertWaiting(i, row) => {
                let before = self.commits_waiting(i).await;
                self.waiting.insert(row, self.world.insert(i, row));
                until("the commit waits", || async {
                    (self.commits_waiting(i).await > before).then_some(())
                })
                .await;
            }
            Op::InsertBehind(i, row) => {
                self.waiting.insert(row, self.world.insert(i, row));
                sleep(BEHIND).await;
            }
            Op::Answer(row) => {
                let wrote = self.waiting.remove(&row).unwrap();
                return answer(wrote).await;
            }
            Op::InsertErrant(i, row) => return in_time(self.world.insert_errant(i, row)).await,
            Op::CatchUp(i, j) => self.has(i, j, false).await,
            Op::Receive(i, j) => self.has(i, j, true).await,
            Op::Purge(i) => return in_time(self.world.purge(i)).await,
            Op::HoldApplier(i) => self.world.hold_applier(i, true).await,
            Op::FreeApplier(i) => self.world.hold_applier(i, false).await,
            Op::KillMysqld(i) => {
                let starts = self.running(i).await.starts;
                self.world.kill_mysqld(i);
                until("it starts again", || async {
                    let status = self.world.status(i).await?;
                    (status.starts > starts && status.server.is_some()).then_some(())
                })
                .await;
            }
            Op::Kill(i) => {
                self.up.remove(&i);
                self.world.kill(i);
            }
            Op::Erase(i) => {
                self.up.remove(&i);
                self.world.kill(i);
                self.world.erase(i);
            }
            Op::Terminate(i) => {
                self.up.remove(&i);
                let code = self.world.terminate(i).await;
                return format!("exit code {}", code.unwrap_or(-1));
            }
            Op::Freeze(i) => {
                self.frozen.insert(i);
                self.world.freeze(i, true);
            }
            Op::Thaw(i) => {
                self.frozen.remove(&i);
                self.world.freeze(i, false);
            }
            Op::Wait(seconds) => sleep(Duration::from_secs(seconds)).await,
            Op::Rest => drop(self.at_rest().await),
            Op::Look => self.look().await,
        }
        String::new()
    }

    /// Gives the command that a step is.
    async fn order(&mut self, op: Op) -> String {
        let (number, command) = match op {
            Op::Follow(i, j) => (i, Command::Follow(self.source(j, true))),
            Op::FollowSilently(i, j) => (i, Command::Follow(self.source(j, false))),
            Op::StopReceiver(i) => (i, Command::StopReceiver),
            Op::Demote(i) => (i, Command::Demote),
            Op::Promote(i, acks) => {
                let required = self.all_there_is().await.to_string();
                (i, Command::Promote(Promote { required, acks }))
            }
            Op::PromoteAnyway(i, acks) => {
                let required = String::new();
                (i, Command::Promote(Promote { required, acks }))
            }
            Op::PromoteBeyond(i) => {
                let uuid = self.running(i).await.server.unwrap().server_uuid;
                let required = format!("{uuid}:1-1000000");
                (i, Command::Promote(Promote { required, acks: 0 }))
            }
            Op::Open(i) => (i, Command::Open),
            Op::SetAcks(i, acks) => (i, Command::SetAcks { acks }),
            Op::EnsureApp(i) => (i, Command::EnsureApp(app())),
            Op::Clone(i, j) => (i, Command::Clone(self.source(j, true))),
            other => unreachable!("{other} is no command"),
        };
        self.command(number, command).await
    }

    fn source(&self, number: Number, acknowledge: bool) -> Follow {
        Follow {
            source_host: self.world.host(number),
            acknowledge,
        }
    }

    async fn command(&mut self, number: Number, command: Command) -> String {
        match self.world.command(number, 1, &command).await {
            Ok(_) => "done".to_owned(),
            Err(CommandError {
                refusal, message, ..
            }) => {
                eprintln!("{number}: {message}");
                format!("{refusal:?}")
            }
        }
    }

    /// Waits until an instance runs.
    async fn running(&self, number: Number) -> InstanceStatus {
        until(&format!("{number} runs"), || async {
            let status = self.world.status(number).await?;
            let runs = status.phase == InstancePhase::Running && status.server.is_some();
            runs.then_some(status)
        })
        .await
    }

    /// Everything that any instance that runs has, in whatever form.
    async fn all_there_is(&self) -> GtidSet {
        let mut all = GtidSet::default();
        for number in &self.up {
            let Some(status) = self.world.status(*number).await else {
                continue;
            };
            let Some(server) = status.server else {
                continue;
            };
            all = all.union(&set(&server.gtid_executed));
            if let Some(replication) = &server.replication {
                all = all.union(&set(&replication.received));
            }
        }
        all
    }

    async fn commits_waiting(&self, number: Number) -> u32 {
        let status = self.world.status(number).await;
        status
            .and_then(|status| status.server)
            .map_or(0, |server| server.semi_sync_waiting)
    }

    async fn has(&self, number: Number, other: Number, received: bool) {
        let wanted = set(&self.running(other).await.server.unwrap().gtid_executed);
        until(&format!("{number} has what {other} has"), || async {
            let server = self.world.status(number).await?.server?;
            let mut has = set(&server.gtid_executed);
            if let Some(replication) = server.replication.filter(|_| received) {
                has = has.union(&set(&replication.received));
            }
            wanted.is_subset_of(&has).then_some(())
        })
        .await;
    }

    /// Writes down the state of all, once it has come to rest.
    async fn look(&mut self) {
        let states = self.at_rest().await;
        self.text.push_str(&states);
    }

    async fn at_rest(&self) -> String {
        let mut states = self.states().await;
        for _ in 0..20 {
            sleep(REST).await;
            let before = std::mem::replace(&mut states, self.states().await);
            if before == states && self.all_run().await {
                break;
            }
        }
        states
    }

    /// Whether every instance runs that can.
    async fn all_run(&self) -> bool {
        for number in self.up.difference(&self.frozen) {
            let status = self.world.status(*number).await;
            if status.is_none_or(|status| status.server.is_none()) {
                return false;
            }
        }
        true
    }

    async fn states(&self) -> String {
        let mut text = String::new();
        for number in &self.known {
            let line = match self
                .world
                .status(*number)
                .await
                .filter(|_| self.up.contains(number))
            {
                Some(status) if status.server.is_some() => {
                    let rows = self.world.rows(*number).await;
                    self.names.line(&status, &rows)
                }
                Some(status) => self.names.line(&status, &[]),
                None => "down".to_owned(),
            };
            let _ = writeln!(text, "  {number}: {line}");
        }
        text
    }
}

/// Does something, unless it takes too long or is interrupted.
async fn in_time(act: impl Future<Output = Option<()>>) -> String {
    match timeout(PATIENCE, act).await {
        Ok(Some(())) => String::new(),
        Ok(None) => "interrupted".to_owned(),
        Err(_) => "no answer".to_owned(),
    }
}

/// Waits for the answer to an insert, and then no longer.
async fn answer(insert: JoinHandle<Wrote>) -> String {
    let stop = insert.abort_handle();
    if let Ok(wrote) = timeout(PATIENCE, insert).await {
        return wrote.unwrap().to_string();
    }
    stop.abort();
    "no answer".to_owned()
}

fn app() -> AppAccount {
    AppAccount {
        username: "app".to_owned(),
        password: APP.to_owned(),
        database: "my_app".to_owned(),
        hash: "h1".to_owned(),
    }
}
