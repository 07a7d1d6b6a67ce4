//! Electors, a server and a bad network, over random schedules: never two that may write.
//!
//! Each elector has a monotonic clock of its own speed and a wall clock that is hours off. Requests
//! and answers are delayed or lost, and a request may land long after its sender gave up.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::machine::{Machine, Request};
use super::record::Lease;
use super::testing::{Server, timed_out};
use super::{ElectionOptions, Leadership};
use crate::client::Error;
use crate::client::Jitter;

/// Milliseconds of true time.
type Ms = u64;

const REQUEST_LIMIT: Ms = 5000;

#[derive(Debug)]
enum Event {
    Wake,
    /// The request reaches the server.
    Arrive(Request),
    Answer(Result<Lease, Error>),
    /// Stops in its tracks for so long: a frozen process.
    Freeze(Ms),
}

struct Elector {
    machine: Machine,
    /// Its clock runs so much faster than true time.
    speed: f64,
    wall_offset: i64,
    start: Instant,
    /// Number, request and local send time of what is not answered.
    pending: Option<(u64, Request, Instant)>,
    /// Its next scheduled wake-up; older ones are void.
    wake: u64,
    frozen_until: Ms,
}

impl Elector {
    fn local(&self, now: Ms) -> Instant {
        self.start + Duration::from_secs_f64(now as f64 / 1000.0 * self.speed)
    }

    fn to_true(&self, local: Instant) -> Ms {
        // Bounded by the simulation's length.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let ms = ((local - self.start).as_secs_f64() / self.speed * 1000.0).ceil() as Ms;
        ms
    }

    fn may_write(&self, now: Ms) -> bool {
        self.machine
            .fence()
            .is_some_and(|fence| self.local(now) < fence)
    }
}

struct World {
    now: Ms,
    server: Server,
    electors: Vec<Elector>,
    /// Time, order, elector, number of the request or wake-up.
    queue: BinaryHeap<Reverse<(Ms, u64, usize, u64)>>,
    events: std::collections::HashMap<u64, Event>,
    order: u64,
    chance: Jitter,
    faults: bool,
    /// Term and elector of every leadership seen.
    terms: Vec<(u64, usize)>,
    /// Whether terms must grow. Who makes a deleted Lease anew may have missed the last terms;
    /// `raise_term` is for that.
    terms_grow: bool,
}

impl World {
    fn new(seed: u64, electors: usize) -> Self {
        let mut chance = Jitter::seeded(seed);
        let electors = (0..electors)
            .map(|i| {
                let start = Instant::now() + Duration::from_secs(chance.bits() % 100_000);
                let options = ElectionOptions::new("ns", "a", &format!("e{i}"));
                Elector {
                    machine: Machine::new(options, Jitter::seeded(chance.bits()), start),
                    speed: [0.95, 1.0, 1.05][i % 3],
                    wall_offset: [0, 3_600_000, -3_600_000][i % 3],
                    start,
                    pending: None,
                    wake: 0,
                    frozen_until: 0,
                }
            })
            .collect();
        let mut world = Self {
            now: 0,
            server: Server::default(),
            electors,
            queue: BinaryHeap::new(),
            events: std::collections::HashMap::new(),
            order: 0,
            chance,
            faults: true,
            terms: Vec::new(),
            terms_grow: true,
        };
        for i in 0..world.electors.len() {
            world.wake(i, 0);
        }
        world
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.faults && self.chance.bits().is_multiple_of(n)
    }

    fn delay(&mut self) -> Ms {
        let worst = if self.one_in(4) { 20_000 } else { 50 };
        self.chance.bits() % worst
    }

    fn at(&mut self, at: Ms, elector: usize, number: u64, event: Event) {
        self.order += 1;
        self.events.insert(self.order, event);
        self.queue.push(Reverse((at, self.order, elector, number)));
    }

    fn wake(&mut self, elector: usize, at: Ms) {
        self.electors[elector].wake += 1;
        let number = self.electors[elector].wake;
        self.at(at.max(self.now), elector, number, Event::Wake);
    }

