use std::time::Duration;

use tokio::time::Instant;

use super::*;
use crate::runtime::Text;
use crate::runtime::testing::{Thing, owned, thing};

#[test]
fn cr_3424_reading_before_the_first_list_is_an_error_not_an_empty_list() {
    let store = Store::<Thing>::new();
    store.apply(thing("ns", "a", "u1", 1));
    let key = ObjectKey::new("ns", "a");
    assert_eq!(store.get(&key).unwrap_err().kind, "things");
    assert!(store.list().is_err());
    assert!(store.in_namespace("ns").is_err());
    assert!(store.owned_by("o").is_err());
    store.part(None).mark_synced();
    assert!(store.get(&key).unwrap().is_some());
}

#[test]
fn cr_1274_readers_share_one_object() {
    let store = Store::of([thing("ns", "a", "u1", 1)]);
    let key = ObjectKey::new("ns", "a");
    let (one, two) = (
        store.get(&key).unwrap().unwrap(),
        store.get(&key).unwrap().unwrap(),
    );
    assert!(Arc::ptr_eq(&one, &two));
}

#[tokio::test(start_paused = true)]
async fn cr_1464_a_reconcile_sees_its_own_write_and_other_keys_do_not_wait() {
    let store = Store::<Thing>::of([]);
    let (a, b) = (ObjectKey::new("ns", "a"), ObjectKey::new("ns", "b"));
    store.expect(&a, "u1", "7");
    assert!(store.caught_up(&b).await);

    let begun = Instant::now();
    let late = store.clone();
    let deliver = async move {
        tokio::time::sleep(Duration::from_millis(30)).await;
        late.apply(thing("ns", "a", "u1", 7));
    };
    let (seen, ()) = tokio::join!(store.caught_up(&a), deliver);
    assert!(seen);
    assert_eq!(begun.elapsed(), Duration::from_millis(30));
    assert!(store.get(&a).unwrap().is_some());
    store.expect(&a, "u1", "7");
    assert!(store.caught_up(&a).await);
    assert_eq!(
        begun.elapsed(),
        Duration::from_millis(30),
        "seen before it was expected"
    );
}

#[tokio::test(start_paused = true)]
async fn a_write_that_the_watch_never_shows_is_waited_for_five_seconds() {
    let store = Store::<Thing>::of([thing("ns", "a", "u1", 1)]);
    let a = ObjectKey::new("ns", "a");
    let begun = Instant::now();
    store.expect_deleted(&a, "u1");
    let (seen, ()) = tokio::join!(store.caught_up(&a), store.doubted());
    assert!(!seen);
    assert_eq!(begun.elapsed(), Duration::from_secs(5));
    assert!(!store.caught_up(&a).await, "the store is still behind");
    assert_eq!(
        begun.elapsed(),
        Duration::from_secs(5),
        "and is not waited for again"
    );
    store.remove(&a, Some("u1"));
    assert!(store.caught_up(&a).await);
}

#[test]
fn an_index_that_is_declared_follows_every_change() {
    let store = Store::<Thing>::new();
    store.apply(thing("x", "a", "1", 2));
    let parity = |thing: &Thing| {
        let word = if thing.value.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        };
        [Text::from(word), Text::from(&*thing.value.to_string())]
    };
    let by_value = store.index_by(parity);
    assert_eq!(by_value.get("even").unwrap_err().kind, "things");
    store.part(None).mark_synced();
    let names = |key: &str| -> Vec<_> {
        let found = by_value.get(key).unwrap();
        found.iter().map(|o| o.metadata.name.to_string()).collect()
    };
    assert_eq!(names("even"), ["a"], "it was there before");
    store.apply(thing("x", "c", "3", 4));
    store.apply(thing("x", "b", "2", 6));
    assert_eq!(names("even"), ["a", "b", "c"]);
    store.apply(thing("x", "a", "1", 7));
    assert_eq!(
        (names("even"), names("7"), names("2")),
        (vec!["b".into(), "c".into()], vec!["a".into()], vec![])
    );
    store.remove(&ObjectKey::new("x", "a"), None);
    assert!(names("odd").is_empty());
}

#[test]
fn what_the_store_takes_is_told_and_goes_with_its_objects() {
    let store = Store::<Thing>::new();
    let bytes = || store.read().bytes();
    store.apply(owned("x", "a", "1", 1, &["o"]));
    let one = bytes();
    assert!(one > size_of::<Thing>() && one < 1024, "{one}");
    let long = "l".repeat(10_000);
    store.apply(owned("x", "a", "1", 2, &[&long]));
    assert!(
        bytes() >= one + 10_000,
        "a larger version counts, the older no more"
    );
    store.apply(owned("x", "a", "1", 3, &["o"]));
    assert_eq!(bytes(), one);
    store.remove(&ObjectKey::new("x", "a"), None);
    assert_eq!(bytes(), 0);
}
