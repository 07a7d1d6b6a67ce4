//! What of the operator can be tuned; the defaults do for nearly everybody.

use std::time::Duration;

use crate::runtime::{ControllerOptions, EventLimits, WatchLimits};

/// Limits and intervals of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// How long a reconcile may take.
    pub reconcile_deadline: Duration,
    /// The coalescing window of changes; see [`ControllerOptions::window`].
    pub window: Duration,
    /// See [`ControllerOptions::stalled_after`].
    pub stalled_after: Duration,
    /// First backoff of a cluster that fails.
    pub backoff_initial: Duration,
    /// Longest backoff of a cluster that fails.
    pub backoff_max: Duration,
    /// How often all clusters are looked at though nothing is known to have changed; never for `None`.
    pub resync: Option<Duration>,
    /// Of each list-watch.
    pub watch: WatchLimits,
    /// Of the Events that are written.
    pub events: EventLimits,
}

impl Default for Tuning {
    /// As the runtime's own, without a window: a pod that fails is a change of a child, and rarely the
    /// first of its burst; a failover must not wait for one. And without a resync: all that a cluster
    /// depends on is watched, and one that is not settled asks to be looked at again.
    fn default() -> Self {
        let runtime = ControllerOptions::default();
        Self {
            reconcile_deadline: RECONCILE_DEADLINE,
            window: Duration::ZERO,
            stalled_after: runtime.stalled_after,
            backoff_initial: runtime.backoff_initial,
            backoff_max: runtime.backoff_max,
            resync: None,
            watch: WatchLimits::DEFAULT,
            events: EventLimits::DEFAULT,
        }
    }
}

/// A promotion's commands and an API server at its slowest fit in.
const RECONCILE_DEADLINE: Duration = Duration::from_mins(2);
