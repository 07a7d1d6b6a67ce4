//! The file of `--config`: a YAML mapping of options to values.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Unexpected, Visitor};
use serde_yaml::Value;

use super::source::Problem;
use super::table;

/// No file of options is larger, and what is may be none at all. A ConfigMap may be as large.
const SIZE_LIMIT: u64 = 1 << 20;
/// Keys whose lines are looked up: each costs a pass over the file.
const PLACED: usize = 200;

/// One key of the file, options or not, in the file's order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    pub(super) key: String,
    pub(super) line: Option<usize>,
    pub(super) value: Value,
}

/// Reads the file. Its keys may be there twice, or be no options.
///
/// # Errors
/// When it can't be read, or is no mapping.
pub(super) fn read(path: &Path) -> Result<Vec<Item>, Problem> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SIZE_LIMIT + 1).read_to_end(&mut bytes));
    let problem = |what| Problem::of_file(path, what);
    read.map_err(|error| {
        problem(format!(
            "can't be read: {error}; check the path and its permissions"
        ))
    })?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(problem(
            "is larger than 1 MiB; it must be a file of options".to_owned(),
        ));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        problem(format!("is not UTF-8 text (byte {at})"))
    })?;
    parse(&text).map_err(problem)
}

fn parse(text: &str) -> Result<Vec<Item>, String> {
    let pairs = Pairs { stop: None }.deserialize(serde_yaml::Deserializer::from_str(text));
    let pairs = pairs.map_err(|error| format!("is malformed: {error}"))?;
    let place = |(number, (key, value))| {
        let key = match key {
            Value::String(key) => key,
            other => show(&other),
        };
        let line = if number < PLACED {
            line(text, number)
        } else {
            None
        };
        Item { key, line, value }
    };
    Ok(pairs.into_iter().enumerate().map(place).collect())
}

fn show(value: &Value) -> String {
    let text = serde_yaml::to_string(value).unwrap_or_default();
    text.trim_end().to_owned()
}

/// The line of the key of this number. The parser says where it is only in an error, so it is given one
/// there.
fn line(text: &str, number: usize) -> Option<usize> {
    let stopped = Pairs { stop: Some(number) };
    let error = stopped
        .deserialize(serde_yaml::Deserializer::from_str(text))
        .err()?;
    error.location().map(|location| location.line())
}

/// What is wrong with a key that is no option.
pub(super) fn unknown(key: &str) -> String {
    let plain = |text: &str| text.replace(['-', '_'], "").to_ascii_lowercase();
    let nearest = table::entries()
        .map(|entry| (distance(&plain(&entry.key()), &plain(key)), entry.key()))
        .min();
    match nearest {
        Some((far, nearest)) if far <= 1 + key.len() / 4 => {
            format!("is no option; did you mean {nearest}?")
        }
        _ => "is no option; `mainstay run --print-config` lists all".to_owned(),
    }
}

/// How many letters must be put in, taken out or replaced to come from one word to the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(100).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// The pairs of a mapping in their order, doubles included; fails at the key of a number, if one is
/// given.
struct Pairs {
    stop: Option<usize>,
}

impl<'de> DeserializeSeed<'de> for Pairs {
    type Value = Vec<(Value, Value)>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pairs {
    type Value = Vec<(Value, Value)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping of options to values, such as `workers: 8`")
    }

    /// An empty file, or one of comments.
    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut pairs = Vec::new();
        loop {
            if self.stop == Some(pairs.len()) {
                map.next_key_seed(Fail)?;
            }
            match map.next_entry()? {
                Some(pair) => pairs.push(pair),
                None => return Ok(pairs),
            }
        }
    }
}

/// Takes nothing, so that the error says where it is.
struct Fail;

impl<'de> DeserializeSeed<'de> for Fail {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(Self)
    }
}

impl Visitor<'_> for Fail {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<(), E> {
        Err(E::invalid_type(Unexpected::Str(key), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<(String, Option<usize>)> {
        let items = parse(text).unwrap().into_iter();
        items.map(|item| (item.key, item.line)).collect()
    }

    #[test]
    fn each_key_has_its_line_in_block_in_flow_and_in_json() {
        let expected = [("workers", 2), ("qps", 4)].map(|(key, line)| (key.to_owned(), Some(line)));
        assert_eq!(keys("# first\nworkers: 8\n\nqps: 5 # each\n"), expected);
        assert_eq!(keys("{\n\"workers\": 8,\n\n\"qps\": 5}"), expected);
        assert_eq!(
            keys("---\nworkers: 8\nnamespace:\n- a\n- b\nqps: 5").last(),
            Some(&("qps".to_owned(), Some(6)))
        );
        assert_eq!(
            keys("a: 1\na: 2").len(),
            2,
            "twice is for the caller to refuse"
        );
    }

    #[test]
    fn nothing_is_fine_and_what_is_no_mapping_is_not() {
        for empty in ["", "# only words\n", "---\n", "{}"] {
            assert_eq!(parse(empty), Ok(Vec::new()), "{empty:?}");
        }
        for (text, said) in [
            ("- workers", "a mapping of options"),
            ("workers", "a mapping of options"),
            ("a: [", "line"),
            ("a: 1\n---\nb: 1", "more than one document"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(said), "{text:?}: {why}");
        }
        assert_eq!(keys("8: 1")[0].0, "8");
    }

    #[test]
    fn an_unknown_key_is_told_with_the_nearest_option() {
        for (key, nearest) in [
            ("leaseDurations", "leaseDuration"),
            ("lease-duration", "leaseDuration"),
            ("LEASE_DURATION", "leaseDuration"),
            ("wokers", "workers"),
        ] {
            let said = unknown(key);
            assert_eq!(said, format!("is no option; did you mean {nearest}?"));
        }
        assert!(unknown("metadata").contains("--print-config"));
        assert!(unknown("").contains("is no option"));
    }
}
