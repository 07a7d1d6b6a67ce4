//! Times and durations, from the texts of schemas.

use chrono::{DateTime, Duration, FixedOffset, NaiveDate, NaiveTime};

/// A date, or a date with a time, as kube-openapi's strfmt reads them.
pub(super) fn timestamp(text: &str) -> Option<DateTime<FixedOffset>> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return Some(time);
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    Some(date.and_time(NaiveTime::MIN).and_utc().fixed_offset())
}

/// A duration such as `1h30m`, `1.5s` or `2 days`.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut nanos: i128 = 0;
    let mut rest = rest.trim();
    if rest == "0" {
        return Some(Duration::zero());
    }
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let unit_end = after
            .trim_start()
            .find(|c: char| c.is_ascii_digit() || c == '.' || c == ' ')
            .unwrap_or(after.trim_start().len());
        let unit = &after.trim_start()[..unit_end];
        nanos = nanos.checked_add(scaled(number, unit_nanos(unit)?)?)?;
        rest = after.trim_start()[unit_end..].trim_start();
    }
    let nanos = i64::try_from(if negative { -nanos } else { nanos }).ok()?;
    Some(Duration::nanoseconds(nanos))
}

/// A decimal number times a unit, in whole nanoseconds.
fn scaled(number: &str, unit: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut total = whole.checked_mul(unit)?;
    let mut scale = unit;
    for digit in fraction.bytes() {
        scale /= 10;
        total = total.checked_add(scale.checked_mul(i128::from(digit.checked_sub(b'0')?))?)?;
    }
    Some(total)
}

fn unit_nanos(unit: &str) -> Option<i128> {
    const SECOND: i128 = 1_000_000_000;
    Some(match unit.to_lowercase().as_str() {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" | "hr" => 3_600 * SECOND,
        "d" => 86_400 * SECOND,
        "w" | "wk" => 7 * 86_400 * SECOND,
        long => match long {
            _ if long.starts_with("nano") => 1,
            _ if long.starts_with("micro") => 1_000,
            _ if long.starts_with("milli") => 1_000_000,
            _ if long.starts_with("sec") => SECOND,
            _ if long.starts_with("min") => 60 * SECOND,
            _ if long.starts_with("hour") => 3_600 * SECOND,
            _ if long.starts_with("day") => 86_400 * SECOND,
            _ if long.starts_with("week") => 7 * 86_400 * SECOND,
            _ => return None,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        assert_eq!(duration("1h30m"), Some(Duration::minutes(90)));
        assert_eq!(duration("-1.5s"), Some(Duration::milliseconds(-1500)));
        assert_eq!(duration("2 days"), Some(Duration::days(2)));
        assert_eq!(duration("0"), Some(Duration::zero()));
        assert_eq!(duration("1x"), None);
        assert_eq!(duration(""), None);
    }

    #[test]
    fn dates_are_midnights() {
        assert_eq!(timestamp("2026-01-02"), timestamp("2026-01-02T00:00:00Z"));
        assert_eq!(timestamp("soon"), None);
    }
}
