use super::*;
use crate::client::{Jitter, read_object};
use crate::runtime::Store;
use crate::runtime::testing::{Thing, raw, raw_with};
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What the API answers, in order; after the last answer it hangs.
pub(super) enum Reply {
    Page(Result<ListPage, Error>),
    Watch(Result<Vec<Play>, Error>),
}

pub(super) enum Play {
    Modified(Box<RawValue>),
    Deleted(Box<RawValue>),
    Bookmark(Box<RawValue>),
    /// An ERROR event.
    Expired,
    Error(Error),
    /// No frame ever again, and no end.
    Hang,
}

#[derive(Clone, Default)]
pub(super) struct Script {
    pub(super) back: Arc<tokio::sync::Notify>,
    pub(super) replies: Arc<Mutex<VecDeque<Reply>>>,
    pub(super) calls: Arc<Mutex<Vec<String>>>,
}

impl Script {
    fn note(&self, call: String) -> Option<Reply> {
        self.calls.lock().unwrap().push(call);
        self.replies.lock().unwrap().pop_front()
    }
}

impl Source for Script {
    type Frames = VecDeque<Play>;

    async fn page<T: DeserializeOwned + Send>(
        &self,
        request: PageRequest,
    ) -> Result<ListPage<T>, Error> {
        let token = request.continue_token.as_deref().unwrap_or("-");
        match self.note(format!("list {token}")) {
            Some(Reply::Page(page)) => page.map(|page| ListPage {
                resource_version: page.resource_version,
                continue_token: page.continue_token,
                items: page
                    .items
                    .into_iter()
                    .flatten()
                    .map(|raw| read_object(&raw))
                    .collect(),
            }),
            Some(Reply::Watch(_)) => panic!("a watch was expected"),
            None => std::future::pending().await,
        }
    }

    async fn watch(&self, request: WatchRequest) -> Result<Self::Frames, Error> {
        match self.note(format!(
            "watch {}",
            request.resource_version.as_deref().unwrap_or("all")
        )) {
            Some(Reply::Watch(watch)) => watch.map(VecDeque::from),
            Some(Reply::Page(_)) => panic!("a list was expected"),
            None => std::future::pending().await,
        }
    }

    async fn back(&self) {
        self.back.notified().await;
    }
}

impl Frames for VecDeque<Play> {
    async fn next<T: DeserializeOwned + Send>(&mut self) -> Option<Result<WatchFrame<T>, Error>> {
        match self.pop_front()? {
            Play::Modified(raw) => Some(Ok(WatchFrame::Modified(read_object(&raw)))),
            Play::Deleted(raw) => Some(Ok(WatchFrame::Deleted(read_object(&raw)))),
            Play::Bookmark(raw) => Some(Ok(WatchFrame::Bookmark(raw))),
            Play::Expired => Some(Ok(WatchFrame::Error(gone()))),
            Play::Error(error) => Some(Err(error)),
            Play::Hang => std::future::pending().await,
        }
    }
}

pub(super) fn page(version: u64, token: Option<&str>, items: Vec<Box<RawValue>>) -> Reply {
    Reply::Page(Ok(ListPage {
        resource_version: version.to_string(),
        continue_token: token.map(str::to_owned),
        items: items.into_iter().map(Ok).collect(),
    }))
}

pub(super) fn item(name: &str, uid: &str, version: u64) -> Box<RawValue> {
    raw("ns", name, uid, version)
}

pub(super) fn item_in(namespace: &str, name: &str, version: u64) -> Box<RawValue> {
    raw(namespace, name, name, version)
}

pub(super) fn modified(name: &str, uid: &str, version: u64) -> Play {
    Play::Modified(item(name, uid, version))
}

fn gone() -> Error {
    Error::Gone {
        what: "watch".to_owned(),
    }
}

fn describe(change: &Change<Thing>) -> String {
    let show = |thing: &Thing| format!("{}@{}", thing.metadata.name, thing.value);
    match change {
        Change::Applied { old: None, new } => format!("+{}", show(new)),
        Change::Applied {
            old: Some(old),
            new,
        } => format!("{}>{}", show(old), show(new)),
        Change::Deleted { last } => format!("-{}", show(last)),
    }
}

pub(super) struct Played {
    pub(super) calls: Vec<String>,
    pub(super) changes: Vec<String>,
    pub(super) store: Store<Thing>,
    pub(super) status: Status,
}

