use super::*;
use crate::runtime::queue::alone::Alone;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

fn core() -> (Alone, Instant) {
    (Alone::new(Jitter::seeded(3)), Instant::now())
}

fn take(core: &mut Alone, now: Instant) -> Option<String> {
    core.promote(now);
    core.take(now).map(|item| item.key.name.to_string())
}

#[test]
fn cr_3363_higher_priorities_go_first_and_a_raise_counts() {
    let (mut core, now) = core();
    core.add(now, key("low"), Priority::Low);
    core.add(now, key("normal"), Priority::Normal);
    core.add(now, key("raised"), Priority::Low);
    core.add(now, key("high"), Priority::High);
    core.add(now, key("raised"), Priority::High);
    core.add(now, key("raised"), Priority::Low);
    let order: Vec<_> = std::iter::from_fn(|| take(&mut core, now)).collect();
    assert_eq!(order, ["high", "raised", "normal", "low"]);
}

#[test]
fn a_lower_item_waits_no_longer_than_its_bound_behind_higher_ones() {
    let (mut core, start) = core();
    core.add(start, key("low"), Priority::Low);
    let mut served = 0;
    for i in 0..1000 {
        let now = start + Duration::from_millis(10 * i);
        core.add(now, key(&format!("a{i}")), Priority::High);
        core.add(now, key(&format!("b{i}")), Priority::High);
        if take(&mut core, now).as_deref() == Some("low") {
            served = i;
            break;
        }
    }
    assert!(
        (500..=504).contains(&served),
        "served after {served} others"
    );
}

#[test]
fn cr_392_success_resets_the_failure_count() {
    let (mut core, mut now) = core();
    core.add(now, key("a"), Priority::Normal);
    for failures in 1..8 {
        take(&mut core, now).unwrap();
        now += core.done(now, &key("a"), Finish::Failed).unwrap();
        assert_eq!(core.failures(&key("a")), failures);
    }
    take(&mut core, now).unwrap();
    let after = Duration::from_secs(9);
    assert_eq!(
        core.done(now, &key("a"), Finish::SuccessAfter(after)),
        Some(after)
    );
    assert_eq!(core.failures(&key("a")), 0);
}

#[test]
fn k8s_132805_changes_during_a_backoff_do_not_raise_it_and_do_not_spin() {
    let (mut core, mut now) = core();
    let a = key("a");
    core.add(now, a.clone(), Priority::Normal);
    while core.failures(&a) < 16 {
        core.promote(now);
        core.take(now).unwrap();
        now += core.done(now, &a, Finish::Failed).unwrap();
    }
    // The next backoff is drawn from up to 2 min 43 s; with this seed it is longer than 5 s.
    core.promote(now);
    core.take(now).unwrap();
    assert!(core.done(now, &a, Finish::Failed).unwrap() > Duration::from_secs(10));
    let mut runs = 0;
    for _ in 0..500 {
        core.add(now, a.clone(), Priority::Normal);
        if take(&mut core, now).is_some() {
            runs += 1;
            core.add(now, a.clone(), Priority::Low);
            core.done(now, &a, Finish::Failed);
        }
        now += Duration::from_millis(10);
    }
    assert!((4..=5).contains(&runs), "{runs} runs in 5 s");
    assert_eq!(core.failures(&a), 17);
    core.add(now, a.clone(), Priority::High);
    assert!(
        take(&mut core, now).is_some(),
        "a spec change wakes it at once"
    );
}

#[test]
fn conflicts_are_retried_at_once_a_few_times() {
    let (mut core, now) = core();
    core.add(now, key("a"), Priority::Normal);
    for _ in 0..CONFLICT_RETRIES {
        take(&mut core, now).unwrap();
        assert_eq!(
            core.done(now, &key("a"), Finish::Conflict),
            Some(Duration::ZERO)
        );
    }
    take(&mut core, now).unwrap();
    assert!(core.done(now, &key("a"), Finish::Conflict).unwrap() > Duration::ZERO);
}

