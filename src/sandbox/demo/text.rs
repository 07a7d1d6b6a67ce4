//! Values in few characters.

use std::time::Duration;

/// `0.42 s`, `12.3 s`, `4m05s`, `3h02m`.
pub(super) fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    match whole {
        0..10 => format!("{:.2} s", duration.as_secs_f64()),
        10..60 => format!("{:.1} s", duration.as_secs_f64()),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole / 60 % 60),
    }
}

/// `7s`, `4m05s`, `3h02m`: an age, as kubectl has them.
pub(super) fn age(duration: Duration) -> String {
    match duration.as_secs() {
        whole @ 0..60 => format!("{whole}s"),
        _ => seconds(duration),
    }
}

/// `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A GTID set with each server's UUID as its first four digits: `3f2a:1-512 91bc:1-7`.
pub(super) fn gtid(set: &str) -> String {
    let servers = set.split(',').filter_map(|server| {
        let (uuid, intervals) = server.trim().split_once(':')?;
        Some(format!("{}:{intervals}", uuid.get(..4).unwrap_or(uuid)))
    });
    servers.collect::<Vec<_>>().join(" ")
}

/// At most `width` characters, the last of them `…` where some are left out.
pub(super) fn clip(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut clipped: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        clipped.push('…');
    }
    clipped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_figures() {
        for (millis, text) in [
            (420, "0.42 s"),
            (12_345, "12.3 s"),
            (245_000, "4m05s"),
            (10_920_000, "3h02m"),
        ] {
            assert_eq!(seconds(Duration::from_millis(millis)), text);
        }
        assert_eq!(age(Duration::from_millis(7_900)), "7s");
        assert_eq!(age(Duration::from_secs(61)), "1m01s");
    }

    #[test]
    fn numbers_have_commas() {
        let counts = [0, 999, 1_000, 1_234_567].map(count);
        assert_eq!(counts, ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn a_gtid_set_is_short() {
        let set =
            "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7,91bcfa47-71ca-11e1-9e33-c80aa9429562:1";
        assert_eq!(gtid(set), "3e11:1-5:7 91bc:1");
        assert_eq!(gtid(""), "");
    }

    #[test]
    fn clipping_counts_characters() {
        assert_eq!(clip("größer", 6), "größer");
        assert_eq!(clip("größer", 4), "grö…");
        assert_eq!(clip("ab", 0), "");
    }
}
