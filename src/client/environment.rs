//! The time of day and chance: all that a process takes from the machine it runs on, besides bytes
//! from the network and the monotonic time, which is tokio's.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use super::Jitter;

type Clock = dyn Fn() -> Timestamp + Send + Sync;

/// Where the client, and whoever uses it, takes the time of day and chance from. Clones share both.
///
/// Two processes with the same seed, clock and network do the same: the simulation rests on it.
#[derive(Clone)]
pub struct Environment {
    clock: Arc<Clock>,
    dice: Arc<Mutex<Jitter>>,
    /// Whether secrets come from the dice too, instead of the operating system.
    reproducible: bool,
}

impl Environment {
    /// The system's clock; chance from the operating system.
    #[must_use]
    pub fn system() -> Self {
        let mut seed = [0; 8];
        fill_from_system(&mut seed);
        Self {
            clock: Arc::new(Timestamp::now),
            dice: Arc::new(Mutex::new(Jitter::seeded(u64::from_ne_bytes(seed)))),
            reproducible: false,
        }
    }

    /// A clock of one's own, and chance that `seed` decides: passwords too, so never for use.
    #[must_use]
    pub fn seeded(seed: u64, clock: Arc<dyn Fn() -> Timestamp + Send + Sync>) -> Self {
        Self {
            clock,
            dice: Arc::new(Mutex::new(Jitter::seeded(seed))),
            reproducible: true,
        }
    }

    /// The time of day. It may jump; what must not be fooled by that uses the monotonic time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// 64 random bits; not for secrets.
    #[must_use]
    pub fn bits(&self) -> u64 {
        let mut dice = self.dice.lock().unwrap_or_else(PoisonError::into_inner);
        dice.bits()
    }

    /// A generator of its own for one task's delays.
    #[must_use]
    pub fn jitter(&self) -> Jitter {
        Jitter::seeded(self.bits())
    }

    /// Bytes that nobody can guess.
    pub fn fill(&self, bytes: &mut [u8]) {
        if self.reproducible {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&self.bits().to_le_bytes()[..chunk.len()]);
            }
        } else {
            fill_from_system(bytes);
        }
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment")
            .field("reproducible", &self.reproducible)
            .finish_non_exhaustive()
    }
}

fn fill_from_system(bytes: &mut [u8]) {
    getrandom::fill(bytes).expect("the system gives random bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seeded(seed: u64) -> Environment {
        Environment::seeded(seed, Arc::new(|| Timestamp::UNIX_EPOCH))
    }

    fn bytes(environment: &Environment) -> [u8; 20] {
        let mut bytes = [0; 20];
        environment.fill(&mut bytes);
        bytes
    }

    #[test]
    fn a_seed_decides_everything() {
        let (one, same, other) = (seeded(1), seeded(1), seeded(2));
        assert_eq!(one.bits(), same.bits());
        assert_eq!(one.jitter().bits(), same.jitter().bits());
        let first = bytes(&one);
        assert_eq!(first, bytes(&same));
        assert_ne!(first, bytes(&one), "each draw is another");
        assert_ne!(one.bits(), other.bits());
        assert_eq!(one.now(), Timestamp::UNIX_EPOCH);
    }

    #[test]
    fn the_system_is_not_foreseen() {
        let (one, other) = (Environment::system(), Environment::system());
        assert_ne!(one.bits(), other.bits());
        assert_ne!(bytes(&one), bytes(&other));
        assert_ne!(bytes(&one), bytes(&one.clone()));
    }
}
