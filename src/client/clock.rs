//! The wall clock, for comparison with times that others have written down. Deadlines of our own use
//! tokio's monotonic clock.

use std::time::{SystemTime, UNIX_EPOCH};

use k8s_openapi::jiff::{SignedDuration, Timestamp};

/// The time of day. (jiff comes without its std feature, so it can't ask by itself.)
pub(super) fn wall_clock() -> Timestamp {
    let elapsed = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let elapsed = SignedDuration::try_from(elapsed).unwrap_or(SignedDuration::MAX);
    Timestamp::from_duration(elapsed).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_later_than_when_this_was_written() {
        assert!(wall_clock() > "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
    }
}
