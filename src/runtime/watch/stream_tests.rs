//! Watches that begin with all objects, and loops whose server is back.

use super::tests::{Play, Reply, Script, item, modified, page, play_from};
use super::*;
use crate::client::Jitter;
use crate::runtime::Store;
use crate::runtime::testing::{Thing, initial_end, raw};
use std::collections::VecDeque;

#[tokio::test(start_paused = true)]
async fn a_watch_that_begins_with_all_objects_fills_the_store_and_sweeps_it() {
    let all = |names: &[&str], version| {
        let mut plays: Vec<_> = names.iter().map(|name| modified(name, name, 3)).collect();
        plays.push(Play::Bookmark(initial_end(version)));
        plays
    };
    let mut first = all(&["a", "b"], 4);
    first.extend([modified("c", "c", 5), Play::Expired]);
    let mut second = all(&["b", "c"], 9);
    second.push(Play::Hang);
    let replies = vec![Reply::Watch(Ok(first)), Reply::Watch(Ok(second))];
    let played = play_from(Machine::new(Jitter::seeded(1)), replies).await;
    assert_eq!(played.calls, ["watch all", "watch all", "watch 9"]);
    assert_eq!(played.changes, ["+a@3", "+b@3", "+c@5", "c@5>c@3", "-a@3"]);
    assert!(played.store.is_synced());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_read_before_all_objects_came_and_a_server_that_never_says_so_is_listed() {
    // An older server: objects, then events, then an ordinary bookmark; or nothing at all.
    for plays in [
        vec![modified("a", "a", 1), Play::Bookmark(raw("", "", "", 7))],
        vec![modified("a", "a", 1), Play::Hang],
        vec![],
    ] {
        let replies = vec![
            Reply::Watch(Ok(plays)),
            page(8, None, vec![item("a", "a", 1)]),
        ];
        let played = play_from(Machine::new(Jitter::seeded(1)), replies).await;
        assert_eq!(played.calls, ["watch all", "list -", "watch 8"]);
    }
    let replies = vec![Reply::Watch(Ok(vec![modified("a", "a", 1), Play::Hang]))];
    let played = play_from(Machine::new(Jitter::seeded(1)), replies).await;
    assert!(!played.store.is_synced());
}

/// A first object's version says nothing of the others: an own write is not shown by it.
#[tokio::test(start_paused = true)]
async fn first_objects_meet_no_expectation_but_their_own() {
    let script = Script::default();
    script.replies.lock().unwrap().extend([
        page(1, None, vec![item("a", "a", 1)]),
        Reply::Watch(Ok(vec![modified("a", "a", 2), Play::Expired])),
        Reply::Watch(Ok(vec![modified("b", "b", 90), Play::Hang])),
    ]);
    let store = Store::<Thing>::new();
    let status = Status::alone(Thing::RESOURCE);
    let mut machine = Machine::new(Jitter::seeded(1));
    machine.watch_ended(
        Instant::now(),
        Duration::ZERO,
        0,
        false,
        End::Failed(Failure::Throttled(None)),
    );
    let key = ObjectKey::new("ns", "c");
    let expecting = async {
        store.synced().await;
        store.expect(&key, "c", "50");
        store.caught_up(&key).await
    };
    tokio::select! {
        () = drive(machine, &script, store.part(None), &|_| {}, &status) => {}
        seen = expecting => assert!(!seen),
    }
}

#[tokio::test(start_paused = true)]
async fn once_the_server_is_back_no_loop_waits_for_the_end_of_its_delay() {
    let away = || Error::Unavailable {
        what: "list".to_owned(),
        code: None,
        unsent: true,
        message: "connection refused".to_owned(),
    };
    let script = Script::default();
    let failures = (0..100).map(|_| Reply::Page(Err(away())));
    script.replies.lock().unwrap().extend(failures);
    let store = Store::<Thing>::new();
    let status = Status::alone(Thing::RESOURCE);
    let machine = Machine::paging(Jitter::seeded(1));
    let returning = async {
        // By then the delays are the longest: it is within one of more than 15 s.
        sleep(Duration::from_mins(5)).await;
        let failed = script.calls.lock().unwrap().len();
        sleep(Duration::from_secs(1)).await;
        assert_eq!(script.calls.lock().unwrap().len(), failed);
        let back = Instant::now();
        *script.replies.lock().unwrap() = VecDeque::from([page(1, None, vec![])]);
        script.back.notify_one();
        store.synced().await;
        back.elapsed()
    };
    tokio::select! {
        () = drive(machine, &script, store.part(None), &|_| {}, &status) => {}
        took = returning => assert!(took <= Duration::from_secs(1), "{took:?}"),
    }
}
