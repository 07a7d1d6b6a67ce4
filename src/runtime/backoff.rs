//! Growing delays and randomness for them.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::client;

/// A delay that doubles with each step up to a cap. The jitter is the caller's ([`Jitter`]), so that
/// a seed decides it.
#[derive(Debug)]
pub(crate) struct Backoff(client::Backoff);

impl Backoff {
    /// Starts at `initial` and doubles up to `cap`.
    pub(crate) fn new(initial: Duration, cap: Duration) -> Self {
        Self(client::Backoff::exact(initial, cap))
    }

    /// The delay of this step, without jitter; the next step is twice as long.
    pub(crate) fn step(&mut self) -> Duration {
        self.0.next_delay()
    }

    /// Starts over.
    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }
}

/// A small seedable generator (splitmix64) for jitter; not for secrets.
#[derive(Clone, Debug)]
pub(crate) struct Jitter {
    state: u64,
}

impl Jitter {
    /// Seeded from the process's randomness.
    pub(crate) fn from_entropy() -> Self {
        Self::seeded(RandomState::new().hash_one(0_u8))
    }

    /// A generator that gives the same sequence for the same seed.
    pub(crate) fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `[0, 1)`.
    fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Uniform in `[0, delay]`: full jitter, which spreads many that failed together the most.
    pub(crate) fn full(&mut self, delay: Duration) -> Duration {
        delay.mul_f64(self.unit())
    }

    /// Uniform in `[delay·(1 − part), delay·(1 + part)]`; `part` between 0 and 1.
    pub(crate) fn around(&mut self, delay: Duration, part: f64) -> Duration {
        delay.mul_f64(1.0 - part + 2.0 * part * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_doubles_up_to_the_cap_and_a_reset_starts_over() {
        let mut backoff = Backoff::new(Duration::from_millis(5), Duration::from_millis(30));
        let steps: Vec<_> = (0..5).map(|_| backoff.step().as_millis()).collect();
        assert_eq!(steps, [5, 10, 20, 30, 30]);
        backoff.reset();
        assert_eq!(backoff.step().as_millis(), 5);
        for _ in 0..10_000 {
            assert!(backoff.step() <= Duration::from_millis(30));
        }
    }

    #[test]
    fn jitter_stays_in_its_bounds_and_follows_its_seed() {
        let delay = Duration::from_secs(10);
        let mut jitter = Jitter::seeded(7);
        let drawn: Vec<_> = (0..1000).map(|_| jitter.full(delay)).collect();
        assert!(drawn.iter().all(|d| *d <= delay));
        assert!(drawn.iter().any(|d| *d < delay / 10) && drawn.iter().any(|d| *d > delay * 9 / 10));
        let mut again = Jitter::seeded(7);
        assert!(drawn.iter().all(|d| *d == again.full(delay)));
        for _ in 0..1000 {
            let d = jitter.around(delay, 0.2);
            assert!(d >= delay * 8 / 10 && d <= delay * 12 / 10);
        }
    }
}
