//! Keys that nothing comes of.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::timeout;

use super::{Pool, ReconcileError, Reconciler, Run};
use crate::runtime::ObjectKey;

/// How long telling an object that it is stalled may take: a read and a write.
const STALL_LIMIT: Duration = Duration::from_secs(15);

impl<R: Reconciler> Pool<R> {
    /// Why nothing comes of `key`, if this run shows that.
    pub(super) fn stall(&self, key: &ObjectKey, run: &Run) -> Option<String> {
        let error = match run {
            Run::Ended(Err(ReconcileError::Permanent(error))) => return Some(error.clone()),
            Run::Ended(Err(ReconcileError::Transient(error))) => error.clone(),
            Run::TimedOut => format!("a reconcile took longer than {:?}", self.options.deadline),
            Run::Panicked(message) => format!("a reconcile panicked: {message}"),
            Run::Ended(
                Ok(_) | Err(ReconcileError::Conflict(_) | ReconcileError::Interrupted(_)),
            ) => {
                return None;
            }
        };
        let failing = self.queue.failing_for(key)?;
        (failing >= self.options.stalled_after).then(|| {
            format!(
                "no reconcile has succeeded for {}: {error}",
                minutes(failing)
            )
        })
    }

    /// Lets the object say it. Contained as a run is.
    pub(super) async fn tell_stalled(&self, key: &ObjectKey, why: &str) {
        let telling = AssertUnwindSafe(async { self.reconciler.stalled(key, why).await });
        if !matches!(
            timeout(STALL_LIMIT, telling.catch_unwind()).await,
            Ok(Ok(()))
        ) {
            tracing::warn!(why, "the object can't be told that it is stalled");
        }
    }
}

/// In whole minutes, so that what is said changes no more often.
fn minutes(time: Duration) -> String {
    match time.as_secs() / 60 {
        0 => "less than a minute".to_owned(),
        minutes => format!("{minutes} min"),
    }
}
