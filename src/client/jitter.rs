//! Chance for delays.

use std::time::Duration;

/// A small seedable generator (splitmix64) for jitter; not for secrets.
#[derive(Clone, Debug)]
pub struct Jitter {
    state: u64,
}

impl Jitter {
    /// A generator that gives the same sequence for the same seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
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
    pub fn full(&mut self, delay: Duration) -> Duration {
        delay.mul_f64(self.unit())
    }

    /// `delay` and up to a fifth more, so that many who were told the same time do not come at once.
    pub fn stretched(&mut self, delay: Duration) -> Duration {
        delay + self.full(delay / 5)
    }

    /// Uniform in `[delay·(1 − part), delay·(1 + part)]`; `part` between 0 and 1.
    pub fn around(&mut self, delay: Duration, part: f64) -> Duration {
        delay.mul_f64(1.0 - part + 2.0 * part * self.unit())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
