//! What was asked and answered: a bounded log.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use jiff::Timestamp;

/// One request for a resource, once it was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEvent {
    /// Number of this event, from 0.
    pub sequence: u64,
    /// When it was carried out.
    pub at: Timestamp,
    /// Token's name, else user agent.
    pub client: String,
    /// Such as `get`, `patch`.
    pub verb: &'static str,
    /// Such as `pods`, `pods/status`, `deployments.apps`.
    pub resource: String,
    /// Empty for none.
    pub namespace: String,
    /// Empty for a collection, and for a name that was yet to be generated.
    pub name: String,
    /// HTTP status. 0 where the connection was broken before anything was done.
    pub code: u16,
    /// The server's resource version afterwards.
    pub version: u64,
    /// Whether it changed anything: a write that was not refused, no dry run, and not without effect.
    pub wrote: bool,
    /// Faults that it met.
    pub faults: Vec<&'static str>,
}

/// The last requests.
#[derive(Debug)]
pub(crate) struct Audit {
    capacity: usize,
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    next: u64,
    events: VecDeque<AuditEvent>,
}

impl Audit {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            log: Mutex::default(),
        }
    }

    pub(crate) fn record(&self, mut event: AuditEvent) {
        if self.capacity == 0 {
            return;
        }
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        event.sequence = log.next;
        log.next += 1;
        if log.events.len() == self.capacity {
            log.events.pop_front();
        }
        log.events.push_back(event);
    }

    /// What was recorded from number `since` on, as far as it is still there.
    pub(crate) fn since(&self, since: u64) -> Vec<AuditEvent> {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        log.events
            .iter()
            .filter(|event| event.sequence >= since)
            .cloned()
            .collect()
    }
}
