use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
/// Most that a pause is stretched by.
const JITTER: f64 = 0.2;

fn exact(pause: Duration) -> Duration {
    pause
}

fn go(machine: &mut Machine, now: Instant) -> u64 {
    match machine.admit(now) {
        Admission::Go(epoch) => epoch,
        other => panic!("{other:?}"),
    }
}

fn call(machine: &mut Machine, now: Instant, verdict: Verdict) {
    let epoch = go(machine, now);
    machine.ended(now, epoch, verdict, exact);
}

fn opened(now: Instant) -> Machine {
    let mut machine = Machine::new(now, BreakerLimits::DEFAULT);
    for _ in 0..5 {
        call(&mut machine, now, Verdict::Unconnected);
    }
    machine
}

#[test]
fn opens_when_half_of_enough_calls_are_bad_and_not_before() {
    let now = Instant::now();
    let mut machine = Machine::new(now, BreakerLimits::DEFAULT);
    for i in 0..19 {
        call(
            &mut machine,
            now,
            if i % 2 == 0 {
                Verdict::Bad
            } else {
                Verdict::Good
            },
        );
        assert_eq!(
            machine.state(now),
            BreakerState::Closed,
            "{i}: too few to tell"
        );
    }
    call(&mut machine, now, Verdict::Good);
    assert_eq!(machine.state(now), BreakerState::Open, "ten of twenty");
    assert_eq!(machine.admit(now), Admission::Refused(now + SECOND));
}

#[test]
fn refusals_by_the_server_and_our_own_cancellations_are_no_sign_of_an_outage() {
    let now = Instant::now();
    let mut machine = Machine::new(now, BreakerLimits::DEFAULT);
    for _ in 0..100 {
        call(&mut machine, now, Verdict::Unknown);
    }
    for _ in 0..21 {
        call(&mut machine, now, Verdict::Good);
    }
    for _ in 0..20 {
        call(&mut machine, now, Verdict::Bad);
    }
    assert_eq!(machine.state(now), BreakerState::Closed, "20 of 41");
}

#[test]
fn calls_older_than_the_window_are_forgotten() {
    let now = Instant::now();
    let mut machine = Machine::new(now, BreakerLimits::DEFAULT);
    for _ in 0..19 {
        call(&mut machine, now, Verdict::Bad);
    }
    call(&mut machine, now + 10 * SECOND, Verdict::Bad);
    assert_eq!(machine.state(now + 10 * SECOND), BreakerState::Closed);
    for _ in 0..18 {
        call(&mut machine, now + 19 * SECOND, Verdict::Bad);
    }
    assert_eq!(machine.state(now + 19 * SECOND), BreakerState::Closed);
    call(&mut machine, now + 19 * SECOND, Verdict::Bad);
    assert_eq!(machine.state(now + 19 * SECOND), BreakerState::Open);
}

#[test]
fn five_connections_that_fail_in_a_row_open_it_and_a_good_one_between_them_does_not() {
    let now = Instant::now();
    let mut machine = Machine::new(now, BreakerLimits::DEFAULT);
    for _ in 0..4 {
        call(&mut machine, now, Verdict::Unconnected);
    }
    call(&mut machine, now, Verdict::Good);
    call(&mut machine, now, Verdict::Unconnected);
    assert_eq!(machine.state(now), BreakerState::Closed);
    assert_eq!(opened(now).state(now), BreakerState::Open);
}

#[test]
fn one_probe_then_a_ramp_then_closed() {
    let start = Instant::now();
    let mut machine = opened(start);
    let now = start + SECOND;
    assert_eq!(machine.state(now), BreakerState::HalfOpen);
    for round in [1, 2, 4, 8, 16, 32] {
        let epochs: Vec<u64> = (0..round).map(|_| go(&mut machine, now)).collect();
        assert_eq!(machine.admit(now), Admission::Full, "no more than {round}");
        assert_eq!(machine.state(now), BreakerState::HalfOpen);
        for epoch in epochs {
            machine.ended(now, epoch, Verdict::Good, exact);
        }
    }
    assert_eq!(machine.state(now), BreakerState::Closed);
}

#[test]
fn a_bad_probe_opens_it_for_twice_as_long_up_to_a_bound() {
    let mut now = Instant::now();
    let mut machine = opened(now);
    for seconds in [1, 2, 4, 8, 16, 30, 30] {
        assert_eq!(
            machine.admit(now),
            Admission::Refused(now + seconds * SECOND)
        );
        now += seconds * SECOND;
        call(&mut machine, now, Verdict::Bad);
    }
}

#[test]
fn a_short_recovery_does_not_shorten_the_next_pause_and_a_lasting_one_does() {
    for (closed_for, pause) in [(29, 2), (30, 1)] {
        let start = Instant::now();
        let mut machine = opened(start);
        let now = start + SECOND;
        for _ in 0..63 {
            call(&mut machine, now, Verdict::Good);
        }
        assert_eq!(machine.state(now), BreakerState::Closed);
        let later = now + closed_for * SECOND;
        for _ in 0..5 {
            call(&mut machine, later, Verdict::Unconnected);
        }
        assert_eq!(
            machine.admit(later),
            Admission::Refused(later + pause * SECOND)
        );
    }
}

#[test]
fn a_probe_that_was_cancelled_gives_its_place_to_another() {
    let start = Instant::now();
    let mut machine = opened(start);
    let now = start + SECOND;
    call(&mut machine, now, Verdict::Unknown);
    assert_eq!(machine.state(now), BreakerState::HalfOpen);
    let _ = go(&mut machine, now);
    assert_eq!(machine.admit(now), Admission::Full);
}

