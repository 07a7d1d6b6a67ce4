//! Sets of global transaction identifiers, tags included.
//!
//! The server decides what is promoted (`GTID_SUBSET`); this is for comparing what several
//! servers said, where no one server can be asked.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt,
    str::FromStr,
};

/// Transaction numbers are below this: MySQL's `GNO_END`.
const NUMBER_END: u64 = i64::MAX as u64;
/// Longest tag, from MySQL's manual ("Format of Global Transaction Identifiers").
const TAG_MAX: usize = 32;

/// A GTID set `uuid[:tag]:first-last[:first-last…][,…]`.
///
/// Canonical: lower case, sorted, merged, without empty parts; so equal sets are equal values and
/// print the same text. Parses what the server prints (line breaks, tags) and prints what the
/// server parses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct GtidSet {
    /// No entry is empty.
    sources: BTreeMap<Source, Intervals>,
}

/// Who numbers the transactions: a server's UUID and a tag, empty for none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Source {
    uuid: String,
    tag: String,
}

/// Inclusive ranges: sorted, with a gap between any two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Intervals(Vec<(u64, u64)>);

/// The text is not a GTID set. Never to be taken for an empty set.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("not a GTID set: {0:?}")]
pub struct InvalidGtidSet(pub String);

impl GtidSet {
    /// Whether there is no transaction in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether every transaction in it is in `other` too. An empty set is a subset of any.
    #[must_use]
    pub fn is_subset_of(&self, other: &Self) -> bool {
        self.sources.iter().all(|(source, intervals)| {
            other
                .sources
                .get(source)
                .is_some_and(|theirs| intervals.is_subset_of(theirs))
        })
    }

    /// What is in either.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut sources = self.sources.clone();
        for (source, intervals) in &other.sources {
            match sources.entry(source.clone()) {
                Entry::Occupied(mut ours) => ours.get_mut().add(&intervals.0),
                Entry::Vacant(none) => {
                    none.insert(intervals.clone());
                }
            }
        }
        Self { sources }
    }

    /// What is in this one and not in `other`.
    #[must_use]
    pub fn subtract(&self, other: &Self) -> Self {
        let left = self.sources.iter().filter_map(|(source, intervals)| {
            let left = match other.sources.get(source) {
                Some(theirs) => intervals.subtract(theirs),
                None => intervals.clone(),
            };
            (!left.0.is_empty()).then(|| (source.clone(), left))
        });
        Self {
            sources: left.collect(),
        }
    }

    /// Number of transactions. Saturates.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.sources
            .values()
            .flat_map(|intervals| &intervals.0)
            .fold(0, |sum: u64, (first, last)| {
                sum.saturating_add(last - first + 1)
            })
    }

    /// Whether the transaction `number` of `uuid`, without a tag, is in it.
    #[must_use]
    pub fn contains(&self, uuid: &str, number: u64) -> bool {
        self.sources
            .get(&Source::untagged(uuid))
            .is_some_and(|intervals| intervals.is_superset_of_one(number))
    }

    /// Adds the transaction `number` of `uuid`, without a tag.
    pub fn insert(&mut self, uuid: &str, number: u64) {
        self.sources
            .entry(Source::untagged(uuid))
            .or_default()
            .insert(number);
    }

    /// The lowest number of `uuid`, without a tag, that is not in it: what the server with that UUID
    /// gives its next transaction.
    #[must_use]
    pub fn next(&self, uuid: &str) -> u64 {
        let first = self
            .sources
            .get(&Source::untagged(uuid))
            .and_then(|intervals| intervals.0.first());
        match first {
            Some((1, last)) => last + 1,
            _ => 1,
        }
    }

    /// The part whose source is `uuid` (any tag).
    #[must_use]
    pub fn of(&self, uuid: &str) -> Self {
        let theirs = self
            .sources
            .iter()
            .filter(|(source, _)| source.uuid.eq_ignore_ascii_case(uuid));
        Self {
            sources: theirs
                .map(|(source, intervals)| (source.clone(), intervals.clone()))
                .collect(),
        }
    }
}

