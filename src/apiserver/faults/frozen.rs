//! A server that stands still.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Whether everything stands still, and who waits for that to end.
#[derive(Clone, Debug, Default)]
pub(super) struct Ice(Arc<Mutex<Frozen>>);

#[derive(Debug, Default)]
struct Frozen {
    frozen: bool,
    waiting: Vec<Waker>,
}

impl Ice {
    /// Freezes or thaws; whether that changed anything.
    pub(super) fn set(&self, frozen: bool) -> bool {
        let mut ice = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = ice.frozen != frozen;
        ice.frozen = frozen;
        let waiting = if frozen {
            Vec::new()
        } else {
            std::mem::take(&mut ice.waiting)
        };
        drop(ice);
        waiting.into_iter().for_each(Waker::wake);
        changed
    }

    pub(super) fn frozen(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).frozen
    }

    pub(super) fn thawed(&self) -> Thawed {
        Thawed(self.clone())
    }
}

/// Ready while nothing is frozen. It can be polled again and again.
#[derive(Clone, Debug)]
pub(crate) struct Thawed(Ice);

impl Future for Thawed {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut ice = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !ice.frozen {
            return Poll::Ready(());
        }
        if !ice
            .waiting
            .iter()
            .any(|waker| waker.will_wake(context.waker()))
        {
            ice.waiting.push(context.waker().clone());
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_waits_goes_on_once_it_thaws() {
        let ice = Ice::default();
        assert!(ice.set(true) && !ice.set(true));
        let waiting = tokio::spawn(ice.thawed());
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        ice.set(false);
        waiting.await.unwrap();
    }
}
