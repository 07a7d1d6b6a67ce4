//! What is said to a queue, and what it says.

use std::time::Duration;

use crate::runtime::ObjectKey;

/// How urgent a run is. A key asked for twice has the higher one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// The initial list, a resync: nothing is known to have changed.
    Low,
    /// Something the object depends on changed.
    Normal,
    /// The object's spec changed, or it is being deleted. Ends a backoff at once.
    High,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// It succeeded: the failure count starts over.
    Success,
    /// It succeeded and wants another run after the delay.
    SuccessAfter(Duration),
    /// It failed for good: no retry until the key is added again.
    Permanent,
    /// It lost an optimistic write: again at once, a few times.
    Conflict,
    /// It failed: again after a backoff.
    Failed,
    /// It was kept from its work by what concerns no key: again soon, as if it had not run.
    Interrupted,
}

/// Why a queue hands out no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// This replica does not lead.
    Standby,
    /// The circuit breaker is open.
    Breaker,
}

/// A key that was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The key.
    pub key: ObjectKey,
    /// How long it was ready, without the time that this replica was a standby.
    pub waited: Duration,
}

/// Keys not done when a queue was drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Left {
    /// Held by a worker.
    pub(in crate::runtime) running: usize,
    /// Ready, or to be ready as soon as their worker is done.
    pub(in crate::runtime) queued: usize,
}
