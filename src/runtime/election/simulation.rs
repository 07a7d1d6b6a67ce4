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
    /// Ends, and another process of the same name begins.
    Restart,
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
    /// Whether it has ended: its kubelet says so.
    ended: bool,
    options: ElectionOptions,
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
    /// How often an elector was told that the holder has ended.
    proofs: u64,
    /// Whether electors end. One that begins has never seen the Lease.
    restarts: bool,
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
                let options = ElectionOptions {
                    succeeds_itself: true,
                    ..ElectionOptions::new("ns", "a", &format!("e{i}"))
                };
                Elector {
                    machine: Machine::new(options.clone(), Jitter::seeded(chance.bits()), start),
                    speed: [0.95, 1.0, 1.05][i % 3],
                    wall_offset: [0, 3_600_000, -3_600_000][i % 3],
                    start,
                    pending: None,
                    wake: 0,
                    frozen_until: 0,
                    ended: false,
                    options,
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
            proofs: 0,
            restarts: true,
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
            Event::Restart => {
                let seed = self.chance.bits();
                let elector = &mut self.electors[i];
                let (options, local) = (elector.options.clone(), elector.local(at));
                elector.machine = Machine::new(options, Jitter::seeded(seed), local);
                elector.ended = false;
                self.wake(i, at);
            }
        }
        self.check(i)
    }

    fn woken(&mut self, i: usize) {
        let now = self.now;
        if self.one_in(60) {
            let length = self.chance.bits() % 60_000;
            self.at(now, i, 0, Event::Freeze(length));
        }
        if self.restarts && self.one_in(100) {
            // What it has sent is still under way.
            let length = self.chance.bits() % 30_000;
            let elector = &mut self.electors[i];
            (elector.ended, elector.pending) = (true, None);
            elector.machine.stop();
            self.at(now + length, i, 0, Event::Restart);
            return;
        }
        self.ask_after_holder(i);
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

    /// What the holder's pod shows.
    fn ask_after_holder(&mut self, i: usize) {
        let local = self.electors[i].local(self.now);
        let Some(record) = self.electors[i].machine.suspect(local).cloned() else {
            return;
        };
        let holder = self
            .electors
            .iter()
            .find(|e| e.options.identity == record.holder());
        if holder.is_some_and(|holder| holder.ended) {
            self.electors[i].machine.ended(local, &record);
            self.proofs += 1;
        }
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

/// How many histories; `MAINSTAY_ELECTION_HISTORIES` for more.
const HISTORIES: u64 = 256;
/// A history with faults, and after it without.
const FAULTY: Ms = 300_000;
const CALM: Ms = 120_000;

#[test]
fn linkerd2_13392_at_most_one_may_write_and_when_faults_stop_one_leads() {
    let histories = std::env::var("MAINSTAY_ELECTION_HISTORIES");
    let histories = histories
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(HISTORIES);
    let (mut events, mut leaderships, mut proofs) = (0, 0, 0);
    for seed in 0..histories {
        let mut world = World::new(seed, 3);
        let mut go_on = |until| {
            while world.now < until {
                world
                    .step()
                    .unwrap_or_else(|error| panic!("history {seed}: {error}"));
                events += 1;
            }
            world.faults = false;
        };
        go_on(FAULTY);
        go_on(FAULTY + CALM);
        let now = world.now;
        let writers = world.electors.iter().filter(|e| e.may_write(now)).count();
        assert_eq!(writers, 1, "history {seed}");
        leaderships += world.terms.len();
        proofs += world.proofs;
    }
    println!(
        "{histories} histories, {} simulated hours, {events} events: {leaderships} leaderships, \
         {proofs} proofs of an end",
        histories * (FAULTY + CALM) / 3_600_000
    );
    assert!(
        leaderships as u64 > 2 * histories && proofs > histories / 8,
        "too few"
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_lease_deleted_under_electors_that_saw_it_makes_no_second_writer(seed in any::<u64>()) {
        let mut world = World::new(seed, 3);
        world.faults = false;
        while world.now < 5_000 {
            world.step()?;
        }
        world.faults = true;
        world.terms_grow = false;
        world.restarts = false;
        for end in 1..5 {
            while world.now < 5_000 + end * 200_000 {
                world.step()?;
            }
            world.server.lease = None;
        }
    }
}
