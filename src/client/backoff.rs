//! Exponential backoff with jitter. The policy is the `backoff` crate's (unmaintained), which only
//! this file knows; its own jitter is not used, since no seed decides it.

use std::time::Duration;

use backoff::backoff::Backoff as _;

use super::Jitter;

/// The delays before one retry after the other: doubling, each with jitter of ± one half.
#[derive(Debug)]
pub struct Backoff {
    policy: backoff::ExponentialBackoff,
    jitter: Option<Jitter>,
}

impl Backoff {
    /// Delays around `initial`, twice that, and so on up to around `max`; without end.
    #[must_use]
    pub fn new(initial: Duration, max: Duration, jitter: Jitter) -> Self {
        Self {
            jitter: Some(jitter),
            ..Self::exact(initial, max)
        }
    }

    /// Exactly `initial`, twice that, and so on up to `max`: for a caller with a jitter of its own.
    #[must_use]
    pub fn exact(initial: Duration, max: Duration) -> Self {
        let mut policy = backoff::ExponentialBackoff {
            initial_interval: initial,
            randomization_factor: 0.0,
            multiplier: 2.0,
            max_interval: max,
            max_elapsed_time: None,
            ..backoff::ExponentialBackoff::default()
        };
        policy.reset();
        Self {
            policy,
            jitter: None,
        }
    }

    /// The next delay.
    pub fn next_delay(&mut self) -> Duration {
        let max = self.policy.max_interval;
        // `None` comes only with a maximum elapsed time, which is not set; and the crate adds up to a
        // nanosecond.
        let delay = self.policy.next_backoff().unwrap_or(max).min(max);
        match &mut self.jitter {
            Some(jitter) => jitter.around(delay, 0.5),
            None => delay,
        }
    }

    /// [`Jitter::stretched`], with this backoff's chance.
    pub(super) fn stretched(&mut self, delay: Duration) -> Duration {
        match &mut self.jitter {
            Some(jitter) => jitter.stretched(delay),
            None => delay,
        }
    }

    /// Starts again from the first delay.
    pub fn reset(&mut self) {
        self.policy.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_with_jitter_up_to_the_maximum() {
        let second = Duration::from_secs(1);
        let mut backoff = Backoff::new(second, 8 * second, Jitter::seeded(1));
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
        let mut backoff = Backoff::new(delay, delay, Jitter::seeded(1));
        for _ in 0..100 {
            let stretched = backoff.stretched(delay);
            assert!(
                stretched >= delay && stretched <= delay * 12 / 10,
                "{stretched:?}"
            );
        }
        assert_eq!(backoff.stretched(Duration::ZERO), Duration::ZERO);
    }
}
