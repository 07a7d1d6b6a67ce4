//! What the election lane tells the ordinary one: that the server is there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::handle::Lane;
use super::retry::Failure;

/// Tells a lane of what another hears from the same server.
pub(super) struct Herald {
    ordinary: Arc<Lane>,
    /// Whether the last call had no answer.
    silence: AtomicBool,
}

impl Herald {
    pub(super) fn new(ordinary: Arc<Lane>) -> Self {
        Self {
            ordinary,
            silence: AtomicBool::new(false),
        }
    }

    /// A call of this lane came to its end.
    pub(super) fn ended(&self, failure: Option<Failure>) {
        match failure {
            Some(Failure::NotSent(_) | Failure::Broken) => self.silent(),
            // It did not get as far as the server, or to one that is not well.
            Some(Failure::Refused | Failure::Declined | Failure::Unreadable) => {}
            Some(failure @ Failure::Answered { status, .. })
                if status.is_server_error() || failure.is_too_many() => {}
            None | Some(Failure::Answered { .. }) => {
                let again = self.silence.swap(false, Ordering::AcqRel);
                if let Some(limits) = &self.ordinary.limits {
                    limits.breaker.heard(again);
                }
            }
        }
    }

    /// A call of this lane had no answer.
    pub(super) fn silent(&self) {
        self.silence.store(true, Ordering::Release);
    }
}
