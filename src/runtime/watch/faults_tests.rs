//! The loop against a small API server with faults: at the end the store equals the server.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::sync::watch;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep, timeout};

use super::Change;
use super::drive::drive;
use super::machine::Machine;
use super::source::{Frames, PageRequest, Source, WatchRequest};
use super::status::Status;
use crate::client::Jitter;
use crate::client::{Error, ListPage, WatchFrame, read_object};
use crate::runtime::store::Store;
use crate::runtime::testing::{Thing, initial_end, raw};
use crate::runtime::{Kind, ObjectKey};

/// Name → (UID, version).
type Objects = BTreeMap<String, (String, u64)>;

#[derive(Clone)]
struct Server {
    state: Arc<Mutex<State>>,
    version: watch::Sender<u64>,
}

struct State {
    version: u64,
    objects: Objects,
    /// Every state there was, for pages of one list.
    history: BTreeMap<u64, Objects>,
    /// Name, UID, version, and whether it is a deletion.
    log: Vec<(String, String, u64, bool)>,
    /// Versions below are compacted away.
    floor: u64,
    faults: bool,
    chance: Jitter,
}

impl State {
    /// As a watch that begins with all objects gives them: in no order of versions.
    fn all_objects(&self) -> VecDeque<First> {
        let object = |(name, (uid, version)): (&String, &(String, u64))| {
            First::Object(raw("ns", name, uid, *version))
        };
        let mut all: VecDeque<_> = self.objects.iter().map(object).collect();
        let bookmark = initial_end(self.version);
        all.push_back(First::Complete(bookmark));
        all
    }

    /// Whether a fault of this likelihood (1 in `n`) strikes.
    fn strikes(&mut self, n: u64) -> bool {
        self.faults && self.chance.bits().is_multiple_of(n)
    }
}

impl Server {
    fn new(seed: u64) -> Self {
        let mut history = BTreeMap::new();
        history.insert(1, Objects::new());
        let state = State {
            version: 1,
            objects: Objects::new(),
            history,
            log: Vec::new(),
            floor: 0,
            faults: true,
            chance: Jitter::seeded(seed),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            version: watch::Sender::new(1),
        }
    }

    /// One random write; now and then a compaction.
    fn mutate(&self) {
        let mut state = self.state.lock().unwrap();
        state.version += 1;
        let version = state.version;
        let name = format!("o{}", state.chance.bits() % 6);
        let delete = state.chance.bits().is_multiple_of(3);
        let event = match state.objects.remove(&name) {
            Some((uid, _)) if delete => (name, uid, version, true),
            held => {
                let uid = held.map_or_else(|| version.to_string(), |(uid, _)| uid);
                state.objects.insert(name.clone(), (uid.clone(), version));
                (name, uid, version, false)
            }
        };
        state.log.push(event);
        let objects = state.objects.clone();
        state.history.insert(version, objects);
        if state.strikes(10) {
            state.floor = version;
        }
        drop(state);
        self.version.send_replace(version);
    }
}

fn gone() -> Error {
    Error::Gone {
        what: "x".to_owned(),
    }
}

fn broken() -> Error {
    Error::Unavailable {
        what: "x".to_owned(),
        code: None,
        unsent: false,
        message: "cut".to_owned(),
    }
}

/// As a server says it that does not know such a watch.
fn unknown() -> Error {
    Error::Invalid {
        what: "x".to_owned(),
        code: 422,
        message: "sendInitialEvents: Forbidden".to_owned(),
    }
}

fn too_many() -> Error {
    Error::TooManyRequests {
        what: "x".to_owned(),
        retry_after: Some(Duration::from_secs(1)),
    }
}

impl Source for Server {
    type Frames = Stream;

    async fn page<T: DeserializeOwned + Send>(
        &self,
        request: PageRequest,
    ) -> Result<ListPage<T>, Error> {
        sleep(Duration::from_millis(3)).await;
        let mut state = self.state.lock().unwrap();
        if state.strikes(4) {
            return Err(broken());
        }
        let (version, after) = match &request.continue_token {
            None => (state.version, String::new()),
            Some(token) => {
                let (version, after) = token.split_once('/').unwrap();
                (version.parse().unwrap(), after.to_owned())
            }
        };
        if version < state.floor {
            return Err(gone());
        }
        let objects = &state.history[&version];
        let limit = 2; // Smaller than asked for: servers may.
        let rest: Vec<_> = objects.iter().filter(|(name, _)| **name > after).collect();
        let token = (rest.len() > limit).then(|| format!("{version}/{}", rest[limit - 1].0));
        let items = rest.iter().take(limit);
        Ok(ListPage {
            resource_version: version.to_string(),
            continue_token: token,
            items: items
                .map(|(name, (uid, version))| read_object(&raw("ns", name, uid, *version)))
                .collect(),
        })
    }

