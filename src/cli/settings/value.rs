//! From what was written to a value, and back. Pure.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use serde_yaml::Value;

use super::Settings;

/// What was written for an option.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Raw {
    /// In the environment.
    Word(String),
    /// On the command line, once a flag.
    Words(Vec<String>),
    /// In the file.
    Yaml(Value),
}

/// The settings' value of one option, by its kind.
#[derive(Clone, Copy)]
pub(super) enum Field {
    /// A time from the first to the second.
    Time(fn(&mut Settings) -> &mut Duration, Duration, Duration),
    /// A whole number from the first to the second.
    Count(fn(&mut Settings) -> &mut u32, u32, u32),
    /// A number above 0.
    Rate(fn(&mut Settings) -> &mut f64),
    /// Text that the rule accepts.
    Text(fn(&mut Settings) -> &mut String, Rule),
    /// Texts that the rule accepts.
    List(fn(&mut Settings) -> &mut Vec<String>, Rule),
    /// An IP address and port.
    Address(fn(&mut Settings) -> &mut SocketAddr),
    /// One of some words.
    Choice(&'static [&'static str], fn(&Settings) -> &'static str, Set),
}

/// Says what is wrong with a text.
type Rule = fn(&str) -> Result<(), String>;
/// Sets one of the words of a choice.
type Set = fn(&mut Settings, &str);

impl Field {
    /// Sets the value that was written.
    ///
    /// # Errors
    /// What is wrong with it and what to write instead.
    pub(super) fn assign(&self, settings: &mut Settings, raw: &Raw) -> Result<(), String> {
        match *self {
            Self::Time(field, min, max) => {
                let time = read_time(&number(raw)?)?;
                if time < min || time > max {
                    let (min, max) = (show_time(min), show_time(max));
                    return Err(format!(
                        "{} is out of range: {min} to {max}",
                        show_time(time)
                    ));
                }
                *field(settings) = time;
            }
            Self::Count(field, min, max) => {
                let text = plain_number(raw)?;
                let parsed = text.parse().ok();
                let number = parsed.filter(|number| (min..=max).contains(number));
                *field(settings) = number
                    .ok_or_else(|| format!("{text:?} is not a whole number from {min} to {max}"))?;
            }
            Self::Rate(field) => {
                let text = plain_number(raw)?;
                let parsed: Option<f64> = text.parse().ok();
                let number = parsed.filter(|number| number.is_finite() && *number > 0.0);
                *field(settings) =
                    number.ok_or_else(|| format!("{text:?} is not a number above 0"))?;
            }
            Self::Text(field, rule) => {
                let text = text(raw)?;
                rule(&text)?;
                *field(settings) = text;
            }
            Self::List(field, rule) => {
                let words = words(raw)?;
                words.iter().try_for_each(|word| rule(word))?;
                if let Some(twice) = words
                    .iter()
                    .enumerate()
                    .find_map(|(i, word)| words[..i].contains(word).then_some(word))
                {
                    return Err(format!("{twice:?} is there twice"));
                }
                *field(settings) = words;
            }
            Self::Address(field) => {
                let text = text(raw)?;
                *field(settings) = text.parse().map_err(|_| {
                    format!(
                        "{text:?} is not an IP address and port, such as 0.0.0.0:8080 or [::]:8080"
                    )
                })?;
            }
            Self::Choice(names, _, set) => {
                let text = text(raw)?;
                if !names.contains(&text.as_str()) {
                    return Err(format!("{text:?} is none of {}", names.join(", ")));
                }
                set(settings, &text);
            }
        }
        Ok(())
    }

    /// The value as it can be written in the file.
    pub(super) fn show(&self, settings: &Settings) -> String {
        let mut settings = settings.clone();
        match *self {
            Self::Time(field, ..) => show_time(*field(&mut settings)),
            Self::Count(field, ..) => field(&mut settings).to_string(),
            Self::Rate(field) => field(&mut settings).to_string(),
            Self::Text(field, _) => show_text(field(&mut settings)),
            Self::List(field, _) => {
                let words: Vec<_> = field(&mut settings)
                    .iter()
                    .map(|word| show_text(word))
                    .collect();
                format!("[{}]", words.join(", "))
            }
            Self::Address(field) => show_text(&field(&mut settings).to_string()),
            Self::Choice(_, get, _) => get(&settings).to_owned(),
        }
    }
}

/// Always in quotes, so that no text is taken for something else. JSON is YAML.
fn show_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The one word that was written, whatever it is to be.
fn word(raw: &Raw) -> Option<String> {
    match raw {
        Raw::Word(word) => Some(word.clone()),
        // Clap lets a flag through once, unless it may be repeated.
        Raw::Words(words) => words.last().cloned(),
        Raw::Yaml(_) => None,
    }
}

/// A number as it was written, or text that may hold one.
fn number(raw: &Raw) -> Result<String, String> {
    match raw {
        Raw::Yaml(Value::String(text)) => Ok(text.clone()),
        raw => plain_number(raw),
    }
}

fn plain_number(raw: &Raw) -> Result<String, String> {
    match raw {
        Raw::Yaml(Value::Number(number)) => Ok(number.to_string()),
        Raw::Yaml(Value::String(text)) => Err(format!(
            "{text:?} is text; a number is wanted, without quotes"
        )),
        Raw::Yaml(other) => Err(wrong_type(other, "a number")),
        raw => Ok(word(raw).unwrap_or_default()),
    }
}

fn text(raw: &Raw) -> Result<String, String> {
    match raw {
        Raw::Yaml(Value::String(text)) => Ok(text.clone()),
        Raw::Yaml(other) => Err(wrong_type(other, "text")),
        raw => Ok(word(raw).unwrap_or_default()),
    }
}

