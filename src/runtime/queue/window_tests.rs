//! The coalescing window, with time as an argument.

use std::time::Duration;

use proptest::prelude::*;
use tokio::time::Instant;

use super::alone::Alone;
use super::ops::name;
use super::{Finish, Priority};
use crate::client::Jitter;

const WINDOW: Duration = Duration::from_secs(5);

fn core() -> (Alone, Instant) {
    let mut core = Alone::new(Jitter::seeded(1));
    core.set_window(WINDOW);
    (core, Instant::now())
}

/// Takes the key and gives it back, if it is ready.
fn serve(core: &mut Alone, now: Instant) -> bool {
    core.promote(now);
    let item = core.take(now);
    if let Some(item) = &item {
        core.done(now, &item.key, Finish::Success);
    }
    item.is_some()
}

#[test]
fn the_first_change_runs_at_once_and_those_after_it_once_at_the_windows_end() {
    let (mut core, start) = core();
    for second in 0..5 {
        let now = start + Duration::from_secs(second);
        core.add(now, name(0), Priority::Normal);
        core.add(now, name(0), Priority::Low);
        assert_eq!(serve(&mut core, now), second == 0);
    }
    assert_eq!(core.next_due(), Some(start + WINDOW));
    assert!(serve(&mut core, start + WINDOW));
    assert_eq!(core.next_due(), None);
}

#[test]
fn a_change_of_the_spec_waits_for_no_window_and_takes_the_rest_along() {
    let (mut core, start) = core();
    core.add(start, name(0), Priority::Normal);
    assert!(serve(&mut core, start));
    core.add(start, name(0), Priority::Normal);
    assert!(!serve(&mut core, start));
    core.add(start, name(0), Priority::High);
    assert!(serve(&mut core, start));
    assert!(!serve(&mut core, start + WINDOW), "one run for both");
}

#[test]
fn a_delay_that_a_run_asks_for_and_a_retry_know_no_window() {
    let (mut core, start) = core();
    let second = Duration::from_secs(1);
    core.add(start, name(0), Priority::Normal);
    core.take(start).unwrap();
    core.done(start, &name(0), Finish::SuccessAfter(second));
    assert!(serve(&mut core, start + second));
    core.add_after(start + second, name(0), second);
    assert!(serve(&mut core, start + 2 * second));
    core.add(start + 2 * second, name(0), Priority::High);
    core.take(start + 2 * second).unwrap();
    let again = core.done(start + 2 * second, &name(0), Finish::Failed);
    assert!(again.unwrap() < second, "its backoff");
}

#[test]
fn a_key_is_forgotten_with_its_window() {
    let (mut core, start) = core();
    core.add(start, name(0), Priority::Normal);
    assert!(serve(&mut core, start));
    assert!(!core.is_empty());
    assert_eq!(core.next_due(), None, "no timer runs for it");
    core.promote(start + WINDOW);
    assert!(core.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    /// The case of kube-rs' debounce, which a steady stream of changes put off for ever.
    #[test]
    fn a_steady_stream_of_changes_runs_once_a_window_and_is_never_put_off(
        gaps in proptest::collection::vec(0_u64..1500, 1..200),
        window in 1_u64..5000,
        worked in 0_u64..3000,
    ) {
        let window = Duration::from_millis(window);
        let worked = Duration::from_millis(worked);
        let mut core = Alone::new(Jitter::seeded(0));
        core.set_window(window);
        let begun = Instant::now();
        let mut changes: Vec<Instant> = Vec::new();
        let mut at = begun;
        for gap in gaps {
            at += Duration::from_millis(gap);
            changes.push(at);
        }
        let (mut starts, mut ends): (Vec<Instant>, Option<Instant>) = (Vec::new(), None);
        let mut next = 0;
        // The next thing that happens: a change, the end of the run, or the end of a window.
        loop {
            let change = changes.get(next).copied();
            let due = core.next_due();
            let Some(now) = [change, ends, due].into_iter().flatten().min() else { break };
            if change == Some(now) {
                core.add(now, name(0), Priority::Normal);
                next += 1;
            } else if ends == Some(now) {
                core.done(now, &name(0), Finish::Success);
                ends = None;
            }
            core.promote(now);
            if core.take(now).is_some() {
                starts.push(now);
                ends = Some(now + worked);
            }
        }
        prop_assert_eq!(starts[0], changes[0], "the first runs at once");
        for pair in starts.windows(2) {
            prop_assert!(pair[1] - pair[0] >= window.max(worked));
        }
        for change in changes {
            let run = starts.iter().find(|start| **start >= change);
            prop_assert!(run.is_some_and(|run| *run - change <= window.max(worked)));
        }
    }
}
