//! Formats of strings.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use regex::Regex;

use super::outcome::{Failure, Outcome};

/// Whether it is a format that is checked here. Of those that a real server knows, numbers of books and
/// credit cards, social security numbers and colours are not.
pub(super) fn is_text(format: &str) -> bool {
    holds(&format.replace('-', ""), "").is_some()
}

pub(super) fn check(format: &str, text: &str, path: &str) -> Outcome {
    match holds(&format.replace('-', ""), text) {
        Some(false) => Failure::wrong_type(path, format, text).into(),
        Some(true) | None => Outcome::default(),
    }
}

/// Whether a text has a format, given without dashes; `None` for one that is not checked.
fn holds(format: &str, text: &str) -> Option<bool> {
    Some(match format {
        "date" => is_date(text),
        "datetime" => is_date_time(text),
        "duration" => is_duration(text),
        "byte" => BASE64.is_match(text) && text.len().is_multiple_of(4) && !text.is_empty(),
        "uuid" => UUID.is_match(text),
        "uuid3" => is_uuid(text, '3'),
        "uuid4" => is_uuid(text, '4'),
        "uuid5" => is_uuid(text, '5'),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => MAC.is_match(text),
        "hostname" => {
            text.len() <= 255
                && text.split('.').all(|label| label.len() <= 63)
                && HOSTNAME.is_match(text)
        }
        "email" => EMAIL.is_match(text),
        "uri" => is_uri(text),
        "k8sshortname" => text.len() <= 63 && SHORT_NAME.is_match(text),
        "k8slongname" => {
            text.len() <= 253 && text.split('.').all(|label| SHORT_NAME.is_match(label))
        }
        "password" => true,
        _ => return None,
    })
}

macro_rules! patterns {
    ($($name:ident = $pattern:literal;)*) => {
        $(static $name: LazyLock<Regex> =
            LazyLock::new(|| Regex::new($pattern).expect("the pattern is well formed"));)*
    };
}

patterns! {
    BASE64 = r"^[A-Za-z0-9+/]*={0,2}$";
    UUID = r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$";
    MAC = r"(?i)^(([0-9a-f]{2}[:-]){5}([0-9a-f]{2}[:-]?){1,3}|([0-9a-f]{4}\.){2,3}[0-9a-f]{4})$";
    // `HostnamePattern` of kube-openapi's strfmt.
    HOSTNAME = r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$";
    EMAIL = r#"^(.*<)?[^\s@<>"]+@[^\s@<>"]+>?$"#;
    SHORT_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
    TIME = r"(?i)^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$";
    GO_DURATION = r"^[+-]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$";
    LONG_DURATION = r"(?i)[0-9]+\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|wk|week)";
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['t', 'T']) else {
        return false;
    };
    is_date(date)
        && TIME
            .captures(time)
            .is_some_and(|parts| &parts[1] <= "23" && &parts[2] <= "59" && &parts[3] <= "59")
}

fn is_duration(text: &str) -> bool {
    matches!(text, "0" | "+0" | "-0") || GO_DURATION.is_match(text) || LONG_DURATION.is_match(text)
}

fn is_uuid(text: &str, version: char) -> bool {
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    UUID.is_match(text)
        && digits.chars().nth(12) == Some(version)
        && (version == '3'
            || digits
                .chars()
                .nth(16)
                .is_some_and(|c| matches!(c.to_ascii_lowercase(), '8' | '9' | 'a' | 'b')))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

/// A request URI: absolute, or an absolute path.
fn is_uri(text: &str) -> bool {
    let (scheme, rest) = text.split_once(':').unwrap_or(("", text));
    let mut letters = scheme.chars();
    let absolute = letters.next().is_some_and(|c| c.is_ascii_alphabetic())
        && letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
        && !rest.is_empty();
    (absolute || text.starts_with('/')) && !text.contains(|c: char| c.is_control() || c == ' ')
}

#[cfg(test)]
mod tests {
    use super::holds;

    #[test]
    fn formats_hold_or_not() {
        let cases = [
            ("datetime", "2026-11-30T02:00:00Z", true),
            ("datetime", "2026-11-30t02:00:00.5+01:00", true),
            ("datetime", "2026-13-30T02:00:00Z", false),
            ("datetime", "2026-11-30T25:00:00Z", false),
            ("datetime", "2026-11-30", false),
            ("date", "2024-02-29", true),
            ("date", "2023-02-29", false),
            ("duration", "1h30m", true),
            ("duration", "-1.5s", true),
            ("duration", "2 days", true),
            ("duration", "soon", false),
            ("byte", "Zm9v", true),
            ("byte", "Zm9", false),
            ("uuid", "f47ac10b-58cc-4372-a567-0e02b2c3d479", true),
            ("uuid4", "f47ac10b-58cc-4372-a567-0e02b2c3d479", true),
            ("uuid5", "f47ac10b-58cc-4372-a567-0e02b2c3d479", false),
            ("ipv4", "10.0.0.1", true),
            ("ipv4", "::1", false),
            ("ipv6", "::1", true),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("hostname", "a-b.example.com", true),
            ("hostname", "-a", false),
            ("email", "a@example.com", true),
            ("email", "a", false),
            ("uri", "https://example.com/x", true),
            ("uri", "/x", true),
            ("uri", "x", false),
            ("mac", "00:1a:2b:3c:4d:5e", true),
            ("k8sshortname", "abc-1", true),
            ("k8sshortname", "Abc", false),
            ("k8slongname", "a.b-c", true),
            ("k8slongname", "a..b", false),
        ];
        for (format, text, expected) in cases {
            assert_eq!(holds(format, text), Some(expected), "{format} {text}");
        }
    }
}
