//! Ages as people read them.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

/// apimachinery's `HumanDuration`: two or three figures.
pub(super) fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    // Clocks that differ by a second are no reason to complain.
    if seconds < -1 {
        return "<invalid>".to_owned();
    }
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let with = |large: i64, unit: &str, small: i64, small_unit: &str| match small {
        0 => format!("{large}{unit}"),
        small => format!("{large}{unit}{small}{small_unit}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => with(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => with(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if hours < 192 => with(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => with(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

/// How long ago a time of an object was; `<unknown>` where it has none.
pub(super) fn since(time: &Value, now: Timestamp) -> String {
    match read(time) {
        Some(time) => human(now.duration_since(time)),
        None => "<unknown>".to_owned(),
    }
}

/// A time of an object.
pub(super) fn read(time: &Value) -> Option<Timestamp> {
    time.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_or_three_figures() {
        let cases = [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (600, "10m"),
            (179 * 60, "179m"),
            (180 * 60, "3h"),
            (3 * 3600 + 300, "3h5m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (48 * 3600, "2d"),
            (49 * 3600, "2d1h"),
            (192 * 3600, "8d"),
            (700 * 86_400, "700d"),
            (730 * 86_400, "2y"),
            (731 * 86_400, "2y1d"),
            (3_000 * 86_400, "8y"),
        ];
        for (seconds, shown) in cases {
            assert_eq!(
                human(SignedDuration::from_secs(seconds)),
                shown,
                "{seconds}"
            );
        }
    }
}
