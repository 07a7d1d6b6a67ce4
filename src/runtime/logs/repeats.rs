//! Which lines are repeats, and when their count is told. Pure.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

/// Lines remembered. When there are more that differ, the rest is written as it comes: better a flood
/// than a line that is lost.
const LIMIT: usize = 1000;
/// Bytes kept of a line for its summary.
const KEPT: usize = 500;

/// What a line says, its numbers aside, as a hash: where it is written, in which span, with which
/// values.
pub(super) type Key = u64;

/// Lines that were held back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) level: Level,
    /// The first of them, which was written.
    pub(super) line: String,
    pub(super) times: u64,
    /// The time over which they came.
    pub(super) within: Duration,
}

#[derive(Debug)]
pub(super) struct Repeats {
    /// How long a line is held back after the same was written; zero for never.
    interval: Duration,
    known: HashMap<Key, Known>,
    /// Of times that are over.
    ended: Vec<Summary>,
}

#[derive(Debug)]
struct Known {
    level: Level,
    line: String,
    since: Instant,
    held: u64,
}

impl Known {
    fn summary(self, now: Instant, interval: Duration) -> Option<Summary> {
        (self.held > 0).then(|| Summary {
            level: self.level,
            line: self.line,
            times: self.held,
            within: now.saturating_duration_since(self.since).min(interval),
        })
    }
}

impl Repeats {
    /// Holds lines back for `interval` after the same was written; none for zero.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            known: HashMap::new(),
            ended: Vec::new(),
        }
    }

    /// Whether anything is ever held back.
    pub(super) fn holds(&self) -> bool {
        !self.interval.is_zero()
    }

    /// A line comes. Whether it is to be written.
    pub(super) fn admit(&mut self, now: Instant, key: Key, level: Level, line: &str) -> bool {
        if let Some(known) = self.known.get_mut(&key) {
            if now.saturating_duration_since(known.since) < self.interval {
                known.held += 1;
                return false;
            }
            let over = self.known.remove(&key);
            self.end(now, over);
        }
        if self.known.len() >= LIMIT {
            let interval = self.interval;
            let old = |known: &mut Known| now.saturating_duration_since(known.since) >= interval;
            let over: Vec<_> = self.known.extract_if(|_, known| old(known)).collect();
            over.into_iter()
                .for_each(|(_, known)| self.end(now, Some(known)));
        }
        if self.known.len() < LIMIT {
            let known = Known {
                level,
                line: line[..line.floor_char_boundary(KEPT)].to_owned(),
                since: now,
                held: 0,
            };
            self.known.insert(key, known);
        }
        true
    }

    fn end(&mut self, now: Instant, known: Option<Known>) {
        // Where nobody takes them, as without a runtime, they must not pile up.
        if self.ended.len() < LIMIT {
            let interval = self.interval;
            self.ended
                .extend(known.and_then(|known| known.summary(now, interval)));
        }
    }

    /// The counts whose time is over.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Summary> {
        let interval = self.interval;
        self.take(now, |known| {
            now.saturating_duration_since(known.since) >= interval
        })
    }

    /// All counts.
    pub(super) fn take_all(&mut self, now: Instant) -> Vec<Summary> {
        self.take(now, |_| true)
    }

    fn take(&mut self, now: Instant, over: impl Fn(&Known) -> bool) -> Vec<Summary> {
        let mut known: Vec<_> = self.known.extract_if(|_, known| over(known)).collect();
        // In the order of their first lines.
        known.sort_by_key(|(key, known)| (known.since, *key));
        let mut summaries = std::mem::take(&mut self.ended);
        let ended = known.into_iter();
        summaries.extend(ended.filter_map(|(_, known)| known.summary(now, self.interval)));
        summaries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn second(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn a_repeat_is_held_back_for_a_minute_and_then_counted() {
        let (mut repeats, start) = (Repeats::new(MINUTE), Instant::now());
        let at = |repeats: &mut Repeats, seconds, key| {
            repeats.admit(second(start, seconds), key, Level::WARN, "fails")
        };
        assert!(at(&mut repeats, 0, 1));
        assert!((1..=57).all(|seconds| !at(&mut repeats, seconds, 1)));
        assert!(at(&mut repeats, 3, 2), "another line");
        assert_eq!(repeats.take_due(second(start, 59)), []);
        let summary = Summary {
            level: Level::WARN,
            line: "fails".to_owned(),
            times: 57,
            within: MINUTE,
        };
        assert_eq!(repeats.take_due(second(start, 60)), [summary]);
        assert!(at(&mut repeats, 61, 1), "then it is written again");
        assert_eq!(repeats.take_all(second(start, 62)), [], "nothing was held");
        assert!(repeats.known.is_empty());
    }

    #[test]
    fn a_line_that_comes_after_its_time_and_before_the_summary_loses_no_count() {
        let (mut repeats, start) = (Repeats::new(MINUTE), Instant::now());
        for (seconds, written) in [(0, true), (1, false), (60, true), (61, false)] {
            let admitted = repeats.admit(second(start, seconds), 1, Level::ERROR, "x");
            assert_eq!(admitted, written, "{seconds}");
        }
        let times = |summaries: Vec<Summary>| -> Vec<u64> {
            summaries.iter().map(|summary| summary.times).collect()
        };
        assert_eq!(times(repeats.take_due(second(start, 62))), [1]);
        assert_eq!(times(repeats.take_all(second(start, 62))), [1]);
    }

    #[test]
    fn memory_is_bounded_and_no_line_is_lost_for_it() {
        let (mut repeats, start) = (Repeats::new(MINUTE), Instant::now());
        let long = "ü".repeat(KEPT);
        for key in 0..3 * LIMIT as u64 {
            assert!(repeats.admit(start, key, Level::WARN, &long));
        }
        assert_eq!(repeats.known.len(), LIMIT);
        assert!(repeats.known.values().all(|known| known.line.len() <= KEPT));
        assert!(
            !repeats.admit(start, 0, Level::WARN, &long),
            "those that are known"
        );
        let later = start + MINUTE;
        assert!(repeats.admit(later, u64::MAX, Level::WARN, "new"));
        assert_eq!(repeats.known.len(), 1, "what is over makes room");
        assert_eq!(repeats.take_due(later).len(), 1);
    }

    #[test]
    fn counts_that_nobody_takes_do_not_pile_up() {
        let (mut repeats, start) = (Repeats::new(MINUTE), Instant::now());
        for minute in 0..3 * LIMIT as u64 {
            repeats.admit(second(start, 60 * minute), 1, Level::WARN, "x");
            repeats.admit(second(start, 60 * minute), 1, Level::WARN, "x");
        }
        assert_eq!(repeats.ended.len(), LIMIT);
    }
}