/// Several words: a list in the file, separated by commas elsewhere, and each time that a flag is there.
fn words(raw: &Raw) -> Result<Vec<String>, String> {
    let split = |text: &str| -> Vec<String> {
        let parts = text.split(',').map(str::trim);
        parts
            .filter(|part| !part.is_empty())
            .map(str::to_owned)
            .collect()
    };
    match raw {
        Raw::Word(word) => Ok(split(word)),
        Raw::Words(words) => Ok(words.iter().flat_map(|word| split(word)).collect()),
        Raw::Yaml(Value::Sequence(items)) => items
            .iter()
            .map(|item| text(&Raw::Yaml(item.clone())))
            .collect(),
        Raw::Yaml(Value::String(text)) => Ok(split(text)),
        Raw::Yaml(other) => Err(wrong_type(other, "a list of texts")),
    }
}

fn wrong_type(value: &Value, wanted: &str) -> String {
    let found = match value {
        Value::Null => {
            return format!("has no value; write {wanted}, or remove the key for the default");
        }
        Value::Bool(value) => format!("{value} is a boolean"),
        Value::Number(number) => format!("{number} is a number"),
        Value::String(text) => format!("{text:?} is text"),
        Value::Sequence(_) => "is a list".to_owned(),
        Value::Mapping(_) => "is a mapping".to_owned(),
        Value::Tagged(tagged) => format!("has the tag {}", tagged.tag),
    };
    let quotes = match value {
        Value::Bool(_) | Value::Number(_) if wanted == "text" => ", in quotes",
        _ => "",
    };
    format!("{found}; {wanted} is wanted{quotes}")
}

const UNITS: [(&str, u128); 6] = [
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads `15` (seconds), `0.5`, `15s`, `1m30s`, `500ms`, `1.5h`.
fn read_time(text: &str) -> Result<Duration, String> {
    let bad = || {
        format!(
            "{text:?} is no time; write seconds, or a number with h, m, s or ms, such as 15, 1m30s or 500ms"
        )
    };
    if text.starts_with('-') {
        return Err(format!("{text:?} is less than nothing"));
    }
    let mut nanos: u128 = 0;
    let mut rest = text;
    let mut allowed = UNITS.as_slice();
    loop {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let end = after
            .find(|c: char| !c.is_ascii_alphabetic())
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        // A number without a unit stands for seconds, and for itself alone.
        let unit = if unit.is_empty() && rest.len() == text.len() && after.is_empty() {
            "s"
        } else {
            unit
        };
        let position = allowed
            .iter()
            .position(|(name, _)| *name == unit)
            .ok_or_else(bad)?;
        let (_, size) = allowed[position];
        allowed = &allowed[position + 1..];
        let part = decimal(number, size).ok_or_else(bad)?;
        nanos = nanos.checked_add(part).ok_or_else(|| too_long(text))?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    let seconds = u64::try_from(nanos / 1_000_000_000).map_err(|_| too_long(text))?;
    let below = u32::try_from(nanos % 1_000_000_000).unwrap_or_default();
    Ok(Duration::new(seconds, below))
}

fn too_long(text: &str) -> String {
    format!("{text:?} is too long a time")
}

/// `number` times `size`, exactly; digits that come to less than one are cut off.
fn decimal(number: &str, size: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || whole.len() > 20 || fraction.contains('.') || number.ends_with('.') {
        return None;
    }
    let whole = whole.parse::<u128>().ok()?.checked_mul(size)?;
    let fraction = &fraction[..fraction.len().min(15)];
    let places = u32::try_from(fraction.len()).ok()?;
    let digits: u128 = if fraction.is_empty() {
        0
    } else {
        fraction.parse().ok()?
    };
    whole.checked_add(digits * size / 10_u128.pow(places))
}

/// Such that [`read_time`] reads the same: `1m30s`, `500ms`, `0s`.
pub(super) fn show_time(time: Duration) -> String {
    let mut left = time.as_nanos();
    if left == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, size) in UNITS {
        let (times, below) = (left / size, left % size);
        left = below;
        if times > 0 {
            // Writing to a String can't fail.
            let _ = write!(text, "{times}{name}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_time_is_seconds_or_numbers_with_units() {
        let ms = |text| read_time(text).map(|time| time.as_millis());
        for (text, expected) in [
            ("15", 15_000),
            ("0.5", 500),
            ("15s", 15_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("1.5h", 5_400_000),
            ("1h1m1s1ms", 3_661_001),
            ("0", 0),
            ("0s", 0),
        ] {
            assert_eq!(ms(text), Ok(expected), "{text}");
        }
        for text in [
            "",
            " ",
            "s",
            "15x",
            "15 s",
            "1m30",
            "30s1m",
            "1s1s",
            "1..5s",
            ".5s",
            "5.s",
            "1e3",
            "inf",
            "-1",
            "-1s",
            "99999999999999999999h",
            "999999999999999999999",
            "٣s",
            "15S",
        ] {
            assert!(read_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_time_is_shown_as_people_write_it() {
        let show = |text| show_time(read_time(text).unwrap());
        for text in ["15s", "1m30s", "500ms", "2m", "16m", "1h", "0s"] {
            assert_eq!(show(text), text);
        }
        assert_eq!(show("0.0015"), "1ms500us");
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_back(seconds in 0..10_000_000_u64, nanos in 0..1_000_000_000_u32) {
            let time = Duration::new(seconds, nanos);
            prop_assert_eq!(read_time(&show_time(time)), Ok(time));
        }

        #[test]
        fn no_text_is_too_odd(text in "[0-9.hmsu -]{0,30}|\\PC{0,10}") {
            let _ = read_time(&text);
        }
    }
}
