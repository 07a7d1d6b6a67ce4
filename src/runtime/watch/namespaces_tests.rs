//! One store, and a loop for each of its namespaces.

use super::tests::{Play, Reply, Script, item_in, page};
use super::*;
use crate::client::Jitter;
use crate::runtime::Store;
use crate::runtime::testing::Thing;
use crate::runtime::watch::source::PartScope;
use crate::runtime::watch::status;
use std::sync::{Arc, Mutex};

fn statuses() -> [Status; 2] {
    let parts = ["x", "y"].map(|namespace| PartScope {
        namespace: Some(namespace.to_owned()),
        label_selector: None,
        field_selector: None,
    });
    let statuses = Status::of_parts(Thing::RESOURCE, &parts);
    statuses.try_into().ok().unwrap()
}

fn script(replies: impl IntoIterator<Item = Reply>) -> Script {
    let script = Script::default();
    script.replies.lock().unwrap().extend(replies);
    script
}

fn machine() -> Machine {
    Machine::paging(Jitter::seeded(1))
}

fn keys(store: &Store<Thing>) -> Vec<String> {
    let objects = store.list().unwrap().into_iter();
    objects
        .map(|object| object.metadata.key().to_string())
        .collect()
}

#[tokio::test(start_paused = true)]
async fn cr_1653_a_namespace_that_is_forbidden_holds_up_no_other_and_is_named() {
    let forbidden = || {
        Reply::Page(Err(Error::Forbidden {
            verb: "list",
            resource: "things".to_owned(),
            namespace: Some("y".to_owned()),
            message: "RBAC".to_owned(),
        }))
    };
    let x = script([
        page(3, None, vec![item_in("x", "a", 1), item_in("x", "b", 2)]),
        Reply::Watch(Ok(vec![
            Play::Modified(item_in("x", "a", 4)),
            Play::Expired,
        ])),
        page(9, None, vec![item_in("x", "a", 4)]),
    ]);
    let mut replies: Vec<_> = (0..4).map(|_| forbidden()).collect();
    replies.push(page(12, None, vec![item_in("y", "c", 7)]));
    let y = script(replies);
    let (store, [of_x, of_y]) = (Store::<Thing>::new(), statuses());
    let changes = Arc::new(Mutex::new(Vec::new()));
    let (noted, reader) = (Arc::clone(&changes), store.clone());
    let handler = move |change: Change<Thing>| {
        if let Change::Deleted { last } = change {
            noted
                .lock()
                .unwrap()
                .push((last.metadata.key().to_string(), reader.is_synced()));
        }
    };
    let parts = [store.part(Some("x")), store.part(Some("y"))];
    let [part_x, part_y] = parts;
    let both = async {
        tokio::join!(
            drive(machine(), &x, part_x, &handler, &of_x),
            drive(machine(), &y, part_y, &handler, &of_y),
        )
    };
    let unsynced = async {
        while changes.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(10)).await;
        }
        let verdict = status::all([of_x.readiness(), of_y.readiness()]).unwrap_err();
        assert!(
            verdict.contains("things in namespace y: not synced"),
            "{verdict}"
        );
        assert!(!verdict.contains("namespace x"), "{verdict}");
    };
    let run = async {
        tokio::select! {
            _ = both => {}
            () = async { unsynced.await; store.synced().await } => {}
        }
    };
    timeout(Duration::from_mins(10), run).await.unwrap();
    assert_eq!(
        *changes.lock().unwrap(),
        [("x/b".to_owned(), false)],
        "x goes on, while y is not there"
    );
    assert_eq!(keys(&store), ["x/a", "y/c"]);
    assert!(status::all([of_x.readiness(), of_y.readiness()]).is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_own_write_is_not_shown_by_another_namespaces_watch() {
    let [of_x, of_y] = statuses();
    let store = Store::<Thing>::new();
    let x = script([
        page(3, None, vec![]),
        Reply::Watch(Ok(vec![Play::Hang])),
        page(60, None, vec![item_in("x", "a", 50)]),
    ]);
    let y = script([
        page(3, None, vec![]),
        Reply::Watch(Ok(vec![Play::Modified(item_in("y", "b", 90)), Play::Hang])),
    ]);
    let parts = [store.part(Some("x")), store.part(Some("y"))];
    let [part_x, part_y] = parts;
    let key = ObjectKey::new("x", "a");
    let expecting = async {
        store.synced().await;
        store.expect(&key, "a", "50");
        store.caught_up(&key).await
    };
    tokio::select! {
        () = drive(machine(), &x, part_x, &|_| {}, &of_x) => {}
        () = drive(machine(), &y, part_y, &|_| {}, &of_y) => {}
        seen = expecting => assert!(!seen),
    }
}

#[test]
fn a_cache_is_as_fresh_as_its_stalest_namespace() {
    let [of_x, of_y] = statuses();
    assert!(of_x.contact(1, 100.0) < 1.0, "y never had contact");
    assert!((of_y.contact(1, 110.0) - 100.0).abs() < 1.0);
    assert!((of_y.contact(1, 120.0) - 100.0).abs() < 1.0);
    assert!((of_x.contact(1, 130.0) - 120.0).abs() < 1.0);
}
