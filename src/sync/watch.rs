//! A value of which only the latest counts, and those who wait for its change.
//!
//! It behaves like `tokio::sync::watch`, but wakes in the order in which the waiting began: tokio's
//! spreads the waiters over eight lists by a random number that no seed reaches.

use std::ops::Deref;
use std::pin::pin;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::Notify;

/// A channel that holds `value`.
pub fn channel<T>(value: T) -> (Sender<T>, Receiver<T>) {
    let sender = Sender::new(value);
    let receiver = sender.subscribe();
    (sender, receiver)
}

#[derive(Debug)]
struct Shared<T> {
    state: RwLock<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    value: T,
    /// Counts changes.
    version: u64,
    /// Without any the value stays as it is for ever.
    senders: usize,
}

impl<T> Shared<T> {
    // A closure that panics leaves a value that somebody may read: it was theirs to keep whole.
    fn read(&self) -> RwLockReadGuard<'_, State<T>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<T>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes the value. Clones share it.
#[derive(Debug)]
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> Sender<T> {
    /// A sender of `value` without receivers.
    pub fn new(value: T) -> Self {
        Self {
            shared: Arc::new(Shared {
                state: RwLock::new(State {
                    value,
                    version: 0,
                    senders: 1,
                }),
                changed: Notify::new(),
            }),
        }
    }

    /// A receiver that has seen the present value.
    #[must_use]
    pub fn subscribe(&self) -> Receiver<T> {
        Receiver {
            seen: self.shared.read().version,
            shared: Arc::clone(&self.shared),
        }
    }

    /// Changes the value to `value`; returns the old one.
    pub fn send_replace(&self, value: T) -> T {
        let mut old = None;
        self.send_modify(|held| old = Some(std::mem::replace(held, value)));
        old.expect("the closure ran")
    }

    /// Changes the value in place.
    pub fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.send_if_modified(|value| {
            modify(value);
            true
        });
    }

    /// Changes the value in place; nobody is woken where `modify` says that it is no change.
    pub fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let modified = {
            let mut state = self.shared.write();
            let modified = modify(&mut state.value);
            state.version += u64::from(modified);
            modified
        };
        if modified {
            self.shared.changed.notify_waiters();
        }
        modified
    }

    /// The present value. Writers wait while it is held.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.read())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.write().senders += 1;
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let last = {
            let mut state = self.shared.write();
            state.senders -= 1;
            state.senders == 0
        };
        if last {
            self.shared.changed.notify_waiters();
        }
    }
}

/// Reads the value and waits for its changes.
#[derive(Debug)]
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
    seen: u64,
}

impl<T> Receiver<T> {
    /// The present value. Writers wait while it is held.
    #[must_use]
    pub fn borrow(&self) -> Ref<'_, T> {
        Ref(self.shared.read())
    }

    /// The present value, which then counts as seen. Writers wait while it is held.
    pub fn borrow_and_update(&mut self) -> Ref<'_, T> {
        let state = self.shared.read();
        self.seen = state.version;
        Ref(state)
    }

    /// The present value counts as seen.
    pub fn mark_unchanged(&mut self) {
        self.seen = self.shared.read().version;
    }

    /// Waits until the value is another than was seen, which then counts as seen. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`] when it was seen and no sender is left.
    pub async fn changed(&mut self) -> Result<(), Closed> {
        loop {
            // In line before the look, so that a change after it is not missed.
            let mut changed = pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            {
                let state = self.shared.read();
                if state.version != self.seen {
                    self.seen = state.version;
                    return Ok(());
                }
                if state.senders == 0 {
                    return Err(Closed);
                }
            }
            changed.await;
        }
    }

    /// Waits until the value is as `wanted`, which then counts as seen. Cancel-safe.
    ///
    /// # Errors
    /// [`Closed`] when it is not and no sender is left.
    pub async fn wait_for(&mut self, wanted: impl Fn(&T) -> bool) -> Result<Ref<'_, T>, Closed> {
        while !wanted(&self.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(self.borrow())
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            seen: self.seen,
        }
    }
}

/// The value, locked against changes.
#[derive(Debug)]
pub struct Ref<'a, T>(RwLockReadGuard<'a, State<T>>);

impl<T> Deref for Ref<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.value
    }
}

/// No sender is left: the value changes no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no sender is left")]
pub struct Closed;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[tokio::test]
    async fn waiters_are_woken_in_the_order_in_which_they_came() {
        let (sender, receiver) = channel(0);
        let woken = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for number in 0..40 {
            let (mut receiver, woken) = (receiver.clone(), Arc::clone(&woken));
            waiting.push(tokio::spawn(async move {
                receiver.changed().await.unwrap();
                woken.lock().unwrap().push(number);
            }));
        }
        tokio::task::yield_now().await;
        sender.send_replace(1);
        for task in waiting {
            task.await.unwrap();
        }
        assert!(woken.lock().unwrap().is_sorted(), "{woken:?}");
    }

    #[tokio::test]
    async fn only_what_was_not_seen_is_a_change() {
        let (sender, mut receiver) = channel(1);
        assert_eq!(sender.send_replace(2), 1);
        assert!(!sender.send_if_modified(|_| false));
        receiver.changed().await.unwrap();
        assert_eq!(*receiver.borrow(), 2);
        sender.send_modify(|value| *value += 1);
        assert_eq!(*receiver.borrow_and_update(), 3);
        assert_eq!(*receiver.wait_for(|value| *value == 3).await.unwrap(), 3);
        let more = sender.clone();
        drop(sender);
        more.send_replace(4);
        drop(more);
        assert_eq!(receiver.changed().await, Ok(()), "the last value is told");
        assert_eq!(receiver.changed().await, Err(Closed));
        assert!(receiver.wait_for(|value| *value == 4).await.is_ok());
        assert!(receiver.wait_for(|value| *value == 5).await.is_err());
    }

    #[tokio::test]
    async fn the_last_sender_wakes_those_who_wait_in_vain() {
        let (sender, mut receiver) = channel(());
        let waiting = tokio::spawn(async move { receiver.changed().await });
        tokio::task::yield_now().await;
        drop(sender);
        assert_eq!(waiting.await.unwrap(), Err(Closed));
    }
}
