//! The workers that wait for a key, and how many of them were woken for one.
//!
//! A wake-up that is not needed costs more than all else that an add does. So a worker is woken only
//! when more keys are ready than workers are on their way; and what one on its way does not take (it
//! found nothing, or was given up) it leaves to the next.

use std::collections::VecDeque;
use std::task::Waker;

#[derive(Debug, Default)]
pub(super) struct Idle {
    /// Who waits, by ticket, which rises.
    parked: VecDeque<(u64, Waker)>,
    ticket: u64,
    /// Workers that were woken and have not looked yet.
    woken: usize,
}

impl Idle {
    /// A worker found nothing and waits. Its ticket is to be given back with
    /// [`leave`](Self::leave), whatever happens.
    pub(super) fn park(&mut self, waker: &Waker) -> u64 {
        let ticket = self.ticket;
        self.ticket += 1;
        self.parked.push_back((ticket, waker.clone()));
        ticket
    }

    /// A worker waits no more: it looks for itself, or was given up. Its waker, if it still had one
    /// here, is to be dropped without the lock: what that does is not ours to know.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        let parked = &mut self.parked;
        if let Ok(at) = parked.binary_search_by_key(&ticket, |(parked, _)| *parked) {
            return parked.remove(at).map(|(_, waker)| waker);
        }
        self.woken -= 1;
        None
    }

    /// Who is to be woken, if anybody, with so many keys ready. The last that came: what it works
    /// with is still in the processor's caches.
    pub(super) fn wake(&mut self, ready: usize) -> Option<Waker> {
        if ready <= self.woken {
            return None;
        }
        let (_, waker) = self.parked.pop_back()?;
        self.woken += 1;
        Some(waker)
    }

    /// Everybody is to be woken, whatever is ready.
    pub(super) fn wake_all(&mut self) -> Vec<Waker> {
        self.woken += self.parked.len();
        self.parked.drain(..).map(|(_, waker)| waker).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_woken_as_keys_are_ready() {
        let (mut idle, waker) = (Idle::default(), Waker::noop());
        let tickets: Vec<_> = (0..3).map(|_| idle.park(waker)).collect();
        assert!(idle.wake(0).is_none());
        assert!(idle.wake(1).is_some());
        assert!(idle.wake(1).is_none(), "one is on its way");
        assert!(idle.wake(2).is_some());
        // The first takes a key; the second is given up, and its key is for the third.
        idle.leave(tickets[2]);
        assert!(idle.wake(1).is_none());
        idle.leave(tickets[1]);
        assert!(idle.wake(1).is_some());
        assert!(idle.wake(9).is_none(), "nobody waits");
        idle.leave(tickets[0]);
        assert_eq!((idle.woken, idle.parked.len()), (0, 0));
        // Who was not woken just goes.
        let ticket = idle.park(waker);
        idle.leave(ticket);
        assert!(idle.wake(1).is_none());
    }
}
