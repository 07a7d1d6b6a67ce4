//! How long things take, and the dice that say so.

use std::{ops::RangeInclusive, time::Duration};

/// How long things take on modelled servers. Ranges are drawn from anew each time.
#[derive(Clone, Debug)]
pub struct Pace {
    /// One way between two hosts.
    pub network: RangeInclusive<Duration>,
    /// A statement to the local server, there and back.
    pub statement: RangeInclusive<Duration>,
    /// Making a commit durable.
    pub sync: RangeInclusive<Duration>,
    /// Applying one transaction.
    pub apply: RangeInclusive<Duration>,
    /// Creating a data directory.
    pub initialise: RangeInclusive<Duration>,
    /// From mysqld's start until it answers.
    pub start: RangeInclusive<Duration>,
    /// How much longer that takes after a crash.
    pub recover: RangeInclusive<Duration>,
    /// From SIGTERM to mysqld's end where no commit waits.
    pub shut_down: RangeInclusive<Duration>,
    /// From SIGTERM until commits that wait for an acknowledgement are answered or dropped.
    pub give_up: RangeInclusive<Duration>,
    /// From the order to clone until the recipient's own data is dropped, and again from then until
    /// the clone is complete.
    pub clone: RangeInclusive<Duration>,
    /// Switching the semi-sync source off: its receiver of acknowledgements looks once a second.
    pub source_off: RangeInclusive<Duration>,
}

const fn ms(from: u64, to: u64) -> RangeInclusive<Duration> {
    Duration::from_millis(from)..=Duration::from_millis(to)
}

impl Default for Pace {
    /// About what mysqld 9.7 takes on a small machine with empty tables.
    fn default() -> Self {
        Self {
            network: Duration::from_micros(100)..=Duration::from_millis(2),
            statement: Duration::from_micros(50)..=Duration::from_micros(500),
            sync: Duration::from_micros(200)..=Duration::from_millis(3),
            apply: Duration::from_micros(100)..=Duration::from_millis(1),
            initialise: ms(2000, 5000),
            start: ms(500, 1500),
            recover: ms(200, 1500),
            shut_down: ms(300, 1500),
            give_up: ms(2000, 5000),
            clone: ms(300, 2000),
            source_off: ms(0, 1000),
        }
    }
}

/// Numbers from a seed (SplitMix64): the same ones in the same order.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A duration of the range.
    pub(super) fn within(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let span = range.end().saturating_sub(*range.start());
        let nanoseconds = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        *range.start() + Duration::from_nanos(self.roll() % nanoseconds.saturating_add(1).max(1))
    }

    /// One of two, as likely.
    pub(super) fn coin(&mut self) -> bool {
        self.roll() & 1 == 1
    }

    /// A UUID, version 4 by its looks.
    pub(super) fn uuid(&mut self) -> String {
        let (high, low) = (self.roll(), self.roll());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xfff,
            (low >> 48) & 0xfff,
            low & 0xffff_ffff_ffff
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_stay_in_their_range_and_repeat_with_the_seed() {
        let roll = |seed| {
            let mut dice = Dice::new(seed);
            let roll = |_| dice.within(&ms(5, 9));
            (0..100).map(roll).collect::<Vec<_>>()
        };
        assert!(roll(1).iter().all(|duration| ms(5, 9).contains(duration)));
        assert_eq!(roll(1), roll(1));
        assert_ne!(roll(1), roll(2));
        assert_eq!(Dice::new(3).within(&ms(4, 4)), Duration::from_millis(4));
    }

    #[test]
    fn uuids_are_uuids() {
        let set: crate::mysql::GtidSet = format!("{}:1", Dice::new(1).uuid()).parse().unwrap();
        assert_eq!(set.count(), 1);
    }
}
