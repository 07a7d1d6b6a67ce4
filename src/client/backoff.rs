//! Exponential backoff with jitter. The policy is the `backoff` crate's (unmaintained), which only
//! this file knows.

use std::time::Duration;

use backoff::backoff::Backoff as _;

/// The delays before one retry after the other: doubling, each with jitter of ± one half.
#[derive(Debug)]
pub struct Backoff(backoff::ExponentialBackoff);

impl Backoff {
    /// Delays around `initial`, twice that, and so on up to around `max`; without end.
    #[must_use]
    pub fn new(initial: Duration, max: Duration) -> Self {
        Self::with_jitter(initial, max, 0.5)
    }

    /// Exactly `initial`, twice that, and so on up to `max`: for a caller with a jitter of its own.
    #[must_use]
    pub fn exact(initial: Duration, max: Duration) -> Self {
        Self::with_jitter(initial, max, 0.0)
    }

    fn with_jitter(initial: Duration, max: Duration, factor: f64) -> Self {
        let mut policy = backoff::ExponentialBackoff {
            initial_interval: initial,
            randomization_factor: factor,
            multiplier: 2.0,
            max_interval: max,
            max_elapsed_time: None,
            ..backoff::ExponentialBackoff::default()
        };
        policy.reset();
        Self(policy)
    }

    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        let max = self.0.max_interval;
        // `None` comes only with a maximum elapsed time, which is not set.
        let delay = self.0.next_backoff().unwrap_or(max);
        // Without jitter the crate adds up to a nanosecond.
        if self.0.randomization_factor == 0.0 {
            delay.min(max)
        } else {
            delay
        }
    }

    /// Starts again from the first delay.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

/// `delay` and up to a fifth more, so that many who were told the same time do not come at once.
#[must_use]
pub fn stretched(delay: Duration) -> Duration {
    let mut policy = Backoff(backoff::ExponentialBackoff {
        current_interval: delay.mul_f64(1.1),
        randomization_factor: 1.0 / 11.0,
        max_elapsed_time: None,
        ..backoff::ExponentialBackoff::default()
    });
    policy.next_delay().max(delay)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_with_jitter_up_to_the_maximum() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 8 * second);
        for expected in [1, 2, 4, 8, 8] {
            let (delay, around) = (backoff.next_delay(), expected * second);
            assert!(
                delay >= around / 2 && delay <= around * 3 / 2,
                "{delay:?} around {around:?}"
            );
        }
        backoff.reset();
        assert!(backoff.next_delay() <= second * 3 / 2);
    }

    #[test]
    fn a_stretched_delay_is_never_shorter() {
        let delay = Duration::from_secs(10);
        for _ in 0..100 {
            let stretched = stretched(delay);
            assert!(
                stretched >= delay && stretched <= delay * 13 / 10,
                "{stretched:?}"
            );
        }
        assert_eq!(stretched(Duration::ZERO), Duration::ZERO);
    }
}