impl Source {
    fn untagged(uuid: &str) -> Self {
        Self {
            uuid: uuid.to_ascii_lowercase(),
            tag: String::new(),
        }
    }
}

impl Intervals {
    fn is_superset_of_one(&self, number: u64) -> bool {
        let after = self.0.partition_point(|range| range.0 <= number);
        after > 0 && self.0[after - 1].1 >= number
    }

    fn insert(&mut self, number: u64) {
        match self.0.last_mut() {
            // What comes next, as nearly always.
            Some((_, last)) if number == *last + 1 => *last = number,
            _ => self.add(&[(number, number)]),
        }
    }

    /// Adds ranges in any order, overlapping or not.
    fn add(&mut self, more: &[(u64, u64)]) {
        self.0.extend_from_slice(more);
        self.0.sort_unstable();
        self.0.dedup_by(|next, kept| {
            let joins = next.0 <= kept.1 + 1;
            if joins {
                kept.1 = kept.1.max(next.1);
            }
            joins
        });
    }

    fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().all(|&(first, last)| {
            // The only candidate is the last range that begins at or before `first`.
            let after = other.0.partition_point(|theirs| theirs.0 <= first);
            after > 0 && other.0[after - 1].1 >= last
        })
    }

    fn subtract(&self, other: &Self) -> Self {
        let mut left = Vec::new();
        let mut theirs = other.0.iter().peekable();
        for &(mut first, last) in &self.0 {
            while theirs.next_if(|cut| cut.1 < first).is_some() {}
            let mut rest = theirs.clone();
            while let Some(&&(cut_first, cut_last)) = rest.peek() {
                if cut_first > last || first > last {
                    break;
                }
                if cut_first > first {
                    left.push((first, cut_first - 1));
                }
                first = cut_last + 1;
                rest.next();
            }
            if first <= last {
                left.push((first, last));
            }
        }
        Self(left)
    }
}

impl FromStr for GtidSet {
    type Err = InvalidGtidSet;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut sources: BTreeMap<Source, Intervals> = BTreeMap::new();
        // The server's own text has ",\n" between servers; its parser takes empty items too.
        for item in text
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
        {
            let invalid = || InvalidGtidSet(item.to_owned());
            let mut parts = item.split(':').map(str::trim);
            let uuid = parts
                .next()
                .filter(|uuid| is_uuid(uuid))
                .ok_or_else(invalid)?;
            let mut source = Source {
                uuid: uuid.to_ascii_lowercase(),
                tag: String::new(),
            };
            let mut pending = true;
            for part in parts {
                if let Some(range) = parse_range(part) {
                    sources.entry(source.clone()).or_default().add(&[range]);
                    pending = false;
                } else if is_tag(part) && (!pending || source.tag.is_empty()) {
                    source.tag = part.to_ascii_lowercase();
                    pending = true;
                } else {
                    return Err(invalid());
                }
            }
            if pending {
                return Err(invalid());
            }
        }
        Ok(Self { sources })
    }
}

impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut previous = None;
        for (source, intervals) in &self.sources {
            if previous != Some(&source.uuid) {
                let comma = if previous.is_some() { "," } else { "" };
                write!(f, "{comma}{}", source.uuid)?;
                previous = Some(&source.uuid);
            }
            if !source.tag.is_empty() {
                write!(f, ":{}", source.tag)?;
            }
            for (first, last) in &intervals.0 {
                if first == last {
                    write!(f, ":{first}")?;
                } else {
                    write!(f, ":{first}-{last}")?;
                }
            }
        }
        Ok(())
    }
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn is_tag(text: &str) -> bool {
    text.len() <= TAG_MAX
        && text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn parse_range(text: &str) -> Option<(u64, u64)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits
            .then(|| text.parse::<u64>().ok())
            .flatten()
            .filter(|n| (1..NUMBER_END).contains(n))
    };
    let (first, last) = match text.split_once('-') {
        Some((first, last)) => (number(first.trim())?, number(last.trim())?),
        None => (number(text)?, number(text)?),
    };
    (first <= last).then_some((first, last))
}

#[cfg(test)]
#[path = "gtid_tests.rs"]
mod tests;
