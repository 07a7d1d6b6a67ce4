//! A set of row numbers, kept as ranges: millions of rows without a gap are one entry.

use std::collections::BTreeMap;
use std::fmt;

/// Row numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows {
    /// First of each range to its last. Ranges neither overlap nor touch.
    ranges: BTreeMap<u64, u64>,
}

impl Rows {
    /// Adds a row; twice is once.
    pub(crate) fn insert(&mut self, row: u64) {
        let (mut first, mut last) = (row, row);
        if let Some((&before, &end)) = self.ranges.range(..=row).next_back() {
            if end >= row {
                return;
            }
            if end + 1 == row {
                first = before;
            }
        }
        if let Some(&end) = row.checked_add(1).and_then(|next| self.ranges.get(&next)) {
            self.ranges.remove(&(row + 1));
            last = end;
        }
        self.ranges.insert(first, last);
    }

    /// How many.
    #[must_use]
    pub(crate) fn len(&self) -> u64 {
        self.ranges
            .iter()
            .map(|(first, last)| last - first + 1)
            .sum()
    }

    /// Whether there is none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether it has this row.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn contains(&self, row: u64) -> bool {
        let before = self.ranges.range(..=row).next_back();
        before.is_some_and(|(_, last)| *last >= row)
    }

    /// Those that `other` has not.
    #[must_use]
    pub(crate) fn missing_from(&self, other: &Self) -> Self {
        let mut missing = Self::default();
        for (&first, &last) in &self.ranges {
            let mut at = first;
            // The range of `other` that holds `first`, and those that begin within.
            let holds = other.ranges.range(..=first).next_back();
            let begin = holds.map_or(first, |(begin, _)| *begin);
            for (&begin, &end) in other.ranges.range(begin..=last) {
                if begin > at {
                    missing.ranges.insert(at, begin - 1);
                }
                at = at.max(end.saturating_add(1));
            }
            if at <= last {
                missing.ranges.insert(at, last);
            }
        }
        missing
    }
}

impl FromIterator<u64> for Rows {
    fn from_iter<I: IntoIterator<Item = u64>>(rows: I) -> Self {
        let mut set = Self::default();
        rows.into_iter().for_each(|row| set.insert(row));
        set
    }
}

/// `1-3, 7`, at most the first five ranges.
impl fmt::Display for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.ranges.iter().enumerate() {
            match (index, first == last) {
                (5, _) => return f.write_str(", …"),
                (0, true) => write!(f, "{first}")?,
                (0, false) => write!(f, "{first}-{last}")?,
                (_, true) => write!(f, ", {first}")?,
                (_, false) => write!(f, ", {first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_become_one_range() {
        let rows: Rows = [2, 4, 3, 3, 9, u64::MAX].into_iter().collect();
        assert_eq!(rows.to_string(), format!("2-4, 9, {}", u64::MAX));
        assert_eq!(
            (rows.len(), rows.contains(3), rows.contains(5)),
            (5, true, false)
        );
        let many: Rows = (0..7).map(|n| n * 2).collect();
        assert_eq!(many.to_string(), "0, 2, 4, 6, 8, …");
    }

    proptest! {
        #[test]
        fn it_is_a_set(
            left in prop::collection::vec(0u64..60, 0..50),
            right in prop::collection::vec(0u64..60, 0..50),
        ) {
            let (a, b): (Rows, Rows) =
                (left.iter().copied().collect(), right.iter().copied().collect());
            let (x, y): (BTreeSet<u64>, BTreeSet<u64>) =
                (left.into_iter().collect(), right.into_iter().collect());
            prop_assert_eq!(a.len(), x.len() as u64);
            prop_assert_eq!(a.is_empty(), x.is_empty());
            prop_assert_eq!(a.missing_from(&b), x.difference(&y).copied().collect());
            prop_assert!((0..60).all(|row| a.contains(row) == x.contains(&row)));
        }
    }
}
