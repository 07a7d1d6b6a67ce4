use super::*;
use proptest::prelude::*;

const LOW: Priority = Priority::Low;
const NORMAL: Priority = Priority::Normal;
const HIGH: Priority = Priority::High;

fn due(turn: Turn) -> Instant {
    match turn {
        Turn::At(due) => due,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_burst_then_the_rate() {
    let start = Instant::now();
    let mut bucket = Bucket::new(10.0, 2, start);
    let tickets = [0, 1, 2].map(|_| bucket.join(start, NORMAL));
    let behind = bucket.poll(start, tickets[1]);
    assert_eq!(behind, Turn::Behind(tickets[0]), "first come, first served");
    assert_eq!(bucket.poll(start, tickets[0]), Turn::Granted);
    assert_eq!(bucket.poll(start, tickets[1]), Turn::Granted);
    let due = due(bucket.poll(start, tickets[2]));
    assert_eq!((due - start).as_millis(), 100);
    assert_eq!(bucket.poll(due, tickets[2]), Turn::Granted);
}

#[test]
fn a_waiter_that_leaves_gives_its_place_back() {
    let start = Instant::now();
    let mut bucket = Bucket::new(1.0, 1, start);
    let [first, second, third] = [0, 1, 2].map(|_| bucket.join(start, NORMAL));
    assert_eq!(bucket.poll(start, first), Turn::Granted);
    bucket.leave(second);
    assert_eq!(bucket.first(start), Some(third));
    let later = start + Duration::from_millis(1001);
    assert_eq!(bucket.poll(later, third), Turn::Granted);
}

#[test]
fn status_goes_before_the_rest_and_events_last_but_not_for_ever() {
    let start = Instant::now();
    let mut bucket = Bucket::new(1.0, 1, start);
    let event = bucket.join(start, LOW);
    let child = bucket.join(start, NORMAL);
    let status = bucket.join(start, HIGH);
    assert_eq!(bucket.poll(start, status), Turn::Granted);
    assert_eq!(bucket.poll(start, event), Turn::Behind(child));
    let later = start + AGED;
    let newer = bucket.join(later, HIGH);
    assert_eq!(
        bucket.poll(later, newer),
        Turn::Behind(event),
        "it waited longest"
    );
    assert_eq!(bucket.poll(later, event), Turn::Granted);
    assert_eq!(bucket.first(later), Some(child));
}

#[test]
fn a_429_halves_the_rate_once_a_second_and_successes_raise_it_to_the_limit() {
    let start = Instant::now();
    let mut bucket = Bucket::new(64.0, 100, start);
    bucket.overloaded(start);
    bucket.overloaded(start + Duration::from_millis(999));
    assert!((bucket.rate() - 32.0).abs() < 1e-9, "{}", bucket.rate());
    assert!(
        bucket.tokens < 33.0,
        "no burst of what was saved up: {}",
        bucket.tokens
    );
    bucket.overloaded(start + SETTLE);
    assert!((bucket.rate() - 16.0).abs() < 1e-9);
    for second in 2..60 {
        bucket.overloaded(start + second * SETTLE);
    }
    assert!((bucket.rate() - 1.0).abs() < 1e-9, "the floor");

    let mut now = start + 60 * SETTLE;
    let mut seconds = 0.0;
    while bucket.rate() < 64.0 {
        let pause = 1.0 / bucket.rate();
        now += Duration::from_secs_f64(pause);
        seconds += pause;
        bucket.succeeded(now);
    }
    assert!(
        (15.0..25.0).contains(&seconds),
        "{seconds} s from the floor to the limit"
    );
}

proptest! {
    #[test]
    fn never_over_the_rate_plus_burst_and_nobody_is_lost(
        steps in proptest::collection::vec((0_u64..400, 0_u8..8), 1..200),
    ) {
        let (rate, burst) = (10.0, 5);
        let start = Instant::now();
        let mut now = start;
        let mut bucket = Bucket::new(rate, burst, start);
        let mut waiting: Vec<Ticket> = Vec::new();
        let mut granted: Vec<Instant> = Vec::new();
        for (millis, op) in steps {
            now += Duration::from_millis(millis);
            match op {
                0..3 => waiting.push(bucket.join(now, [LOW, NORMAL, HIGH][usize::from(op)])),
                3 => if let Some(last) = waiting.pop() { bucket.leave(last) },
                4 => bucket.overloaded(now),
                5 => bucket.succeeded(now),
                _ => {}
            }
            while let Some(first) = bucket.first(now) {
                let place = waiting.iter().position(|ticket| *ticket == first);
                prop_assert!(place.is_some(), "one that left is first");
                match bucket.poll(now, first) {
                    Turn::Granted => { granted.push(now); waiting.remove(place.unwrap()); }
                    Turn::At(due) => { prop_assert!(due > now); break; }
                    Turn::Behind(_) => prop_assert!(false, "the first is behind another"),
                }
            }
            prop_assert_eq!(bucket.queues.iter().map(VecDeque::len).sum::<usize>(), waiting.len());
            prop_assert!(bucket.rate() <= rate && bucket.rate() >= rate * FLOOR);
        }
        for (i, from) in granted.iter().enumerate() {
            for (j, to) in granted.iter().enumerate().skip(i) {
                let allowed = (*to - *from).as_secs_f64() * rate + f64::from(burst) + 1e-6;
                prop_assert!((j - i + 1) as f64 <= allowed);
            }
        }
    }

    /// However many of higher priorities come, each waiter is served within its age and what was
    /// there before it.
    #[test]
    fn nobody_starves(before in 0_usize..10) {
        let start = Instant::now();
        let mut now = start;
        let mut bucket = Bucket::new(10.0, 1, start);
        for _ in 0..before {
            bucket.join(now, HIGH);
        }
        let event = bucket.join(now, LOW);
        let mut served = None;
        for _ in 0..100 {
            bucket.join(now, HIGH);
            let first = bucket.first(now).unwrap();
            match bucket.poll(now, first) {
                Turn::Granted if first == event => { served = Some(now); break; }
                Turn::At(due) => now = due,
                _ => {}
            }
        }
        let waited = served.expect("served at last") - start;
        prop_assert!(waited <= AGED + Duration::from_millis(100 * (before as u64 + 2)), "{:?}", waited);
    }
}
