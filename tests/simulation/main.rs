//! The simulation: the real operator, several replicas of it, against the embedded API server and
//! modelled MySQL, over a network in memory, on paused time. A seed decides everything.
//!
//! What must never be, whatever goes wrong:
//! - an acknowledged row is lost: it is on no volume, or a server is opened for writes without it;
//! - two servers can acknowledge writes at one instant;
//! - a write or command of an operator leaves it after its fence, or two replicas may write at once;
//! - an instance is promoted or opened without being on record for it;
//! - the label that the service selects by is on two pods, or elsewhere than writes are taken;
//! - once faults stop, the cluster is not as its spec says within a quarter of an hour, or anything is
//!   written after that.
//!
//! `MAINSTAY_SEEDS=N` runs so many random histories (`just simulation N` in a build that is made for it). `MAINSTAY_SEED=x` replays one exactly and prints
//! it: `MAINSTAY_SEED=7 cargo test --test simulation random -- --nocapture`.
//!
//! It must be able to fail: `mutants/` holds breaks of the product as patches, each with the test that
//! finds it and what that must say. `just mutants [NAME]` applies them to a copy, one after another,
//! and fails for one that survives.

mod clock;
mod history;
mod network;
mod overlap;
mod run;
mod scenario;
mod secrets;
mod world;

use std::time::Instant;

// A quarter of the time of a history is allocation.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

use run::{Outcome, all, enough, keep, replays, report, run, seeds};
use scenario::{Scenario, blind, random, standard, takeover};
use world::Crash;

/// Random histories where the environment does not say how many: as many as fit beside the crash points
/// of all standard histories, which are never left out.
const SEEDS: u64 = 20;

#[test]
fn random_histories_break_nothing() {
    let begun = Instant::now();
    let seeds = seeds(SEEDS);
    let outcomes = all(&seeds, enough(), |seed| run(|| random(*seed)));
    if replays() {
        for outcome in outcomes.iter().flatten() {
            println!("{}", outcome.history);
        }
    }
    let names: Vec<String> = seeds.iter().map(|seed| format!("seed {seed}")).collect();
    report("random", &names, &outcomes, begun);
}

/// Ends a replica after each of its writes and commands, and before the first. (What it leaves behind
/// before one is what it leaves after the one before.)
fn every_crash(scenario: Scenario) {
    let begun = Instant::now();
    let name = format!("{scenario:?}").to_lowercase();
    let clean = run(|| standard(scenario, None));
    keep(&name, &clean.history);
    assert!(clean.broken.is_empty(), "{name}: {:?}", clean.broken);
    assert!(clean.steps > 0, "{name}: nothing is written");
    let first = Crash {
        at: 1,
        after: false,
    };
    let others = (1..=clean.steps).map(|at| Crash { at, after: true });
    let points: Vec<Crash> = std::iter::once(first).chain(others).collect();
    let outcomes = all(&points, enough(), |crash| {
        run(|| standard(scenario, Some(*crash)))
    });
    let named = |Crash { at, after }: &Crash| {
        let when = if *after { "after" } else { "before" };
        format!("{name}, crash {when} write {at}")
    };
    let names: Vec<String> = points.iter().map(named).collect();
    let what = format!("{name}: {} crash points", points.len());
    report(&what, &names, &outcomes, begun);
}

#[test]
fn create_survives_a_crash_at_each_write() {
    every_crash(Scenario::Create);
}

#[test]
fn scale_survives_a_crash_at_each_write() {
    every_crash(Scenario::Scale);
}

#[test]
fn failover_survives_a_crash_at_each_write() {
    every_crash(Scenario::Failover);
}

#[test]
fn switchover_survives_a_crash_at_each_write() {
    every_crash(Scenario::Switchover);
}

#[test]
fn delete_survives_a_crash_at_each_write() {
    every_crash(Scenario::Delete);
}

#[test]
fn return_survives_a_crash_at_each_write() {
    every_crash(Scenario::Return);
}

/// Random histories that failed, and what each found. What a seed does changes with the code; so what
/// was found has a test of its own beside, close to the fault.
const REGRESSIONS: &[(u64, &str)] = &[(
    117,
    "a leader opened the former primary: its watches were silent, and it acted on an old record",
)];

#[test]
fn what_failed_once_does_not_again() {
    let begun = Instant::now();
    let outcomes = all(REGRESSIONS, enough(), |(seed, _)| run(|| random(*seed)));
    let named = |(seed, what): &(u64, &str)| format!("seed {seed} ({what})");
    let names: Vec<String> = REGRESSIONS.iter().map(named).collect();
    report("regressions", &names, &outcomes, begun);
}

#[test]
fn a_leader_whose_watches_are_silent_acts_on_no_old_record() {
    let begun = Instant::now();
    let outcome = run(blind);
    report("blind", &["blind".to_owned()], &[Some(outcome)], begun);
}

#[test]
fn a_takeover_of_what_is_at_rest_writes_nothing() {
    let begun = Instant::now();
    let outcome = run(takeover);
    report(
        "takeover",
        &["takeover".to_owned()],
        &[Some(outcome)],
        begun,
    );
}

#[test]
fn two_leaders_in_overlap_break_nothing() {
    let begun = Instant::now();
    let moments = overlap::moments();
    let outcomes = all(&moments, enough(), |moment| {
        run(|| overlap::last_lease(*moment))
    });
    let names: Vec<String> = moments
        .iter()
        .map(|moment| format!("last lease, {moment} ms"))
        .collect();
    report("last lease", &names, &outcomes, begun);
}

#[test]
fn a_primary_that_comes_back_at_any_moment_breaks_nothing() {
    let begun = Instant::now();
    let absences = overlap::absences();
    let outcomes = all(&absences, enough(), |absence| {
        run(|| overlap::absence(*absence))
    });
    let names: Vec<String> = absences
        .iter()
        .map(|absence| format!("absence of {absence:?}"))
        .collect();
    report("absence", &names, &outcomes, begun);
}

#[test]
fn a_seed_gives_the_same_history_again() {
    let twice: [Outcome; 2] = [(); 2].map(|()| run(|| random(1)));
    assert_eq!(twice[0].digest, twice[1].digest);
    assert_eq!(twice[0].history, twice[1].history);
}
