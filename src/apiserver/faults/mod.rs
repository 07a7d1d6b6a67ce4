//! Faults on purpose: what a network, an overloaded server or a lagging cache does to a client.
//!
//! A [`Rule`] says whose requests suffer, how large a share of them, how often, and what happens.
//! Which of the matching requests are hit is decided by a seed, so that a run can be repeated. All
//! rules that match are applied, in the order in which they were added.

mod frozen;
mod rule;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use rule::{Fault, Rule};

pub(crate) use frozen::Thawed;

/// What a rule looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) client: &'a str,
    pub(crate) verb: &'a str,
    /// Qualified, with its subresource: `pods/status`, `deployments.apps`.
    pub(crate) resource: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

/// The faults of one server. Clones are the same.
#[derive(Clone, Debug)]
pub struct Faults(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    rules: Mutex<Rules>,
    ice: frozen::Ice,
    /// Quick way past the lock: how many rules there are.
    count: AtomicU64,
}

#[derive(Debug, Default)]
struct Rules {
    seed: u64,
    next: u64,
    active: BTreeMap<u64, Active>,
    /// How often each kind of fault was injected.
    injected: BTreeMap<&'static str, u64>,
}

#[derive(Debug)]
struct Active {
    rule: Rule,
    /// Requests that matched.
    matched: u64,
    /// Requests that were hit.
    hit: u64,
}

impl Faults {
    /// None yet. `seed` decides which requests a share is made of.
    pub(crate) fn new(seed: u64) -> Self {
        let rules = Rules {
            seed,
            ..Rules::default()
        };
        Self(Arc::new(Inner {
            rules: Mutex::new(rules),
            ice: frozen::Ice::default(),
            count: AtomicU64::new(0),
        }))
    }

    /// Adds a rule. Gives its number, for [`Faults::remove`].
    #[must_use] 
    pub fn add(&self, rule: Rule) -> u64 {
        let mut rules = self.rules();
        let id = rules.next;
        rules.next += 1;
        rules.active.insert(
            id,
            Active {
                rule,
                matched: 0,
                hit: 0,
            },
        );
        self.0
            .count
            .store(rules.active.len() as u64, Ordering::Release);
        id
    }

    /// Removes a rule; whether it was there.
    #[must_use] 
    pub fn remove(&self, id: u64) -> bool {
        let mut rules = self.rules();
        let removed = rules.active.remove(&id).is_some();
        self.0
            .count
            .store(rules.active.len() as u64, Ordering::Release);
        removed
    }

    /// Removes all rules, and thaws.
    pub fn clear(&self) {
        let mut rules = self.rules();
        rules.active.clear();
        self.0.count.store(0, Ordering::Release);
        drop(rules);
        self.thaw();
    }

    /// The rules that are in effect, by number, with how often each hit.
    #[must_use]
    pub fn rules_in_effect(&self) -> Vec<(u64, Rule, u64)> {
        let rules = self.rules();
        rules
            .active
            .iter()
            .map(|(id, active)| (*id, active.rule.clone(), active.hit))
            .collect()
    }

    /// How often each kind of fault was injected so far.
    #[must_use]
    pub fn injected(&self) -> BTreeMap<&'static str, u64> {
        self.rules().injected.clone()
    }

    /// From now on nothing is answered: no request, no ping, no new connection, until [`Faults::thaw`].
    pub fn freeze(&self) {
        if self.0.ice.set(true) {
            *self.rules().injected.entry("freeze").or_default() += 1;
        }
    }

    /// Goes on where it was frozen.
    pub fn thaw(&self) {
        self.0.ice.set(false);
    }

    /// Whether it is frozen.
    #[must_use]
    pub fn is_frozen(&self) -> bool {
        self.0.ice.frozen()
    }

    /// Waits until it is not frozen.
    pub(crate) fn thawed(&self) -> Thawed {
        self.0.ice.thawed()
    }

    /// What happens to a request.
    pub(crate) fn decide(&self, subject: Subject<'_>) -> Vec<Fault> {
        if self.0.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let mut rules = self.rules();
        let rules = &mut *rules;
        let mut faults = Vec::new();
        for (id, active) in &mut rules.active {
            if !active.rule.matches(subject)
                || active.rule.times.is_some_and(|times| active.hit >= times)
            {
                continue;
            }
            active.matched += 1;
            if chance(rules.seed, *id, active.matched) >= active.rule.share {
                continue;
            }
            active.hit += 1;
            *rules.injected.entry(active.rule.fault.name()).or_default() += 1;
            faults.push(active.rule.fault.clone());
        }
        faults
    }

    fn rules(&self) -> MutexGuard<'_, Rules> {
        // Plain data: it is whole after any panic.
        self.0.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A number in `0.0..1.0` for the nth match of a rule.
fn chance(seed: u64, id: u64, nth: u64) -> f64 {
    let mut z =
        seed ^ id.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ nth.wrapping_mul(0xD1B5_4A32_D192_ED03);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^= z >> 31;
    (z >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> Subject<'static> {
        Subject {
            client: "a",
            verb: "get",
            resource: "pods",
            namespace: "n",
            name: "p",
        }
    }

    #[test]
    fn a_share_is_a_share_and_the_same_again() {
        let run = |seed| -> Vec<bool> {
            let faults = Faults::new(seed);
            faults.add(Rule {
                share: 0.25,
                ..Rule::always(Fault::DropBefore)
            });
            (0..4000)
                .map(|_| !faults.decide(subject()).is_empty())
                .collect()
        };
        let hits = run(1).iter().filter(|hit| **hit).count();
        assert!((900..1100).contains(&hits), "{hits}");
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn a_rule_ends_after_its_times() {
        let faults = Faults::new(0);
        let id = faults.add(Rule {
            times: Some(2),
            ..Rule::always(Fault::GoAway)
        });
        let hits = (0..5)
            .filter(|_| !faults.decide(subject()).is_empty())
            .count();
        assert_eq!(hits, 2);
        assert_eq!(faults.injected()["goaway"], 2);
        assert!(faults.remove(id) && !faults.remove(id));
    }
}
