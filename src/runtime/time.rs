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

/// Now, as a MicroTime, such as `2026-11-29T10:00:05.123456Z`.
pub(crate) fn micro_time() -> String {
    format!("{:.6}", Timestamp::now())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_time_has_the_form_of_kubernetes() {
        let time = micro_time();
        assert_eq!(time.len(), "2026-11-29T10:00:05.123456Z".len(), "{time}");
        assert!(time.ends_with('Z') && time.as_bytes()[19] == b'.', "{time}");
        assert!(time.as_str() > "2026", "{time}");
    }
}
