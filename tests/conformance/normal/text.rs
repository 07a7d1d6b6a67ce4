//! What is in a text that changes from run to run.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::{SignedDuration, Timestamp};

/// Behind these words of a message stands the resource version that the server is at.
const BEFORE_VERSION: [&str; 6] = [
    "ResourceVersion in record (",
    "\\\"resourceVersion\\\":\\\"",
    "\"resourceVersion\":\"",
    "ResourceVersion in object meta: ",
    "too old resource version: 1 (",
    ", current: ",
];

/// Replaces times that are about now, as a server writes them.
pub(super) fn times(text: &str) -> String {
    let mut replaced = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((length, name)) = now(rest) {
            replaced.push_str(&name);
            rest = &rest[length..];
        } else {
            replaced.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    replaced
}

/// The length of the time that a text begins with, and what it is called.
fn now(text: &str) -> Option<(usize, String)> {
    const SECONDS: usize = "2006-01-02T15:04:05".len();
    let head = text
        .get(..SECONDS)
        .filter(|head| head.as_bytes()[10] == b'T')?;
    let rest = &text[SECONDS..];
    let fraction = rest.strip_prefix('.').map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    let length = SECONDS + if fraction > 0 { fraction + 1 } else { 0 };
    text[length..].strip_prefix('Z')?;
    let given: Timestamp = format!("{head}Z").parse().ok()?;
    let away = given.duration_since(Timestamp::now()).abs();
    (away < SignedDuration::from_hours(24)).then(|| {
        let name = match fraction {
            0 => "<time>".to_owned(),
            digits => format!("<time with {digits} digits>"),
        };
        (length + 1, name)
    })
}

/// Names the UIDs in a text.
pub(super) fn uuids(text: &str, known: &BTreeMap<String, String>) -> String {
    const LENGTH: usize = 36;
    let mut named = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(uid) = rest.get(..LENGTH).filter(|part| is_uuid(part)) {
            named.push_str(known.get(uid).map_or("<uid>", String::as_str));
            rest = &rest[LENGTH..];
        } else {
            named.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    named
}

fn is_uuid(text: &str) -> bool {
    // Not the ones that a case makes up, which are of zeros.
    !text.starts_with("00000000")
        && text.char_indices().all(|(at, letter)| match at {
            8 | 13 | 18 | 23 => letter == '-',
            _ => letter.is_ascii_hexdigit(),
        })
}

/// Names the resource versions in a message.
pub(super) fn numbers(text: &str, name: &dyn Fn(u64) -> String) -> String {
    let mut text = text.to_owned();
    for words in BEFORE_VERSION {
        if let Some(at) = text.find(words).map(|at| at + words.len()) {
            let digits = text[at..].bytes().take_while(u8::is_ascii_digit).count();
            if let Ok(number) = text[at..at + digits].parse() {
                text.replace_range(at..at + digits, &name(number));
            }
        }
    }
    text
}

/// Whether it is an IP address.
pub(super) fn address(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

/// Whether it is a duration as tables show it, such as `3m12s`.
pub(super) fn age(text: &str) -> bool {
    !text.is_empty()
        && text
            .chars()
            .all(|letter| letter.is_ascii_digit() || "smhdy".contains(letter))
        && text.ends_with(|last: char| last.is_alphabetic())
}

/// A text that ends with how long ago something was, as `2 (3m12s ago)` does, without the time.
pub(super) fn ago(text: &str) -> Option<String> {
    let (what, passed) = text.strip_suffix(" ago)")?.rsplit_once('(')?;
    age(passed).then(|| format!("{what}(<age> ago)"))
}
