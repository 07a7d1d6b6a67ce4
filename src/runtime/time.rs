//! The wall clock, as Kubernetes writes it. It is only shown, never compared.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Seconds since 1970; zero for a clock that is set before.
pub(crate) fn unix_seconds() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}

/// `time` as a MicroTime, such as `2026-11-29T10:00:05.123456Z`.
pub(crate) fn micro_time(time: Timestamp) -> String {
    format!("{time:.6}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_time_has_the_form_of_kubernetes() {
        for (time, text) in [
            (
                "2026-11-29T10:00:05.123456789Z",
                "2026-11-29T10:00:05.123456Z",
            ),
            ("2026-11-29T10:00:05Z", "2026-11-29T10:00:05.000000Z"),
        ] {
            assert_eq!(micro_time(time.parse().unwrap()), text);
        }
    }
}
