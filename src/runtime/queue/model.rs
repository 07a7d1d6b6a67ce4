//! The queue's core against a naive reference that remembers every ask.
//!
//! What it holds the core to, for any history: a key is never on two workers; nothing asked for is
//! lost; the highest priority goes first, and an older lower one every fourth time; namespaces take
//! turns, and in each the first come is first; no delay ends early, and a window ends when it must
//! however many changes come; the counts are exact, drained or not, and what is done is forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::alone::Alone;
use super::core::{AGE_LIMIT, AGED_TURN, CONFLICT_RETRIES, INTERRUPTED};
use super::ops::{KEYS, Op, name, op};
use super::retry::{BACKOFF_CAP, BACKOFF_INITIAL, HOLD_LIMIT};
use super::{Finish, Pause, Priority};
use crate::client::Jitter;
use crate::runtime::ObjectKey;

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
    /// Since when it stands in the line of this priority: the operation, and the time.
    line: Option<(Priority, usize, Instant)>,
    /// When it was handed out last.
    last_start: Option<Instant>,
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

    /// When a change that comes now may run at the earliest, but for a hold.
    fn opens(&self, now: Instant, priority: Priority, window: Duration) -> Instant {
        match self.last_start {
            Some(start) if priority < Priority::High => now.max(start + window),
            _ => now,
        }
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

type Namespace = std::sync::Arc<str>;

struct World {
    core: Alone,
    models: BTreeMap<ObjectKey, Model>,
    now: Instant,
    paused: bool,
    took_over: Option<Instant>,
    window: Duration,
    /// The time at the last check.
    checked: Instant,
    /// Operations so far.
    step: usize,
    /// Namespaces handed out while another one had a key of the same priority ready, by that one.
    passed: BTreeMap<(Priority, Namespace), BTreeSet<Namespace>>,
    /// Keys handed out in a row while an aged one of a lower priority was ready.
    missed: u8,
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
        let (priority, _, _) = model.line.expect("ready keys stand in a line");
        prop_assert_eq!(priority, model.priority());
        self.turn(&item.key, priority, highest)?;
        let model = self.models.get_mut(&item.key).expect("known key");
        let since = self.took_over.map_or(since, |at| at.max(since));
        prop_assert_eq!(item.waited, now - since);
        model.running = Some((now, priority));
        model.last_start = Some(now);
        model.asks.clear();
        (model.line, model.ready_since) = (None, None);
        Ok(true)
    }

    /// Whether it was this key's turn.
    fn turn(
        &mut self,
        key: &ObjectKey,
        priority: Priority,
        highest: Option<Priority>,
    ) -> Result<(), TestCaseError> {
        let now = self.now;
        // Priorities of which a key is old, and of which one has stood in its line for so long.
        let (mut aged, mut due) = (BTreeSet::new(), BTreeSet::new());
        let mut waiting = BTreeSet::new();
        let mine = self.models[key].line;
        for (other, model) in &self.models {
            let Some(line) = model.line else { continue };
            if model
                .ready_since
                .is_some_and(|since| now - since >= AGE_LIMIT)
            {
                aged.insert(line.0);
            }
            if now - line.2 >= AGE_LIMIT {
                due.insert(line.0);
            }
            if line.0 != priority {
                continue;
            }
            if other.namespace == key.namespace {
                prop_assert!(mine <= Some(line), "not first come, first served");
            } else {
                waiting.insert(other.namespace.clone());
            }
        }
        for other in waiting {
            let passed = self.passed.entry((priority, other.clone())).or_default();
            let first = passed.insert(key.namespace.clone());
            prop_assert!(first, "{other} waits for two of {}", key.namespace);
        }
        self.passed.remove(&(priority, key.namespace.clone()));
        prop_assert!(Some(priority) == highest || aged.contains(&priority));
        let overtaken = due.iter().any(|level| *level < priority) && !aged.contains(&priority);
        self.missed = if overtaken { self.missed + 1 } else { 0 };
        prop_assert!(
            self.missed < AGED_TURN,
            "an aged key is passed over too often"
        );
        Ok(())
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
        let (now, step) = (self.now, self.step);
        let checked = std::mem::replace(&mut self.checked, now);
        for model in self.models.values_mut() {
            model.ready_since = match model.ready_since {
                _ if !model.is_ready(now) => None,
                Some(since) => Some(since),
                // It waited for its time, or was kept until now.
                None => model.at().filter(|at| *at > checked).or(Some(now)),
            };
            model.line = model.ready_since.map(|since| match model.line {
                Some(line) if line.0 == model.priority() => line,
                // It rose.
                Some(_) => (model.priority(), step, now),
                None => (model.priority(), step, since),
            });
        }
        let lines: BTreeSet<_> = self
            .models
            .iter()
            .filter_map(|(key, model)| Some((model.line?.0, key.namespace.clone())))
            .collect();
        self.passed.retain(|line, _| lines.contains(line));
        let idle = || self.models.values().filter(|model| model.running.is_none());
        let ready = idle().filter(|model| model.is_ready(now)).count();
        let due = idle()
            .filter(|m| !m.is_ready(now))
            .filter_map(Model::at)
            .min();
        let running = self.models.values().filter(|m| m.running.is_some()).count();
        prop_assert_eq!(self.core.ready(), ready);
        prop_assert_eq!(self.core.next_due(), due);
        let asked: BTreeSet<_> = self.core.asked().cloned().collect();
        let expected = self
            .models
            .iter()
            .filter(|(_, model)| model.running.is_none() && !model.asks.is_empty());
        prop_assert_eq!(asked, expected.map(|(key, _)| key.clone()).collect());
        let left = self.core.left();
        prop_assert_eq!((left.running, left.queued), (running, ready));
        Ok(())
    }

    fn run(&mut self, op: &Op) -> Result<(), TestCaseError> {
        self.step += 1;
        match *op {
            Op::Add(key, priority) => {
                let model = self.models.entry(name(key)).or_default();
                let at = model.opens(self.now, priority, self.window);
                model.ask(self.now, at, priority);
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
                if self.paused && !paused {
                    self.took_over = Some(self.now);
                }
                self.paused = paused;
                self.core.pause(self.now, Pause::Standby, paused);
            }
            Op::Discard(key) => {
                let model = self.models.entry(name(key)).or_default();
                let asked = model.running.is_none() && !model.asks.is_empty();
                if asked {
                    *model = Model::default();
                }
                prop_assert_eq!(self.core.discard(&name(key)), asked);
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
        window in prop_oneof![Just(0), Just(0), 1_u64..6000].prop_map(Duration::from_millis),
    ) {
        let begun = Instant::now();
        let mut world = World {
            core: Alone::new(Jitter::seeded(seed)),
            models: BTreeMap::new(),
            now: begun,
            checked: begun,
            paused: false,
            took_over: None,
            window,
            step: 0,
            passed: BTreeMap::new(),
            missed: 0,
        };
        world.core.set_window(window);
        for op in ops {
            world.run(&op)?;
        }
        // Nothing is lost: with time and workers everything runs, and then nothing is left.
        world.run(&Op::Pause(false))?;
        for _ in 0..10 {
            world.run(&Op::Advance(BACKOFF_CAP))?;
            while world.take()? {}
            world.check()?;
            for _ in 0..KEYS {
                world.run(&Op::Done(0, Finish::Success))?;
            }
        }
        prop_assert!(world.models.values().all(|m| m.asks.is_empty() && m.running.is_none()));
        world.run(&Op::Advance(window))?;
        prop_assert!(world.core.is_empty(), "and nothing is remembered");
        // A drained queue hands out nothing and still counts.
        world.core.drain();
        world.core.add(world.now, name(0), Priority::High);
        prop_assert!(world.core.take(world.now).is_none());
        prop_assert_eq!(world.core.left().queued, 1);
    }
}
