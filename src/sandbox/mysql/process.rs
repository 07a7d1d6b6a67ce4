//! A mysqld that runs: what is in its memory, and ends with it.

use std::collections::{BTreeMap, VecDeque};

use tokio::time::Instant;

use super::{
    data::{Row, Transaction},
    network::Event,
};

/// Identifies a process; never given twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ProcessId(pub(super) u64);

/// Identifies a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DiskId(pub(super) u64);

/// Identifies a connection of a receiver with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LinkId(pub(super) u64);

/// Identifies a session of one process.
pub(super) type SessionId = u64;

/// Where a process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Recovers, accepts no session yet.
    Starting,
    /// Accepts sessions.
    Up,
    /// Was told to shut down.
    Ending,
}

/// A process. Its variables are MySQL's.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug)]
pub(super) struct Process {
    pub(super) host: String,
    pub(super) disk: DiskId,
    pub(super) server_id: u32,
    pub(super) stage: Stage,
    /// Does nothing (SIGSTOP); events wait.
    pub(super) frozen: bool,
    pub(super) stalled: VecDeque<Event>,

    pub(super) read_only: bool,
    pub(super) super_read_only: bool,
    /// `rpl_semi_sync_source_enabled`, and for how many acknowledgements commits wait.
    pub(super) source_on: bool,
    pub(super) wait_for: u32,
    /// `rpl_semi_sync_replica_enabled`.
    pub(super) replica_on: bool,

    /// Open sessions, by account and what they run.
    pub(super) sessions: BTreeMap<SessionId, SessionInfo>,
    /// The session whose `SET super_read_only=ON` waits for what is under way.
    pub(super) closing: Option<SessionId>,

    /// Statements that wait behind `closing`.
    pub(super) blocked: VecDeque<Write>,
    /// Statements that are being made durable: nobody but this process knows of them.
    pub(super) preparing: Vec<Write>,
    /// Transactions in the binary log that are not committed, in its order.
    pub(super) committing: VecDeque<Commit>,
    /// Answers that nobody has read yet.
    pub(super) answers: BTreeMap<SessionId, Answered>,
    /// Position up to which each replica, by its `server_id`, has acknowledged.
    pub(super) acknowledged: BTreeMap<u32, usize>,

    pub(super) receiver: Receiver,
    pub(super) applier: Applier,
    pub(super) clone: Option<Cloning>,
}

/// A session with a process.
#[derive(Debug)]
pub(super) struct SessionInfo {
    pub(super) user: &'static str,
    pub(super) info: &'static str,
}

/// A statement that writes.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) session: SessionId,
    pub(super) row: Option<Row>,
    /// May write under `read_only` (but not under `super_read_only`).
    pub(super) privileged: bool,
    /// When it is durable.
    pub(super) token: u64,
}

/// How a statement ended, for its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Done(Option<super::Gtid>),
    Refused(u16, String),
}

/// A transaction that waits in the binary log.
#[derive(Debug)]
pub(super) struct Commit {
    /// Position after it.
    pub(super) position: usize,
    pub(super) by: By,
}

/// Whose transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    Session(SessionId),
    Applier,
}

/// The receiver (IO) thread.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) running: bool,
    pub(super) link: Option<LinkId>,
    /// Whether it waits for an answer to its connecting.
    pub(super) hangs: bool,
    /// Tells its tries to connect from those of a time before it was stopped.
    pub(super) generation: u64,
    /// `rpl_semi_sync_replica_enabled` as it was when it started.
    pub(super) acknowledges: bool,
    pub(super) errno: u16,
    pub(super) error: String,
    pub(super) heartbeats: u64,
    /// When the last transaction that came was committed first.
    pub(super) queued: Option<Instant>,
}

/// The applier (SQL) thread.
#[derive(Debug, Default)]
pub(super) struct Applier {
    pub(super) running: bool,
    pub(super) error: Option<String>,
    /// What it is at, and when it will be done with it.
    pub(super) applying: Option<(Transaction, u64)>,
    /// Waits for a lock that somebody holds.
    pub(super) held: bool,
    pub(super) applied: Option<Instant>,
}

/// A clone that is being received.
#[derive(Debug)]
pub(super) struct Cloning {
    pub(super) session: SessionId,
    pub(super) donor: String,
    pub(super) token: u64,
    /// Whether the data that was here is gone.
    pub(super) dropped: bool,
}

impl Process {
    /// A process as it starts by the configuration that Mainstay renders: read-only, not replicating.
    pub(super) fn new(host: String, disk: DiskId, server_id: u32) -> Self {
        Self {
            host,
            disk,
            server_id,
            stage: Stage::Starting,
            frozen: false,
            stalled: VecDeque::new(),
            read_only: true,
            super_read_only: true,
            source_on: false,
            wait_for: 1,
            replica_on: false,
            sessions: BTreeMap::new(),
            closing: None,
            blocked: VecDeque::new(),
            preparing: Vec::new(),
            committing: VecDeque::new(),
            answers: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            receiver: Receiver::default(),
            applier: Applier::default(),
            clone: None,
        }
    }

    /// How many acknowledgements a commit waits for.
    pub(super) fn needed(&self) -> usize {
        if self.source_on {
            self.wait_for as usize
        } else {
            0
        }
    }

    /// How many replicas have acknowledged up to `position`.
    pub(super) fn acknowledgements(&self, position: usize) -> usize {
        let up_to = |acknowledged: &&usize| **acknowledged >= position;
        self.acknowledged.values().filter(up_to).count()
    }

    /// Answers a session, if it is still there.
    pub(super) fn answer(&mut self, session: SessionId, answer: Answered) {
        if self.sessions.contains_key(&session) {
            self.answers.insert(session, answer);
        }
    }

    /// Closes a session. What it has in the binary log goes on.
    pub(super) fn close(&mut self, session: SessionId) {
        self.sessions.remove(&session);
        self.answers.remove(&session);
        self.blocked.retain(|write| write.session != session);
    }
}