/// Plays the script for ten minutes.
pub(super) async fn play(replies: Vec<Reply>) -> Played {
    play_from(Machine::paging(Jitter::seeded(1)), replies).await
}

pub(super) async fn play_from(machine: Machine, replies: Vec<Reply>) -> Played {
    let script = Script::default();
    script.replies.lock().unwrap().extend(replies);
    let store = Store::new();
    let status = Status::alone(Thing::RESOURCE);
    let changes = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&changes);
    let handler = move |change: Change<Thing>| seen.lock().unwrap().push(describe(&change));
    let drive = drive(machine, &script, store.part(None), &handler, &status);
    let _ = timeout(Duration::from_mins(10), drive).await;
    let (calls, changes) = (script.calls.lock().unwrap(), changes.lock().unwrap());
    Played {
        calls: calls.clone(),
        changes: changes.clone(),
        store,
        status,
    }
}

#[tokio::test(start_paused = true)]
async fn kube_1042_410_in_each_of_its_forms_is_one_list_that_only_tells_differences() {
    for form in ["answer", "event", "stream"] {
        let watch = match form {
            "answer" => vec![
                Reply::Watch(Ok(vec![modified("b", "b", 4)])),
                Reply::Watch(Err(gone())),
            ],
            "event" => vec![Reply::Watch(Ok(vec![modified("b", "b", 4), Play::Expired]))],
            _ => vec![Reply::Watch(Ok(vec![
                modified("b", "b", 4),
                Play::Error(gone()),
            ]))],
        };
        let mut replies = vec![page(
            3,
            None,
            vec![item("a", "a", 1), item("b", "b", 2), item("c", "c", 3)],
        )];
        replies.extend(watch);
        // a is gone, b is the same, c changed, d is new.
        replies.push(page(
            9,
            None,
            vec![item("b", "b", 4), item("c", "c", 8), item("d", "d", 9)],
        ));
        let played = play(replies).await;
        let lists = played
            .calls
            .iter()
            .filter(|call| call.starts_with("list"))
            .count();
        assert_eq!(lists, 2, "{form}: {:?}", played.calls);
        assert_eq!(played.calls.last().unwrap(), "watch 9");
        assert_eq!(
            played.changes,
            ["+a@1", "+b@2", "+c@3", "b@2>b@4", "c@3>c@8", "+d@9", "-a@1"],
            "{form}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn k8s_115620_an_object_replaced_under_its_name_is_deleted_and_added() {
    let played = play(vec![
        page(2, None, vec![item("a", "one", 1), item("b", "one", 2)]),
        Reply::Watch(Ok(vec![modified("a", "two", 5), Play::Error(gone())])),
        page(9, None, vec![item("a", "two", 5), item("b", "two", 9)]),
    ])
    .await;
    assert_eq!(
        played.changes,
        ["+a@1", "+b@2", "-a@1", "+a@5", "-b@2", "+b@9"]
    );
}

#[tokio::test(start_paused = true)]
async fn kube_1524_every_page_is_read_and_what_is_missing_goes_only_with_the_last() {
    let played = play(vec![
        page(5, Some("t1"), vec![item("a", "a", 1)]),
        page(6, Some("t2"), vec![item("b", "b", 2)]),
        page(7, None, vec![item("c", "c", 3)]),
        Reply::Watch(Err(gone())),
        page(8, Some("t3"), vec![item("c", "c", 3)]),
        Reply::Page(Err(Error::Timeout {
            what: "list".to_owned(),
            after: Duration::from_secs(15),
        })),
        page(8, None, vec![item("d", "d", 8)]),
    ])
    .await;
    assert_eq!(
        played.calls,
        [
            "list -", "list t1", "list t2", "watch 5", "list -", "list t3", "list t3", "watch 8"
        ]
    );
    assert_eq!(played.changes[..4], ["+a@1", "+b@2", "+c@3", "+d@8"]);
    let mut gone = played.changes[4..].to_vec();
    gone.sort();
    assert_eq!(gone, ["-a@1", "-b@2"]);
}

#[tokio::test(start_paused = true)]
async fn kube_774_an_undecodable_object_stops_only_itself_and_heals() {
    let odd = |version| raw_with("ns", "a", "a", version, "odd");
    let before = play(vec![
        page(3, None, vec![item("a", "a", 1), item("b", "b", 2)]),
        Reply::Watch(Ok(vec![
            Play::Modified(odd(4)),
            modified("b", "b", 5),
            Play::Error(gone()),
        ])),
        // It is undecodable in the list too, and must not count as deleted.
        page(6, None, vec![odd(4), item("b", "b", 5)]),
    ])
    .await;
    assert_eq!(before.changes, ["+a@1", "+b@2", "b@2>b@5"]);
    assert!(
        before
            .status
            .readiness()
            .unwrap()
            .contains("1 undecodable, such as ns/a")
    );
    assert_eq!(
        before.store.list().unwrap().len(),
        2,
        "its last good state stays"
    );

    let after = play(vec![
        page(3, None, vec![odd(1), raw_with("ns", "c", "c", 2, "odd")]),
        Reply::Watch(Ok(vec![
            modified("a", "a", 4),
            Play::Deleted(raw_with("ns", "c", "c", 5, "odd")),
        ])),
    ])
    .await;
    assert_eq!(after.changes, ["+a@4"]);
    assert_eq!(after.status.quarantined(), 0);
    // Not skipped silently: the resume goes on after it, and it was counted and named.
    assert_eq!(after.calls.last().unwrap(), "watch 5");
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_given_up_and_resumed_without_a_list() {
    let bookmark = Play::Bookmark(raw("", "", "", 7));
    let played = play(vec![
        page(2, None, vec![item("a", "a", 1)]),
        Reply::Watch(Ok(vec![bookmark, Play::Hang])),
    ])
    .await;
    assert_eq!(played.calls, ["list -", "watch 2", "watch 7"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_does_not_show_an_own_write_is_resumed_without_a_list() {
    let script = Script::default();
    script.replies.lock().unwrap().extend([
        page(2, None, vec![item("a", "a", 1)]),
        Reply::Watch(Ok(vec![Play::Hang])),
        Reply::Watch(Ok(vec![modified("a", "a", 3), Play::Hang])),
    ]);
    let store = Store::<Thing>::new();
    let status = Status::alone(Thing::RESOURCE);
    let (key, begun) = (ObjectKey::new("ns", "a"), Instant::now());
    let write = async {
        store.synced().await;
        store.expect(&key, "a", "3");
        while !store.caught_up(&key).await {
            sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::select! {
        () = drive(Machine::paging(Jitter::seeded(1)), &script, store.part(None), &|_| {}, &status) => {}
        () = write => {}
    }
    assert!(begun.elapsed() < Duration::from_secs(10));
    let calls = script.calls.lock().unwrap();
    assert_eq!(*calls, ["list -", "watch 2", "watch 2"]);
}

#[tokio::test(start_paused = true)]
async fn cr_550_a_forbidden_list_is_readable_at_the_probe_and_tried_again() {
    let forbidden = || Error::Forbidden {
        verb: "list",
        resource: "things.test".to_owned(),
        namespace: None,
        message: "RBAC".to_owned(),
    };
    let played = play(vec![
        Reply::Page(Err(forbidden())),
        Reply::Page(Err(forbidden())),
    ])
    .await;
    assert_eq!(played.calls.len(), 3);
    let why = played.status.readiness().unwrap_err();
    assert!(
        why.contains("not synced") && why.contains("not allowed to list things.test"),
        "{why}"
    );
    assert!(!played.store.is_synced());
}

#[tokio::test(start_paused = true)]
async fn the_store_holds_a_change_before_its_handler_is_called() {
    let script = Script::default();
    script.replies.lock().unwrap().extend([
        page(1, None, vec![item("a", "a", 1)]),
        Reply::Watch(Ok(vec![Play::Deleted(item("a", "a", 2))])),
    ]);
    let store = Store::<Thing>::new();
    let status = Status::alone(Thing::RESOURCE);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (reader, noted) = (store.part(None), Arc::clone(&seen));
    let handler = move |_: Change<Thing>| noted.lock().unwrap().push(reader.len());
    let _ = timeout(
        Duration::from_secs(9),
        drive(
            Machine::paging(Jitter::seeded(1)),
            &script,
            store.part(None),
            &handler,
            &status,
        ),
    )
    .await;
    assert_eq!(*seen.lock().unwrap(), [1, 0]);
}