    async fn watch(&self, request: WatchRequest) -> Result<Stream, Error> {
        sleep(Duration::from_millis(3)).await;
        let mut state = self.state.lock().unwrap();
        if state.strikes(4) {
            return Err(broken());
        }
        let (position, first) = match request.resource_version {
            Some(version) => (version.parse().unwrap(), VecDeque::new()),
            None if state.strikes(8) => return Err(unknown()),
            None if state.strikes(8) => return Err(too_many()),
            None => (state.version, state.all_objects()),
        };
        if position < state.floor {
            return Err(gone());
        }
        drop(state);
        Ok(Stream {
            server: self.clone(),
            versions: self.version.subscribe(),
            position,
            first,
            ends: Instant::now() + request.timeout,
        })
    }

    async fn back(&self) {
        std::future::pending::<()>().await;
    }
}

struct Stream {
    server: Server,
    versions: watch::Receiver<u64>,
    position: u64,
    /// What a watch that was asked for all objects has not given of them yet.
    first: VecDeque<First>,
    ends: Instant,
}

enum First {
    Object(Box<RawValue>),
    Complete(Box<RawValue>),
}

impl Frames for Stream {
    async fn next<T: DeserializeOwned + Send>(&mut self) -> Option<Result<WatchFrame<T>, Error>> {
        loop {
            self.versions.borrow_and_update();
            {
                let mut state = self.server.state.lock().unwrap();
                if state.strikes(9) {
                    return None;
                }
                if state.strikes(9) {
                    return Some(Err(broken()));
                }
                if state.strikes(20) {
                    return Some(Ok(WatchFrame::Error(gone())));
                }
                match self.first.pop_front() {
                    Some(First::Object(object)) => {
                        return Some(Ok(WatchFrame::Added(read_object(&object))));
                    }
                    Some(First::Complete(bookmark)) => {
                        return Some(Ok(WatchFrame::Bookmark(bookmark)));
                    }
                    None => {}
                }
                let next = state
                    .log
                    .iter()
                    .find(|(_, _, version, _)| *version > self.position);
                if let Some((name, uid, version, deleted)) = next {
                    self.position = *version;
                    let object = read_object(&raw("ns", name, uid, *version));
                    return Some(Ok(if *deleted {
                        WatchFrame::Deleted(object)
                    } else {
                        WatchFrame::Modified(object)
                    }));
                }
            }
            tokio::select! {
                biased;
                _ = self.versions.changed() => {}
                () = tokio::time::sleep_until(self.ends) => return None,
            }
        }
    }
}

/// What the handler was told, replayed.
#[derive(Default)]
struct Replay {
    objects: BTreeMap<ObjectKey, (String, u64)>,
    wrong: Option<String>,
}

impl Replay {
    fn change(&mut self, change: &Change<Thing>) {
        let show = |thing: &Thing| (thing.metadata.uid.to_string(), thing.value);
        let (key, expected, new) = match change {
            Change::Applied { old, new } => (new.metadata.key(), old.as_deref(), Some(new)),
            Change::Deleted { last } => (last.metadata.key(), Some(&**last), None),
        };
        let held = match new {
            Some(new) => self.objects.insert(key.clone(), show(new)),
            None => self.objects.remove(&key),
        };
        if held != expected.map(show) {
            self.wrong = Some(format!("{key}: {held:?} before {change:?}"));
        }
    }
}

async fn faulty(seed: u64, machine: Machine) -> Result<(), TestCaseError> {
    let server = Server::new(seed);
    let store = Store::<Thing>::new();
    let status = Status::alone(Thing::RESOURCE);
    let replay = Arc::new(Mutex::new(Replay::default()));
    let told = Arc::clone(&replay);
    let handler = move |change: Change<Thing>| told.lock().unwrap().change(&change);
    let writes = async {
        let mut pace = Jitter::seeded(seed ^ 1);
        for _ in 0..120 {
            server.mutate();
            sleep(pace.full(Duration::from_secs(2))).await;
        }
        server.state.lock().unwrap().faults = false;
        server.mutate();
        // More than the longest backoff and a few steps.
        sleep(Duration::from_mins(1)).await;
    };
    tokio::select! {
        biased;
        () = drive(machine, &server, store.part(None), &handler, &status) => {}
        () = writes => {}
    }
    let state = server.state.lock().unwrap();
    let list = store
        .list()
        .map_err(|e| TestCaseError::fail(e.to_string()))?;
    let held: Objects = list
        .iter()
        .map(|thing| {
            (
                thing.metadata.name.to_string(),
                (thing.metadata.uid.to_string(), thing.value),
            )
        })
        .collect();
    prop_assert_eq!(&held, &state.objects);
    let replay = replay.lock().unwrap();
    prop_assert_eq!(&replay.wrong, &None);
    prop_assert_eq!(replay.objects.len(), held.len());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn the_store_equals_the_server_whatever_happened_to_the_watch(
        seed in any::<u64>(), streams in any::<bool>()
    ) {
        let chance = Jitter::seeded(1);
        let machine = if streams { Machine::new(chance) } else { Machine::paging(chance) };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        let run = async { timeout(Duration::from_hours(1), faulty(seed, machine)).await };
        runtime.block_on(run).expect("ends in time")?;
    }
}
