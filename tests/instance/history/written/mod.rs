//! Histories that somebody thought of.

mod primary;
mod replica;

use super::Op::{self, *};

/// Three instances, 0 the writable primary that waits for one acknowledgement.
pub(in crate::history) const THREE: &[Op] = &[
    Start(0),
    Start(1),
    Start(2),
    Follow(1, 0),
    Follow(2, 0),
    Promote(0, 1),
    Open(0),
    EnsureApp(0),
    CreateTable(0),
    CatchUp(1, 0),
    CatchUp(2, 0),
];

/// Two instances, 0 the writable primary that waits for an acknowledgement of 1.
pub(super) const TWO: &[Op] = &[
    Start(0),
    Start(1),
    Follow(1, 0),
    Promote(0, 1),
    Open(0),
    EnsureApp(0),
    CreateTable(0),
    CatchUp(1, 0),
];

/// One instance, writable.
pub(super) const ONE: &[Op] = &[
    Start(0),
    Promote(0, 0),
    Open(0),
    EnsureApp(0),
    CreateTable(0),
];

/// Name, beginning, what follows.
type History = (&'static str, &'static [Op], &'static [Op]);

/// All of them, by name.
pub(crate) fn written() -> impl Iterator<Item = (String, Vec<Op>)> {
    let all = primary::HISTORIES.iter().chain(replica::HISTORIES);
    all.map(|(name, beginning, rest)| ((*name).to_owned(), [*beginning, *rest].concat()))
}
