//! The servers and what goes between them: a state, changed by operations and by events that are due.
//! Nothing here waits or knows a clock; `now` is passed in.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use nix::sys::signal::Signal;
use tokio::time::Instant;

use super::{
    data::{Data, Disk, Row},
    link::{Link, Message, Way},
    observe::Acknowledged,
    pace::{Dice, Pace},
    process::{DiskId, LinkId, Process, ProcessId, SessionId, SessionInfo, Stage},
};
use crate::instance::Exit;

/// What happens at its time.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// A process begins to accept sessions.
    Up(ProcessId),
    /// A write is durable.
    Synced(ProcessId, u64),
    /// The applier has carried out its transaction, and it is durable.
    Applied(ProcessId, u64),
    /// A statement has waited for its lock for as long as it may.
    LockTimeout(ProcessId, SessionId),
    /// The receiver tries to connect.
    Connect(ProcessId, u64),
    /// Its source answers.
    Attach(ProcessId, u64, ProcessId),
    /// A source sends a sign of life.
    Heartbeat(LinkId),
    /// A receiver looks whether it has heard of its source.
    Silence(LinkId),
    /// Something arrives.
    Arrive(LinkId, Way, Message),
    /// A clone comes to its next step.
    Clone(ProcessId, u64),
    /// SIGTERM reaches a process.
    Terminate(ProcessId),
    /// A server that shuts down gives up waiting for acknowledgements.
    GiveUp(ProcessId),
    /// A server has shut down.
    ShutDown(ProcessId),
    /// Somebody's wait ends.
    Wake,
    /// A server could not start, for this reason.
    NotStarted(ProcessId, &'static str),
}

impl Event {
    /// The process that does it, and does not while it is frozen.
    fn process(&self) -> Option<ProcessId> {
        match self {
            Self::Up(id)
            | Self::Synced(id, _)
            | Self::Applied(id, _)
            | Self::LockTimeout(id, _)
            | Self::Connect(id, _)
            | Self::Attach(id, ..)
            | Self::Clone(id, _)
            | Self::Terminate(id)
            | Self::GiveUp(id)
            | Self::ShutDown(id)
            | Self::NotStarted(id, _) => Some(*id),
            Self::Heartbeat(_) | Self::Silence(_) | Self::Arrive(..) | Self::Wake => None,
        }
    }
}

/// How a process ended, and the errors in its log.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) exit: Exit,
    pub(super) error: Option<String>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) pace: Pace,
    pub(super) dice: Dice,
    pub(super) disks: BTreeMap<DiskId, Disk>,
    pub(super) processes: BTreeMap<ProcessId, Process>,
    pub(super) ends: BTreeMap<ProcessId, End>,
    /// The process that each host's name leads to.
    pub(super) names: BTreeMap<String, ProcessId>,
    pub(super) links: BTreeMap<LinkId, Link>,
    /// Hosts that can't reach each other, each pair in the order of its names.
    pub(super) cuts: BTreeSet<(String, String)>,
    pub(super) queue: BTreeMap<(Instant, u64), Event>,
    /// Rows whose writers were told OK.
    pub(super) ledger: BTreeMap<Row, Acknowledged>,
    /// When it began.
    pub(super) epoch: Instant,
    /// How much slower than the pace a host's disk and applier are, for each transaction.
    pub(super) slow: BTreeMap<String, (Duration, Duration)>,
    ids: u64,
}

impl Network {
    pub(super) fn new(seed: u64, pace: Pace, now: Instant) -> Self {
        Self {
            epoch: now,
            pace,
            dice: Dice::new(seed),
            disks: BTreeMap::new(),
            processes: BTreeMap::new(),
            ends: BTreeMap::new(),
            names: BTreeMap::new(),
            links: BTreeMap::new(),
            cuts: BTreeSet::new(),
            queue: BTreeMap::new(),
            ledger: BTreeMap::new(),
            slow: BTreeMap::new(),
            ids: 0,
        }
    }

    /// How many numbers were given: another one shows that something was begun.
    pub(super) fn ids(&self) -> u64 {
        self.ids
    }

