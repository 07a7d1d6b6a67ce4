//! How far a call has come, so that a deadline that passes can say what it passed in.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// How far a call has come.
pub(super) struct Stage {
    stage: AtomicU8,
    repeated: AtomicBool,
}

impl Stage {
    pub(super) const LIMITED: u8 = 0;
    pub(super) const AUTHENTICATING: u8 = 1;
    pub(super) const SENT: u8 = 2;
    pub(super) const WAITING_TO_RETRY: u8 = 3;
    pub(super) const BREAKER: u8 = 4;

    pub(super) fn new() -> Self {
        Self {
            stage: AtomicU8::new(Self::LIMITED),
            repeated: AtomicBool::new(false),
        }
    }

    pub(super) fn enter(&self, stage: u8) {
        self.stage.store(stage, Ordering::Relaxed);
    }

    /// It is sent again, and the server may have seen it before.
    pub(super) fn repeat(&self) {
        self.repeated.store(true, Ordering::Relaxed);
    }

    pub(super) fn was_repeated(&self) -> bool {
        self.repeated.load(Ordering::Relaxed)
    }

    pub(super) fn was_sent(&self) -> bool {
        self.stage.load(Ordering::Relaxed) == Self::SENT
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.stage.load(Ordering::Relaxed) {
            Self::LIMITED => "not sent, still waiting for our own rate limit",
            Self::AUTHENTICATING => "not sent, still waiting for a credential",
            Self::SENT => "sent",
            Self::BREAKER => "not sent, still waiting for the circuit breaker",
            _ => "waiting to send it again",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_was_not_sent_says_so() {
        let stage = Stage::new();
        assert!(stage.to_string().contains("not sent") && !stage.was_sent());
        stage.enter(Stage::SENT);
        assert!(stage.was_sent());
        stage.enter(Stage::WAITING_TO_RETRY);
        assert_eq!(stage.to_string(), "waiting to send it again");
    }
}
