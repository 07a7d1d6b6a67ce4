//! What was acknowledged to a writer, and for how long nothing was.
//!
//! A row's number is used once. One that was not acknowledged may be in the table or not; one that
//! was must be there for good.

mod rows;

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

pub(crate) use rows::Rows;

/// The rate is counted over this.
const RATE_OVER: Duration = Duration::from_secs(2);

/// A time in which no row was acknowledged although rows were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pause {
    /// When the last row before was acknowledged.
    pub(crate) from: Instant,
    /// Until the first after, or until now.
    pub(crate) length: Duration,
}

/// The ledger of one writer. Pure: whoever calls it says what time it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger {
    acknowledged: Rows,
    next: u64,
    /// Whether rows are being written.
    writing: bool,
    /// When the last row was acknowledged, or writing began; `None` while nothing is written.
    last: Option<Instant>,
    /// The longest pause since [`mark`](Self::mark), those under way at that moment included.
    since_mark: Option<Pause>,
    longest: Option<Pause>,
    /// When the latest rows were acknowledged.
    recent: VecDeque<Instant>,
}

impl Ledger {
    /// Writing begins. Until the first row is acknowledged is a pause, too.
    pub(crate) fn begin(&mut self, now: Instant) {
        if !self.writing {
            self.writing = true;
            self.last = Some(now);
        }
    }

    /// Writing ends; a pause that is under way ends with it.
    pub(crate) fn end(&mut self, now: Instant) {
        self.note_pause(now);
        self.writing = false;
        self.last = None;
        self.recent.clear();
    }

    /// Whether rows are being written.
    #[must_use]
    pub(crate) fn is_writing(&self) -> bool {
        self.writing
    }

    /// The number of the next row, which was never given out before.
    pub(crate) fn next_row(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The server has acknowledged a row.
    pub(crate) fn acknowledge(&mut self, row: u64, now: Instant) {
        self.acknowledged.insert(row);
        if !self.writing {
            return; // it was on its way when the writer was told to end
        }
        self.note_pause(now);
        self.last = Some(now);
        self.recent.push_back(now);
        self.forget_old(now);
    }

    /// The rows that must be in the table.
    #[must_use]
    pub(crate) fn acknowledged(&self) -> &Rows {
        &self.acknowledged
    }

    /// From now on [`since_mark`](Self::since_mark) is counted anew.
    pub(crate) fn mark(&mut self) {
        self.since_mark = None;
    }

    /// The longest pause that ended after the last [`mark`](Self::mark), or is under way.
    #[must_use]
    pub(crate) fn since_mark(&self, now: Instant) -> Option<Pause> {
        longer(self.since_mark, self.pause(now))
    }

    /// The longest pause of all.
    #[must_use]
    pub(crate) fn longest(&self, now: Instant) -> Option<Pause> {
        longer(self.longest, self.pause(now))
    }

    /// The time since the last acknowledged row; `None` while nothing is written.
    #[must_use]
    pub(crate) fn pause(&self, now: Instant) -> Option<Pause> {
        self.last.map(|from| Pause {
            from,
            length: now.duration_since(from),
        })
    }

    /// Rows acknowledged a second, of late.
    #[must_use]
    pub(crate) fn rate(&self, now: Instant) -> f64 {
        let count = self
            .recent
            .iter()
            .filter(|at| now.duration_since(**at) <= RATE_OVER)
            .count();
        count as f64 / RATE_OVER.as_secs_f64()
    }

    fn note_pause(&mut self, now: Instant) {
        let pause = self.pause(now);
        self.since_mark = longer(self.since_mark, pause);
        self.longest = longer(self.longest, pause);
    }

    fn forget_old(&mut self, now: Instant) {
        while self
            .recent
            .front()
            .is_some_and(|at| now.duration_since(*at) > RATE_OVER)
        {
            self.recent.pop_front();
        }
    }
}

fn longer(one: Option<Pause>, other: Option<Pause>) -> Option<Pause> {
    match (one, other) {
        (Some(one), Some(other)) if other.length > one.length => Some(other),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn acknowledge(ledger: &mut Ledger, now: Instant) {
        let row = ledger.next_row();
        ledger.acknowledge(row, now);
    }

    #[test]
    fn a_pause_is_from_the_last_acknowledged_row_to_the_first_after() {
        let start = Instant::now();
        let mut ledger = Ledger::default();
        ledger.begin(start);
        acknowledge(&mut ledger, start + 10 * MS);
        ledger.mark();
        let refused = ledger.next_row();
        assert_eq!(ledger.since_mark(start + 60 * MS).unwrap().length, 50 * MS);
        acknowledge(&mut ledger, start + 510 * MS);
        acknowledge(&mut ledger, start + 520 * MS);
        let pause = Pause {
            from: start + 10 * MS,
            length: 500 * MS,
        };
        assert_eq!(ledger.since_mark(start + 520 * MS), Some(pause));
        assert_eq!(ledger.longest(start + 520 * MS), Some(pause));
        assert!(!ledger.acknowledged().contains(refused));
        assert_eq!(ledger.acknowledged().to_string(), "1, 3-4");
        ledger.mark();
        assert_eq!(ledger.since_mark(start + 525 * MS).unwrap().length, 5 * MS);
    }

    #[test]
    fn no_time_is_a_pause_in_which_nothing_was_written() {
        let start = Instant::now();
        let mut ledger = Ledger::default();
        assert_eq!(ledger.longest(start), None);
        ledger.begin(start);
        acknowledge(&mut ledger, start + MS);
        ledger.end(start + 3 * MS);
        // An answer that comes late counts as a row.
        acknowledge(&mut ledger, start + 9 * MS);
        assert_eq!(ledger.pause(start + 99 * MS), None);
        ledger.begin(start + 100 * MS);
        acknowledge(&mut ledger, start + 101 * MS);
        assert_eq!(ledger.longest(start + 101 * MS).unwrap().length, 2 * MS);
        assert_eq!(ledger.acknowledged().len(), 3);
    }

    #[test]
    fn the_rate_is_of_the_last_two_seconds() {
        let start = Instant::now();
        let mut ledger = Ledger::default();
        ledger.begin(start);
        for n in 0..40 {
            acknowledge(&mut ledger, start + 100 * n * MS);
        }
        assert!((ledger.rate(start + 3900 * MS) - 10.0).abs() < 0.6);
        assert!(ledger.rate(start + 6000 * MS) < 0.1);
        assert!(ledger.recent.len() < 25);
    }
}