    /// A number that was never given before.
    pub(super) fn id(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// Puts an event into the queue. Events of one time come in the order they were put there.
    pub(super) fn schedule(&mut self, at: Instant, event: Event) {
        let id = self.id();
        self.queue.insert((at, id), event);
    }

    /// When the next event is due.
    pub(super) fn due(&self) -> Option<Instant> {
        self.queue.first_key_value().map(|((at, _), _)| *at)
    }

    /// Lets happen what is due.
    pub(super) fn advance(&mut self, now: Instant) {
        while let Some(entry) = self.queue.first_entry() {
            let (at, _) = *entry.key();
            if at > now {
                return;
            }
            let event = entry.remove();
            self.happen(event, at);
        }
    }

    fn happen(&mut self, event: Event, now: Instant) {
        if let Some(id) = event.process() {
            match self.processes.get_mut(&id) {
                None => return,
                Some(process) if process.frozen => return process.stalled.push_back(event),
                Some(_) => {}
            }
        }
        match event {
            Event::Up(id) => {
                if let Some(process) = self.processes.get_mut(&id) {
                    process.stage = Stage::Up;
                }
            }
            Event::Synced(id, token) => self.synced(id, token, now),
            Event::Applied(id, token) => self.applied(id, token, now),
            Event::LockTimeout(id, session) => self.lock_timeout(id, session, now),
            Event::Connect(id, generation) => self.connect(id, generation, now),
            Event::Attach(id, generation, source) => self.attach(id, generation, source, now),
            Event::Heartbeat(link) => self.heartbeat(link, now),
            Event::Silence(link) => self.silence(link, now),
            Event::Arrive(link, way, message) => self.arrive(link, way, message, now),
            Event::Clone(id, token) => self.clone_step(id, token, now),
            Event::Terminate(id) => {
                self.terminate(id, now);
            }
            Event::GiveUp(id) => self.give_up(id, now),
            Event::ShutDown(id) => {
                self.with(id, |_, data| data.clean = true);
                self.end(id, Exit::Code(0), None, now);
            }
            Event::Wake => {}
            Event::NotStarted(id, why) => self.end(id, Exit::Code(1), Some(why.to_owned()), now),
        }
    }

    /// Looks at, or changes, a process that runs and its data.
    pub(super) fn with<T>(
        &mut self,
        id: ProcessId,
        look: impl FnOnce(&mut Process, &mut Data) -> T,
    ) -> Option<T> {
        let process = self.processes.get_mut(&id)?;
        let data = self.disks.get_mut(&process.disk)?.data.as_mut()?;
        Some(look(process, data))
    }

    /// Starts mysqld on a disk. It has the disk's data open until it ends.
    pub(super) fn start(
        &mut self,
        disk: DiskId,
        host: &str,
        server_id: u32,
        now: Instant,
    ) -> ProcessId {
        let id = ProcessId(self.id());
        let process = Process::new(host.to_owned(), disk, server_id);
        self.processes.insert(id, process);
        let mut starts = self.dice.within(&self.pace.start);
        let recovers = self.dice.within(&self.pace.recover);
        let content = self.disks.entry(disk).or_default();
        let event = match (&content.open, &mut content.data) {
            (Some(_), _) => Event::NotStarted(id, "Unable to lock ./ibdata1 error: 11"),
            (None, None) => Event::NotStarted(id, "Can't open the mysql.plugin table"),
            (None, Some(data)) => {
                content.open = Some(id);
                if !data.clean {
                    starts += recovers;
                }
                data.clean = false;
                data.recover();
                self.names.insert(host.to_owned(), id);
                Event::Up(id)
            }
        };
        self.schedule(now + starts, event);
        id
    }

    /// Creates the data directory of a disk.
    pub(super) fn initialise(&mut self, disk: DiskId) {
        let uuid = self.dice.uuid();
        let content = self.disks.entry(disk).or_default();
        content.data.get_or_insert_with(|| Data::new(&uuid));
    }

    /// Ends a process at once, as SIGKILL does; false if it has ended before.
    pub(super) fn kill(&mut self, id: ProcessId, now: Instant) -> bool {
        let runs = self.processes.contains_key(&id);
        self.end(id, Exit::Signal(Signal::SIGKILL), None, now);
        runs
    }

    /// What SIGTERM does; false if the process has ended.
    pub(super) fn terminate(&mut self, id: ProcessId, now: Instant) -> bool {
        let ends = self.dice.within(&self.pace.shut_down);
        let gives_up = self.dice.within(&self.pace.give_up);
        let Some(process) = self.processes.get_mut(&id) else {
            return false;
        };
        if process.frozen {
            process.stalled.push_back(Event::Terminate(id));
            return true;
        }
        if process.stage == Stage::Ending {
            return true;
        }
        process.stage = Stage::Ending;
        process.blocked.clear();
        process.closing = None;
        let idle = process.preparing.is_empty() && process.committing.is_empty();
        let writes = |id: &SessionId| {
            let of = |by: super::process::By| by == super::process::By::Session(*id);
            process.committing.iter().any(|commit| of(commit.by))
                || process.preparing.iter().any(|write| write.session == *id)
        };
        let stay: BTreeSet<_> = process.sessions.keys().copied().filter(writes).collect();
        process.sessions.retain(|id, _| stay.contains(id));
        if idle {
            self.schedule(now + ends, Event::ShutDown(id));
        } else {
            self.schedule(now + gives_up, Event::GiveUp(id));
        }
        true
    }

    /// The process is gone, and what was only in its memory with it.
    pub(super) fn end(&mut self, id: ProcessId, exit: Exit, error: Option<String>, now: Instant) {
        let Some(process) = self.processes.remove(&id) else {
            return;
        };
        if let Some(disk) = self.disks.get_mut(&process.disk) {
            disk.open.take_if(|by| *by == id);
        }
        if self.names.get(&process.host) == Some(&id) {
            self.names.remove(&process.host);
        }
        self.close_links(id, now);
        self.ends.insert(id, End { exit, error });
    }

    /// Stops and continues a process, as SIGSTOP and SIGCONT do.
    pub(super) fn freeze(&mut self, id: ProcessId, frozen: bool, now: Instant) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        process.frozen = frozen;
        if frozen {
            return;
        }
        for event in std::mem::take(&mut process.stalled) {
            self.happen(event, now);
        }
        self.release(now);
    }

    /// Opens a session; `None` where the process accepts none.
    pub(super) fn open(&mut self, id: ProcessId, user: &'static str) -> Option<SessionId> {
        let session = self.id();
        let process = self.processes.get_mut(&id)?;
        if process.stage != Stage::Up || process.frozen {
            return None;
        }
        let info = SessionInfo { user, info: "" };
        process.sessions.insert(session, info);
        Some(session)
    }

    /// Whether a process can do nothing now.
    pub(super) fn is_frozen(&self, id: ProcessId) -> bool {
        self.processes.get(&id).is_some_and(|it| it.frozen)
    }
}