    fn step(&mut self) -> Result<(), TestCaseError> {
        let Reverse((at, order, i, number)) = self.queue.pop().expect("electors never end");
        let event = self.events.remove(&order).expect("each once");
        if !matches!(event, Event::Arrive(_)) && self.electors[i].frozen_until > at {
            // A frozen process notices nothing until it thaws.
            let thawed = self.electors[i].frozen_until;
            self.at(thawed, i, number, event);
            return Ok(());
        }
        self.now = at;
        match event {
            Event::Wake if number == self.electors[i].wake => self.woken(i),
            Event::Wake => {}
            Event::Arrive(request) => {
                let answer = self.server.handle(&request);
                if !self.one_in(5) {
                    let delay = self.delay();
                    self.at(at + delay, i, number, Event::Answer(answer));
                }
            }
            Event::Answer(answer) => {
                let elector = &mut self.electors[i];
                let local = elector.local(at);
                match elector.pending.take() {
                    Some((pending, request, sent)) if pending == number => {
                        elector.machine.answer(local, sent, &request, answer);
                        self.wake(i, at);
                    }
                    other => elector.pending = other,
                }
            }
            Event::Freeze(length) => self.electors[i].frozen_until = at + length,
        }
        self.check(i)
    }

    fn woken(&mut self, i: usize) {
        let now = self.now;
        if self.one_in(60) {
            let length = self.chance.bits() % 60_000;
            self.at(now, i, 0, Event::Freeze(length));
        }
        let elector = &mut self.electors[i];
        let local = elector.local(now);
        elector.machine.expire(local);
        if elector.pending.is_some() {
            return;
        }
        #[allow(clippy::cast_possible_wrap)]
        let wall = format!("w{:012}", now as i64 + elector.wall_offset + 10_000_000);
        let Some(request) = elector.machine.request(local, &wall) else {
            let next = elector.to_true(elector.machine.next_wake()).max(now + 1);
            self.wake(i, next);
            return;
        };
        self.order += 1;
        let number = self.order;
        self.electors[i].pending = Some((number, request.clone(), local));
        if !self.one_in(5) {
            let delay = self.delay();
            self.at(now + delay, i, number, Event::Arrive(request));
        }
        self.at(
            now + REQUEST_LIMIT,
            i,
            number,
            Event::Answer(Err(timed_out())),
        );
    }

    fn check(&mut self, i: usize) -> Result<(), TestCaseError> {
        let writers: Vec<_> = (0..self.electors.len())
            .filter(|i| self.electors[*i].may_write(self.now))
            .collect();
        prop_assert!(
            writers.len() <= 1,
            "{:?} may write at {} ms",
            writers,
            self.now
        );
        // As readers see it: a leader past its fence is none.
        if let Leadership::Leader { term } = self.electors[i].machine.leadership()
            && self.electors[i].may_write(self.now)
        {
            prop_assert!(term > 0);
            match self.terms.last() {
                Some(last) if *last == (term, i) => {}
                last => {
                    let grew = last.is_none_or(|(other, _)| *other < term);
                    prop_assert!(grew || !self.terms_grow, "{:?} then {}", self.terms, term);
                    self.terms.push((term, i));
                }
            }
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn at_most_one_may_write_and_when_faults_stop_one_leads(seed in any::<u64>()) {
        let mut world = World::new(seed, 3);
        while world.now < 300_000 {
            world.step()?;
        }
        world.faults = false;
        while world.now < 420_000 {
            world.step()?;
        }
        let leaders = world.electors.iter().filter(|elector| elector.may_write(world.now)).count();
        prop_assert_eq!(leaders, 1);
    }

    #[test]
    fn a_lease_deleted_under_electors_that_saw_it_makes_no_second_writer(seed in any::<u64>()) {
        let mut world = World::new(seed, 3);
        world.faults = false;
        while world.now < 5_000 {
            world.step()?;
        }
        world.faults = true;
        world.terms_grow = false;
        for end in 1..5 {
            while world.now < 5_000 + end * 200_000 {
                world.step()?;
            }
            world.server.lease = None;
        }
    }
}