#[test]
fn a_permanent_failure_waits_for_a_change() {
    let (mut core, now) = core();
    core.add(now, key("a"), Priority::Normal);
    take(&mut core, now).unwrap();
    assert_eq!(core.done(now, &key("a"), Finish::Permanent), None);
    assert!(core.is_empty(), "and nothing of it is kept");
    core.add(now, key("a"), Priority::Low);
    assert!(take(&mut core, now).is_some());
}

/// Found by the model: a conflict between the failure and the interruption.
#[test]
fn an_interrupted_run_ends_no_hold() {
    let (now, a) = (Instant::now(), ObjectKey::new("ns", "a"));
    let mut core = Alone::new(Jitter::seeded(0));
    core.add(now, a.clone(), Priority::Low);
    core.take(now).unwrap();
    core.add(now, a.clone(), Priority::High);
    core.done(now, &a, Finish::Failed);
    let until = core.until(&a).unwrap();
    assert!(until > now);
    for finish in [Finish::Conflict, Finish::Interrupted] {
        core.take(now).unwrap();
        core.done(now, &a, finish);
        assert_eq!(core.until(&a), Some(until));
    }
    assert!(!core.add(now, a.clone(), Priority::Low), "held");
    assert_eq!(core.next_due(), Some(until));
    assert!(core.add(now, a, Priority::High), "urgent");
}

#[test]
fn cr_3261_one_tenants_many_do_not_delay_anothers_first() {
    let (mut core, now) = core();
    for i in 0..10_000 {
        let key = ObjectKey::new("a", &i.to_string());
        core.add(now, key, Priority::Normal);
    }
    take(&mut core, now).unwrap();
    core.add(now, ObjectKey::new("b", "first"), Priority::Normal);
    core.add(now, ObjectKey::new("b", "second"), Priority::Normal);
    let order: Vec<_> = std::iter::from_fn(|| take(&mut core, now)).collect();
    assert_eq!(order[..5], ["1", "first", "2", "second", "3"]);
    assert_eq!(order.len(), 10_001);
}

/// Also where only aged items of a level get their turn.
#[test]
fn tenants_take_turns_behind_higher_items_too() {
    let (mut core, mut now) = core();
    for i in 0..1000 {
        core.add(now, ObjectKey::new("a", &i.to_string()), Priority::Low);
    }
    now += AGE_LIMIT;
    core.add(now, ObjectKey::new("b", "other"), Priority::Low);
    let mut low = Vec::new();
    for i in 0..20 {
        core.add(now, key(&format!("high{i}")), Priority::High);
        low.extend(take(&mut core, now).filter(|name| !name.starts_with("high")));
    }
    assert_eq!(low[..3], ["0", "other", "1"]);
}

#[test]
fn a_namespace_whose_keys_are_done_leaves_nothing_behind() {
    let (mut core, now) = core();
    for i in 0..1000 {
        let key = ObjectKey::new(&format!("ns{i}"), "a");
        core.add(now, key.clone(), Priority::Normal);
        core.promote(now);
        core.take(now).unwrap();
        assert_eq!(core.parts().1.namespaces(), 1);
        core.done(now, &key, Finish::Success);
    }
    assert_eq!(core.parts().1.namespaces(), 0);
    assert!(core.is_empty());
}

/// Clocks are read before the lock is taken: a later caller may tell an earlier time.
#[test]
fn a_time_that_goes_back_keeps_nothing_waiting() {
    let (mut core, start) = core();
    core.add(start, key("a"), Priority::Normal);
    take(&mut core, start).unwrap();
    core.add(start + Duration::from_nanos(5), key("a"), Priority::Normal);
    let again = core.done(start, &key("a"), Finish::Success);
    assert_eq!(again, Some(Duration::ZERO));
    assert_eq!(core.ready(), 1, "and not for a timer to find");
}
