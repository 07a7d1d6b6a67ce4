//! Growing delays.

use std::time::Duration;

use crate::client;

/// A delay that doubles with each step up to a cap. The jitter is the caller's, so that a
/// seed decides it.
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
}
