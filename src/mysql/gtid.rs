//! Stub: the mysql helper replaces it.
#![allow(missing_docs, unused_variables, clippy::all, clippy::pedantic)]
/// A GTID set `uuid[:tag]:first-last[:first-last…][,…]`. Canonical: sorted, merged. Parses what the server prints (newlines, tags) and prints what the server parses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GtidSet {}
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a GTID set: {0}")]
pub struct InvalidGtidSet(pub String);
impl GtidSet {
    pub fn is_empty(&self) -> bool {
        todo!()
    }
    pub fn is_subset_of(&self, other: &Self) -> bool {
        todo!()
    }
    pub fn union(&self, other: &Self) -> Self {
        todo!()
    }
    pub fn subtract(&self, other: &Self) -> Self {
        todo!()
    }
    /// number of transactions
    pub fn count(&self) -> u64 {
        todo!()
    }
    /// The part whose source is `uuid` (any tag)
    pub fn of(&self, uuid: &str) -> Self {
        todo!()
    }
}
impl std::str::FromStr for GtidSet {
    type Err = InvalidGtidSet;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        todo!()
    }
}
impl std::fmt::Display for GtidSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        todo!()
    }
}
