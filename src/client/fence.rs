//! The gate that every mutating request passes: leadership as a token with a monotonic deadline.

use std::future::Future;
use std::time::Duration;

use tokio::time::Instant;

use crate::sync::watch;

/// The elector's side: extends or ends the permission to write.
#[derive(Debug)]
pub struct FenceKeeper {
    deadline: watch::Sender<Option<Instant>>,
}

/// The client's side: lets a write through only while the permission lasts.
#[derive(Clone, Debug)]
pub struct Fence {
    deadline: Option<watch::Receiver<Option<Instant>>>,
}

/// Leadership ended before or during the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl FenceKeeper {
    /// A closed gate and its reading side.
    #[must_use]
    pub fn new() -> (Self, Fence) {
        let (sender, receiver) = watch::channel(None);
        let fence = Fence {
            deadline: Some(receiver),
        };
        (Self { deadline: sender }, fence)
    }

    /// Permit writes until `deadline`: *send* time of the last successful renewal + lease duration
    /// − margin. Writes in flight are granted the later deadline too.
    pub fn extend(&self, deadline: Instant) {
        self.deadline.send_replace(Some(deadline));
    }

    /// End the permission now; writes in flight are cancelled.
    pub fn close(&self) {
        self.deadline.send_replace(None);
    }
}

impl Fence {
    /// No fence: for processes that act without election (the instance manager, `--no-leader-elect`).
    #[must_use]
    pub fn open() -> Self {
        Self { deadline: None }
    }

    /// Whether a write would be let through at `now`.
    #[must_use]
    pub fn permits(&self, now: Instant) -> bool {
        match &self.deadline {
            None => true,
            Some(deadline) => deadline.borrow().is_some_and(|deadline| now < deadline),
        }
    }

    /// How long writes are let through from `now` on if the permission is not extended; `None` where
    /// nothing ends it.
    #[must_use]
    pub fn remaining(&self, now: Instant) -> Option<Duration> {
        let until = *self.deadline.as_ref()?.borrow();
        let left = until.map(|until| until.saturating_duration_since(now));
        Some(left.unwrap_or_default())
    }

    /// Runs `write` while the permission lasts: it is never started without, and dropped (which
    /// cancels the request) at the moment the permission ends.
    ///
    /// # Errors
    /// [`Closed`] when the permission ended first.
    pub async fn guard<F: Future>(&self, write: F) -> Result<F::Output, Closed> {
        let Some(deadline) = &self.deadline else {
            return Ok(write.await);
        };
        let mut deadline = deadline.clone();
        tokio::pin!(write);
        loop {
            let until = *deadline.borrow_and_update();
            let Some(until) = until.filter(|until| Instant::now() < *until) else {
                return Err(Closed);
            };
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(until) => {}
                changed = deadline.changed() => if changed.is_err() { return Err(Closed) },
                output = &mut write => return Ok(output),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{Error, POD};
    use serde_json::{Value, json};

    #[tokio::test(start_paused = true)]
    async fn linkerd2_13392_no_write_after_the_deadline() {
        let (keeper, fence) = FenceKeeper::new();
        assert_eq!(fence.guard(async { 1 }).await, Err(Closed));
        let now = Instant::now();
        assert_eq!(fence.remaining(now), Some(Duration::ZERO));
        assert_eq!(Fence::open().remaining(now), None);
        keeper.extend(now + Duration::from_secs(10));
        assert_eq!(fence.remaining(now), Some(Duration::from_secs(10)));
        assert_eq!(fence.guard(async { 1 }).await, Ok(1));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(!fence.permits(Instant::now()));
        assert_eq!(fence.guard(async { 1 }).await, Err(Closed));
    }

    #[tokio::test(start_paused = true)]
    async fn cilium_42920_a_write_in_flight_is_cancelled_at_the_deadline_unless_extended() {
        let (keeper, fence) = FenceKeeper::new();
        let start = Instant::now();
        keeper.extend(start + Duration::from_secs(10));
        let forever = fence.guard(std::future::pending::<()>());
        let renew = async {
            tokio::time::sleep(Duration::from_secs(9)).await;
            keeper.extend(start + Duration::from_secs(19));
        };
        let (outcome, ()) = tokio::join!(forever, renew);
        assert_eq!(outcome, Err(Closed));
        assert_eq!(start.elapsed(), Duration::from_secs(19));
    }

    #[tokio::test(start_paused = true)]
    async fn cilium_42920_a_write_neither_leaves_nor_stays_once_the_fence_is_closed() {
        let server = FakeServer::new(|request| {
            if request.method == http::Method::GET {
                Reply::json("{}")
            } else {
                Reply::Hang
            }
        });
        let (keeper, fence) = FenceKeeper::new();
        let client = server.client().with_fence(fence);
        let body = json!({});
        let create = || client.create::<_, Value>(POD, Some("ns"), &body);
        assert!(matches!(create().await, Err(Error::Fenced { .. })));
        assert!(server.requests().is_empty(), "nothing left the process");
        let _: Value = client.get(POD, Some("ns"), "a").await.unwrap();

        let start = Instant::now();
        keeper.extend(start + Duration::from_secs(3));
        assert!(matches!(create().await, Err(Error::Fenced { .. })));
        assert_eq!(
            start.elapsed(),
            Duration::from_secs(3),
            "in flight, then abandoned"
        );
    }
}
