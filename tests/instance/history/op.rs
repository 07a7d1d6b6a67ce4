//! What can be done.

use std::fmt;

use super::Number;

/// One step. Its number is the instance that it is done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Start, and wait until it runs.
    Start(Number),
    /// The command to follow the second; with acknowledgements or without.
    Follow(Number, Number),
    FollowSilently(Number, Number),
    StopReceiver(Number),
    Demote(Number),
    /// The command to promote, with so many acknowledgements; what any instance has must be there.
    Promote(Number, u32),
    /// The same, requiring nothing.
    PromoteAnyway(Number, u32),
    /// The same, requiring what nobody has.
    PromoteBeyond(Number),
    Open(Number),
    SetAcks(Number, u32),
    EnsureApp(Number),
    /// The command to clone the second.
    Clone(Number, Number),
    /// Wait until it runs and has no more to say of a clone.
    Runs(Number),
    CreateTable(Number),
    /// Insert a row and wait for the answer.
    Insert(Number, u64),
    /// Insert a row that will wait for acknowledgements.
    InsertWaiting(Number, u64),
    /// The same behind another one that waits.
    InsertBehind(Number, u64),
    /// Wait for the answer to such a row.
    Answer(u64),
    InsertErrant(Number, u64),
    /// Wait until it has executed what the second has.
    CatchUp(Number, Number),
    /// Wait until it has received what the second has in its log.
    Receive(Number, Number),
    Purge(Number),
    HoldApplier(Number),
    FreeApplier(Number),
    KillMysqld(Number),
    Kill(Number),
    /// The same, and the volume is emptied.
    Erase(Number),
    Terminate(Number),
    Freeze(Number),
    Thaw(Number),
    /// Let so many seconds go by.
    Wait(u64),
    /// Wait until nothing changes any more.
    Rest,
    /// Write down the state of all, once nothing changes any more.
    Look,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(i) => write!(f, "{i} start"),
            Self::Follow(i, j) => write!(f, "{i} follow {j}"),
            Self::FollowSilently(i, j) => write!(f, "{i} follow {j} without acknowledging"),
            Self::StopReceiver(i) => write!(f, "{i} stop receiver"),
            Self::Demote(i) => write!(f, "{i} demote"),
            Self::Promote(i, acks) => write!(f, "{i} promote with {acks} acks"),
            Self::PromoteAnyway(i, acks) => write!(f, "{i} promote anyway with {acks} acks"),
            Self::PromoteBeyond(i) => write!(f, "{i} promote beyond what there is"),
            Self::Open(i) => write!(f, "{i} open"),
            Self::SetAcks(i, acks) => write!(f, "{i} set {acks} acks"),
            Self::EnsureApp(i) => write!(f, "{i} ensure app"),
            Self::Clone(i, j) => write!(f, "{i} clone {j}"),
            Self::Runs(i) => write!(f, "{i} runs"),
            Self::CreateTable(i) => write!(f, "{i} create table"),
            Self::Insert(i, row) => write!(f, "{i} insert {row}"),
            Self::InsertWaiting(i, row) => write!(f, "{i} insert {row}, which waits"),
            Self::InsertBehind(i, row) => write!(f, "{i} insert {row} behind others"),
            Self::Answer(row) => write!(f, "answer to {row}"),
            Self::InsertErrant(i, row) => write!(f, "{i} insert {row} by force"),
            Self::CatchUp(i, j) => write!(f, "{i} catch up with {j}"),
            Self::Receive(i, j) => write!(f, "{i} receive what {j} has"),
            Self::Purge(i) => write!(f, "{i} purge"),
            Self::HoldApplier(i) => write!(f, "{i} hold applier"),
            Self::FreeApplier(i) => write!(f, "{i} free applier"),
            Self::KillMysqld(i) => write!(f, "{i} kill mysqld"),
            Self::Kill(i) => write!(f, "{i} kill"),
            Self::Erase(i) => write!(f, "{i} kill and erase"),
            Self::Terminate(i) => write!(f, "{i} terminate"),
            Self::Freeze(i) => write!(f, "{i} freeze"),
            Self::Thaw(i) => write!(f, "{i} thaw"),
            Self::Wait(seconds) => write!(f, "{seconds} s go by"),
            Self::Rest => f.write_str("rest"),
            Self::Look => f.write_str("look"),
        }
    }
}
