//! The faults that hold, so that they can be shown and undone.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a fault is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// Heal the way to a pod.
    Heal {
        /// The pod.
        pod: String,
    },
    /// Remove a rule of the API server's.
    Rule(u64),
}

/// A fault that holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    /// What it is, in words.
    pub(super) words: String,
    /// How it is undone.
    pub(super) undo: Undo,
}

/// All faults that hold.
#[derive(Debug, Default)]
pub(super) struct Faults(Mutex<Book>);

#[derive(Debug, Default)]
struct Book {
    next: u64,
    faults: BTreeMap<u64, Fault>,
}

impl Faults {
    /// Notes a fault; its number is for [`take`](Self::take).
    pub(super) fn add(&self, fault: Fault) -> u64 {
        let mut book = self.book();
        let id = book.next;
        book.next += 1;
        book.faults.insert(id, fault);
        id
    }

    /// The fault of that number, to be undone; `None` if somebody else has taken it.
    pub(super) fn take(&self, id: u64) -> Option<Fault> {
        self.book().faults.remove(&id)
    }

    /// All of them, to be undone.
    pub(super) fn take_all(&self) -> Vec<Fault> {
        std::mem::take(&mut self.book().faults)
            .into_values()
            .collect()
    }

    /// Whether the way to this pod is cut.
    pub(super) fn is_cut(&self, pod: &str) -> bool {
        let book = self.book();
        let cuts = |fault: &Fault| matches!(&fault.undo, Undo::Heal { pod: cut } if cut == pod);
        book.faults.values().any(cuts)
    }

    /// Each in words, the oldest first.
    pub(super) fn words(&self) -> Vec<String> {
        let book = self.book();
        book.faults
            .values()
            .map(|fault| fault.words.clone())
            .collect()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        // Plain data: it is whole after any panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_undone_once() {
        let faults = Faults::default();
        let heal = |pod: &str| Undo::Heal { pod: pod.into() };
        let cut = faults.add(Fault {
            words: "demo-0 is cut off".into(),
            undo: heal("demo-0"),
        });
        let slow = faults.add(Fault {
            words: "slow".into(),
            undo: Undo::Rule(3),
        });
        assert_eq!(faults.words(), ["demo-0 is cut off", "slow"]);
        assert!(faults.is_cut("demo-0") && !faults.is_cut("demo-1"));
        assert_eq!(faults.take(cut).unwrap().undo, heal("demo-0"));
        assert_eq!(faults.take(cut), None);
        assert_eq!(faults.take_all()[0].undo, Undo::Rule(3));
        assert_eq!(faults.take(slow), None);
        assert!(faults.take_all().is_empty());
    }
}
