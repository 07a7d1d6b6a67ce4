//! The queue's core against a naive reference that remembers every ask.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::alone::Alone;
use super::core::{AGE_LIMIT, CONFLICT_RETRIES, INTERRUPTED};
use super::retry::{BACKOFF_CAP, BACKOFF_INITIAL, HOLD_LIMIT};
use super::{Finish, Pause, Priority};
use crate::client::Jitter;
use crate::runtime::ObjectKey;

#[derive(Clone, Debug)]
enum Op {
    Add(u8, Priority),
    AddAfter(u8, Duration),
    Take,
    /// The n-th running key (modulo) ends.
    Done(usize, Finish),
    Advance(Duration),
    Pause(bool),
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (1_u64..20).prop_map(Duration::from_millis),
        (20_u64..3000).prop_map(Duration::from_millis),
        (3_u64..900).prop_map(Duration::from_secs),
    ]
}

fn priority() -> impl Strategy<Value = Priority> {
    prop_oneof![
        Just(Priority::Low),
        Just(Priority::Normal),
        Just(Priority::High)
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let finish = prop_oneof![
        2 => Just(Finish::Success),
        1 => duration().prop_map(Finish::SuccessAfter),
        1 => Just(Finish::Permanent),
        2 => Just(Finish::Conflict),
        2 => Just(Finish::Interrupted),
        5 => Just(Finish::Failed),
    ];
    prop_oneof![
        4 => (0_u8..4, priority()).prop_map(|(key, priority)| Op::Add(key, priority)),
        2 => (0_u8..4, duration()).prop_map(|(key, delay)| Op::AddAfter(key, delay)),
        6 => Just(Op::Take),
        6 => (0_usize..4, finish).prop_map(|(nth, finish)| Op::Done(nth, finish)),
        4 => duration().prop_map(Op::Advance),
        1 => any::<bool>().prop_map(Op::Pause),
    ]
}

/// A key as the reference sees it: every ask since it was handed out last.
#[derive(Clone, Debug, Default)]
struct Model {
    asks: Vec<(Instant, Priority)>,
    running: Option<(Instant, Priority)>,
    failures: u32,
    until: Option<Instant>,
    hold: Option<Instant>,
    /// The hold that a conflict passed over; it stands again for a run after that.
    passed_over: Option<Instant>,
    conflicts: u8,
    ready_since: Option<Instant>,
}

impl Model {
    /// When the key may be handed out, were it not running.
    fn at(&self) -> Option<Instant> {
        let at = |&(at, priority): &(Instant, Priority)| match self.hold {
            Some(hold) if priority < Priority::High => at.max(hold),
            _ => at,
        };
        self.asks.iter().map(at).min()
    }

    fn is_ready(&self, now: Instant) -> bool {
        self.running.is_none() && self.at().is_some_and(|at| at <= now)
    }

    fn priority(&self) -> Priority {
        self.asks
            .iter()
            .map(|(_, priority)| *priority)
            .max()
            .unwrap_or(Priority::Low)
    }

    fn ask(&mut self, now: Instant, at: Instant, priority: Priority) {
        if !(self.is_ready(now) && at > now) {
            self.asks.push((at, priority));
        }
    }

    fn ceiling(&self) -> Duration {
        (0..self.failures.saturating_sub(1)).fold(BACKOFF_INITIAL, |d, _| (d * 2).min(BACKOFF_CAP))
    }
}

fn name(key: u8) -> ObjectKey {
    ObjectKey::new("ns", &key.to_string())
}

struct World {
    core: Alone,
    models: BTreeMap<ObjectKey, Model>,
    now: Instant,
    paused: bool,
}

impl World {
    fn take(&mut self) -> Result<bool, TestCaseError> {
        self.core.promote(self.now);
        let now = self.now;
        let ready: Vec<_> = self.models.values().filter(|m| m.is_ready(now)).collect();
        let highest = ready.iter().map(|model| model.priority()).max();
        let expected = !ready.is_empty() && !self.paused;
        let Some(item) = self.core.take(now) else {
            prop_assert!(!expected, "a ready key was not handed out");
            return Ok(false);
        };
        prop_assert!(expected);
        let model = self.models.get_mut(&item.key).expect("known key");
        prop_assert!(model.running.is_none(), "on two workers");
        prop_assert!(model.is_ready(now), "handed out too early");
        let since = model.ready_since.expect("ready keys have a time");
        prop_assert!(Some(model.priority()) == highest || now - since >= AGE_LIMIT);
        model.running = Some((now, model.priority()));
        model.asks.clear();
        Ok(true)
    }

    fn done(&mut self, nth: usize, finish: Finish) -> Result<(), TestCaseError> {
        let running: Vec<_> = self
            .models
            .iter()
            .filter(|(_, model)| model.running.is_some())
            .map(|(key, _)| key.clone())
            .collect();
        if running.is_empty() {
            return Ok(());
        }
        let key = &running[nth % running.len()];
        let now = self.now;
        let again = self.core.done(now, key, finish);
        let until = self.core.until(key);
        let model = self.models.get_mut(key).expect("known key");
        let (started, priority) = model.running.take().expect("running");
        let conflicts = std::mem::take(&mut model.conflicts);
        let failed = match finish {
            Finish::Success | Finish::Permanent => false,
            Finish::SuccessAfter(delay) => {
                model.asks.push((now + delay, Priority::Normal));
                false
            }
            Finish::Conflict if conflicts < CONFLICT_RETRIES => {
                // At once, whatever backoff there was.
                prop_assert_eq!(again, Some(Duration::ZERO));
                prop_assert_eq!(until, model.until);
                model.conflicts = conflicts + 1;
                model.asks.push((now, priority));
                model.passed_over = model.hold.take().or(model.passed_over);
                return Ok(());
            }
            Finish::Interrupted => {
                // As if it had not run: nothing is counted, nothing forgotten.
                model.conflicts = conflicts;
                model.hold = model.hold.or(model.passed_over.take());
                model.asks.push((now + INTERRUPTED, priority));
                prop_assert_eq!(until, model.until);
                let expected = model.at().map(|at| at.saturating_duration_since(now));
                prop_assert_eq!(again, expected);
                return Ok(());
            }
            Finish::Conflict | Finish::Failed => {
                model.conflicts = conflicts;
                true
            }
        };
        model.passed_over = None;
        if failed {
            let until = until.expect("a failed key has a backoff");
            let early = model.until.is_some_and(|until| started < until);
            if !early {
                model.failures += 1;
            }
            match model.until {
                Some(left) if early && left > now => prop_assert_eq!(until, left),
                _ => prop_assert!(until >= now && until - now <= model.ceiling()),
            }
            model.until = Some(until);
            model.hold = Some(until.min(now + HOLD_LIMIT));
            model.asks.push((until, priority));
            prop_assert_eq!(self.core.failures(key), model.failures);
        } else {
            (model.failures, model.until, model.hold) = (0, None, None);
        }
        let expected = model.at().map(|at| at.saturating_duration_since(now));
        prop_assert_eq!(again, expected);
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        self.core.promote(self.now);
        let now = self.now;
        for model in self.models.values_mut() {
            model.ready_since = match model.ready_since {
                _ if !model.is_ready(now) => None,
                Some(since) => Some(since),
                None => model.at().map(|at| at.min(now)),
            };
        }
        let idle = || self.models.values().filter(|model| model.running.is_none());
        let ready = idle().filter(|model| model.is_ready(now)).count();
        let due = idle()
            .filter(|m| !m.is_ready(now))
            .filter_map(Model::at)
            .min();
        let running = self.models.values().filter(|m| m.running.is_some()).count();
        prop_assert_eq!(self.core.ready(), ready);
        prop_assert_eq!(self.core.next_due(), due);
        let left = self.core.left();
        prop_assert_eq!((left.running, left.queued), (running, ready));
        Ok(())
    }

    fn run(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match *op {
            Op::Add(key, priority) => {
                let model = self.models.entry(name(key)).or_default();
                model.ask(self.now, self.now, priority);
                self.core.add(self.now, name(key), priority);
            }
            Op::AddAfter(key, delay) => {
                let model = self.models.entry(name(key)).or_default();
                model.ask(self.now, self.now + delay, Priority::Normal);
                self.core.add_after(self.now, name(key), delay);
            }
            Op::Take => {
                self.take()?;
            }
            Op::Done(nth, finish) => self.done(nth, finish)?,
            Op::Advance(by) => self.now += by,
            Op::Pause(paused) => {
                self.paused = paused;
                self.core.pause(Pause::Standby, paused);
            }
        }
        self.check()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4 * ProptestConfig::default().cases, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_core_does_what_the_reference_does(
        ops in proptest::collection::vec(op(), 1..150),
        seed in any::<u64>(),
    ) {
        let mut world = World {
            core: Alone::new(Jitter::seeded(seed)),
            models: BTreeMap::new(),
            now: Instant::now(),
            paused: false,
        };
        for op in ops {
            world.run(&op)?;
        }
        // Nothing is lost: with time and workers everything runs, and then nothing is left.
        world.run(&Op::Pause(false))?;
        for _ in 0..10 {
            world.run(&Op::Advance(BACKOFF_CAP))?;
            while world.take()? {}
            world.check()?;
            for _ in 0..4 {
                world.run(&Op::Done(0, Finish::Success))?;
            }
        }
        prop_assert!(world.models.values().all(|m| m.asks.is_empty() && m.running.is_none()));
        // A drained queue hands out nothing and still counts.
        world.core.drain();
        world.core.add(world.now, name(9), Priority::High);
        prop_assert!(world.core.take(world.now).is_none());
        prop_assert_eq!(world.core.left().queued, 1);
    }
}
