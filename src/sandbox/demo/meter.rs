//! A rate, of a counter that only rises.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// The rate is over this.
const OVER: Duration = Duration::from_secs(2);

/// Readings of a counter.
#[derive(Debug, Default)]
pub(super) struct Meter(VecDeque<(Instant, u64)>);

impl Meter {
    /// Notes a reading; the counter's rise a second, of late.
    pub(super) fn read(&mut self, now: Instant, count: u64) -> f64 {
        self.0.push_back((now, count));
        // The first that is kept is the newest one that is old enough.
        while self
            .0
            .get(1)
            .is_some_and(|(at, _)| now.duration_since(*at) >= OVER)
        {
            self.0.pop_front();
        }
        match self.0.front() {
            Some((at, before)) if *at < now => {
                count.saturating_sub(*before) as f64 / now.duration_since(*at).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_of_the_last_two_seconds() {
        let start = Instant::now();
        let mut meter = Meter::default();
        let tick = Duration::from_millis(100);
        assert!(meter.read(start, 1000).abs() < 0.01);
        let mut rate = 0.0;
        for n in 1..=50 {
            rate = meter.read(start + n * tick, 1000 + u64::from(n));
        }
        assert!((rate - 10.0).abs() < 0.01, "{rate}");
        for n in 51..=80 {
            rate = meter.read(start + n * tick, 1050);
        }
        assert!(rate.abs() < 0.01, "{rate}");
        assert!(meter.0.len() < 25);
    }
}