#[test]
fn an_answer_in_the_election_lane_after_silence_ends_a_pause() {
    let start = Instant::now();
    let mut machine = opened(start);
    machine.heard(start, false);
    assert_eq!(
        machine.state(start),
        BreakerState::Open,
        "it had answers all the time"
    );
    machine.heard(start, true);
    assert_eq!(machine.state(start), BreakerState::HalfOpen);
    let probe = go(&mut machine, start);
    assert_eq!(machine.admit(start), Admission::Full, "no stampede");
    machine.ended(start, probe, Verdict::Bad, exact);
    assert_eq!(
        machine.admit(start),
        Admission::Refused(start + 2 * SECOND),
        "the server is not well, whatever was heard"
    );
}

#[test]
fn who_has_little_to_send_need_not_climb_the_whole_ramp() {
    let start = Instant::now();
    let mut machine = opened(start);
    let now = start + SECOND;
    machine.heard(now + 60 * SECOND, false);
    let probe = go(&mut machine, now);
    machine.heard(now + 60 * SECOND, false);
    assert_eq!(
        machine.state(now),
        BreakerState::HalfOpen,
        "nothing is proved"
    );
    machine.ended(now, probe, Verdict::Good, exact);
    call(&mut machine, now + 9 * SECOND, Verdict::Good);
    machine.heard(now + 9 * SECOND, false);
    assert_eq!(machine.state(now), BreakerState::HalfOpen, "too early");
    machine.heard(now + 10 * SECOND, false);
    assert_eq!(machine.state(now), BreakerState::Closed);
}

#[test]
fn a_slow_answer_from_before_says_nothing_about_now() {
    let start = Instant::now();
    let mut machine = Machine::new(start, BreakerLimits::DEFAULT);
    let slow = go(&mut machine, start);
    for _ in 0..5 {
        call(&mut machine, start, Verdict::Unconnected);
    }
    let now = start + SECOND;
    let probe = go(&mut machine, now);
    machine.ended(now, slow, Verdict::Bad, exact);
    assert_eq!(machine.state(now), BreakerState::HalfOpen);
    machine.ended(now, slow, Verdict::Good, exact);
    assert_eq!(
        machine.admit(now),
        Admission::Full,
        "the probe is still under way"
    );
    machine.ended(now, probe, Verdict::Good, exact);
    assert!(matches!(machine.admit(now), Admission::Go(_)));
}

proptest! {
    /// Against any history: while open nothing goes out, while half-open never more than the round
    /// allows, and it always comes back once the server is well.
    #[test]
    fn it_lets_out_what_it_should_and_never_sticks(
        steps in proptest::collection::vec((0_u64..3000, 0_u8..8, 0_f64..1.0), 1..300),
    ) {
        let mut now = Instant::now();
        let mut machine = Machine::new(now, BreakerLimits::DEFAULT);
        let mut under_way: Vec<u64> = Vec::new();
        for (millis, op, chance) in steps {
            now += Duration::from_millis(millis);
            let before = machine.state(now);
            if op < 2 {
                match machine.admit(now) {
                    Admission::Go(epoch) => {
                        prop_assert!(before != BreakerState::Open);
                        under_way.push(epoch);
                        let probing = under_way.iter().filter(|e| **e == epoch).count();
                        prop_assert!(before == BreakerState::Closed || probing <= RAMP_TOP as usize);
                    }
                    Admission::Refused(until) => {
                        prop_assert_eq!(before, BreakerState::Open);
                        prop_assert!(until > now && until <= now + BreakerLimits::DEFAULT.pause_max.mul_f64(1.0 + JITTER));
                    }
                    Admission::Full => prop_assert_eq!(before, BreakerState::HalfOpen),
                }
            } else if op >= 6 {
                machine.heard(now, op == 7);
                // It sends nothing by itself.
                prop_assert!(before == BreakerState::Closed || machine.state(now) != BreakerState::Open || op == 6);
            } else if !under_way.is_empty() {
                let epoch = under_way.remove(usize::from(op) % under_way.len());
                let verdict = [Verdict::Good, Verdict::Bad, Verdict::Unconnected, Verdict::Unknown][usize::from(op) - 2];
                machine.ended(now, epoch, verdict, |pause| pause.mul_f64(1.0 + JITTER * chance));
            }
        }
        for epoch in under_way.drain(..) {
            machine.ended(now, epoch, Verdict::Unknown, exact);
        }
        now += 2 * BreakerLimits::DEFAULT.pause_max;
        for _ in 0..2 * RAMP_TOP {
            if let Admission::Go(epoch) = machine.admit(now) {
                machine.ended(now, epoch, Verdict::Good, exact);
            }
        }
        prop_assert_eq!(machine.state(now), BreakerState::Closed);
    }
}

#[test]
fn the_limits_that_are_asked_for_decide() {
    let now = Instant::now();
    let limits = BreakerLimits {
        calls: 4,
        connections: 2,
        pause: 3 * SECOND,
        pause_max: 4 * SECOND,
    };
    let mut machine = Machine::new(now, limits);
    for _ in 0..2 {
        assert_eq!(machine.state(now), BreakerState::Closed);
        call(&mut machine, now, Verdict::Unconnected);
    }
    assert_eq!(machine.open_until(now), Some(now + 3 * SECOND));
    let again = now + 3 * SECOND;
    call(&mut machine, again, Verdict::Bad);
    assert_eq!(
        machine.open_until(again),
        Some(again + 4 * SECOND),
        "not 6 s"
    );
    let mut machine = Machine::new(now, limits);
    for _ in 0..4 {
        assert_eq!(machine.state(now), BreakerState::Closed);
        call(&mut machine, now, Verdict::Bad);
    }
    assert_eq!(machine.state(now), BreakerState::Open);
}
