//! The store against what it should be: a sorted map. And its readers beside a writer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::runtime::Text;
use crate::runtime::testing::{Thing, owned};

const NAMESPACES: [&str; 2] = ["", "x"];
const NAMES: [&str; 5] = ["a", "aa", "b", "c", "d"];
const OWNERS: [&str; 3] = ["o1", "o2", "o3"];

#[derive(Clone, Debug)]
enum Step {
    BeginList,
    Apply(Held),
    /// Its listed version could not be read.
    Touch(Key),
    Remove(Key, Option<u8>),
    Sweep,
    /// Somebody takes all, and looks at it only at the end.
    Take,
}

type Key = (&'static str, &'static str);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Held {
    key: Key,
    uid: u8,
    version: u64,
    owners: Vec<&'static str>,
}

impl Held {
    fn thing(&self) -> Thing {
        let (namespace, name) = self.key;
        let uid = self.uid.to_string();
        owned(namespace, name, &uid, self.version, &self.owners)
    }

    fn is(&self, thing: &Thing) -> bool {
        *thing == self.thing()
    }
}

fn key() -> impl Strategy<Value = Key> {
    let namespace = proptest::sample::select(&NAMESPACES[..]);
    (namespace, proptest::sample::select(&NAMES[..]))
}

fn step() -> impl Strategy<Value = Step> {
    let owners = proptest::sample::subsequence(&OWNERS[..], 0..=OWNERS.len());
    let held = (key(), 0..2_u8, 1..4_u64, owners);
    prop_oneof![
        1 => Just(Step::BeginList),
        8 => held.prop_map(|(key, uid, version, owners)| {
            Step::Apply(Held { key, uid, version, owners })
        }),
        1 => key().prop_map(Step::Touch),
        2 => (key(), proptest::option::of(0..2_u8)).prop_map(|(key, uid)| Step::Remove(key, uid)),
        1 => Just(Step::Sweep),
        1 => Just(Step::Take),
    ]
}

/// What the store should hold, with the list that showed it last.
#[derive(Default)]
struct Model {
    held: BTreeMap<Key, (Held, u32)>,
    list: u32,
}

impl Model {
    fn matching(&self, matches: impl Fn(&Held) -> bool) -> Vec<Held> {
        let held = self.held.values().map(|(held, _)| held);
        held.filter(|held| matches(held)).cloned().collect()
    }

    /// Does the step. Returns what a handler should be told is gone.
    fn step(&mut self, step: &Step) -> Vec<Held> {
        let list = self.list;
        match step {
            Step::BeginList => self.list += 1,
            Step::Apply(new) => {
                let old = self.held.get(&new.key).map(|(held, _)| held);
                let same = old.is_some_and(|old| (old.uid, old.version) == (new.uid, new.version));
                let new = old.filter(|_| same).unwrap_or(new).clone();
                let old = self.held.insert(new.key, (new.clone(), list));
                return old
                    .map(|(old, _)| old)
                    .filter(|old| old.uid != new.uid)
                    .into_iter()
                    .collect();
            }
            Step::Touch(key) => {
                if let Some((_, seen)) = self.held.get_mut(key) {
                    *seen = list;
                }
            }
            Step::Remove(key, uid) => {
                let is = |held: &Held| uid.is_none_or(|uid| held.uid == uid);
                if self.held.get(key).is_some_and(|(held, _)| is(held)) {
                    return self
                        .held
                        .remove(key)
                        .map(|(held, _)| held)
                        .into_iter()
                        .collect();
                }
            }
            Step::Sweep => {
                let gone = self.held.extract_if(.., |_, (_, seen)| *seen != list);
                return gone.map(|(_, (held, _))| held).collect();
            }
            Step::Take => {}
        }
        Vec::new()
    }
}

/// Does the step. Returns what a handler is told is gone.
fn perform(store: &mut Part<Thing>, step: &Step) -> Vec<Arc<Thing>> {
    let key = |(namespace, name): &Key| ObjectKey::new(namespace, name);
    match step {
        Step::BeginList => store.begin_list(),
        Step::Apply(held) => {
            if let Upsert::Replaced { last, .. } = store.apply(held.thing()) {
                return vec![last];
            }
        }
        Step::Touch(at) => store.touch(&key(at)),
        Step::Remove(at, uid) => {
            let uid = uid.map(|uid| uid.to_string());
            return store.remove(&key(at), uid.as_deref()).into_iter().collect();
        }
        Step::Sweep => return store.sweep(),
        Step::Take => {}
    }
    Vec::new()
}

fn same<'a>(held: &[Held], things: impl IntoIterator<Item = &'a Arc<Thing>>) -> bool {
    let mut things = things.into_iter();
    held.iter()
        .all(|held| things.next().is_some_and(|thing| held.is(thing)))
        && things.next().is_none()
}

proptest! {
    #[test]
    fn each_read_shows_what_a_sorted_map_would(steps in proptest::collection::vec(step(), 1..40)) {
        let (store, mut model) = (Store::<Thing>::new(), Model::default());
        let by_version = store.index_by(|thing| [Text::from(&*thing.value.to_string())]);
        let mut part = store.part(None);
        part.mark_synced();
        let mut taken = Vec::new();
        for step in steps {
            let (gone, told) = (model.step(&step), perform(&mut part, &step));
            prop_assert!(same(&gone, &told), "gone are {told:?}, not {gone:?}, after {step:?}");
            let all = model.matching(|_| true);
            let list = store.list().unwrap();
            prop_assert!(same(&all, list.iter()), "list gives {list:?}, not {all:?}, after {step:?}");
            prop_assert_eq!((list.len(), part.len()), (all.len(), all.len()));
            for namespace in NAMESPACES {
                let (held, found) = (model.matching(|held| held.key.0 == namespace), store.in_namespace(namespace).unwrap());
                prop_assert!(same(&held, found.iter()), "in_namespace gives {found:?}, not {held:?}, after {step:?}");
                for name in NAMES {
                    let held = model.matching(|held| held.key == (namespace, name));
                    let found = store.get(&ObjectKey::new(namespace, name)).unwrap();
                    prop_assert!(same(&held, &found), "get gives {found:?}, not {held:?}, after {step:?}");
                }
            }
            for owner in OWNERS {
                let (held, found) = (model.matching(|held| held.owners.contains(&owner)), store.owned_by(owner).unwrap());
                prop_assert!(same(&held, &found), "owned_by gives {found:?}, not {held:?}, after {step:?}");
            }
            for version in 1..4 {
                let (held, found) = (model.matching(|held| held.version == version), by_version.get(&version.to_string()).unwrap());
                prop_assert!(same(&held, &found), "the index gives {found:?}, not {held:?}, after {step:?}");
            }
            let kinds = |of: &dyn Fn(&Held) -> Vec<String>| -> usize {
                all.iter().flat_map(of).collect::<BTreeSet<_>>().len()
            };
            let tables = [
                kinds(&|held| vec![held.key.0.to_owned()]),
                kinds(&|held| held.owners.iter().map(|&o| o.to_owned()).collect()),
                kinds(&|held| vec![held.version.to_string()]),
            ];
            prop_assert_eq!(store.read().tables(), tables, "nothing is left behind");
            if matches!(step, Step::Take) {
                taken.push((all, list));
            }
        }
        for (all, list) in taken {
            prop_assert!(same(&all, list.iter()), "what was taken stays as it was");
        }
    }
}

/// Objects of a namespace, and of an owner.
const STANDING: usize = 300;
const OF_OWNER: usize = 3;

/// One list after the other, each with a new version of every object, in their order; in each second
/// list an object more.
fn relist(store: &Store<Thing>, versions: std::ops::Range<u64>) {
    for version in versions {
        let mut all = store.part(None);
        all.begin_list();
        for namespace in ["x", "y"] {
            for n in 0..STANDING {
                let owner = format!("{namespace}-{}", n / OF_OWNER);
                let name = format!("thing-{n:03}");
                store.apply(owned(namespace, &name, &name, version, &[&owner]));
            }
            if version % 2 == 0 {
                store.apply(owned(namespace, "thing-100-guest", "guest", version, &[]));
            }
        }
        all.sweep();
        all.mark_synced();
    }
}

/// Reads until `done`: what exists is never missing, what is read is of one moment, and time does not
/// go backwards.
fn read(store: &Store<Thing>, done: &AtomicBool, reads: &AtomicU64) {
    let mut newest = 0;
    for n in (0..STANDING).cycle() {
        if done.load(Ordering::Acquire) {
            return;
        }
        let Ok(all) = store.in_namespace("y") else {
            continue;
        };
        reads.fetch_add(1, Ordering::Relaxed);
        let standing: Vec<_> = all.iter().filter(|o| o.metadata.uid != "guest").collect();
        assert_eq!(standing.len(), STANDING, "a reader misses what exists");
        for pair in standing.windows(2) {
            assert!(
                pair[0].metadata.name < pair[1].metadata.name,
                "they are in order"
            );
        }
        let versions: Vec<_> = standing.iter().map(|o| o.value).collect();
        let (first, last) = (versions[0], versions[STANDING - 1]);
        assert!(
            versions.is_sorted_by(|a, b| a >= b) && first - last <= 1,
            "they are not of one moment"
        );
        assert!(last >= newest, "an older state is read after a newer");
        newest = last;
        let key = ObjectKey::new("y", &format!("thing-{n:03}"));
        let one = store
            .get(&key)
            .unwrap()
            .expect("a reader misses what exists");
        assert!(
            one.value >= versions[n],
            "an older state is read after a newer"
        );
        let siblings = store.owned_by(&format!("y-{}", n / OF_OWNER)).unwrap();
        assert_eq!(siblings.len(), OF_OWNER, "a reader misses what exists");
    }
}

#[test]
fn kk_130767_readers_beside_relists_see_each_object_in_its_old_or_its_new_state() {
    let store = Store::<Thing>::new();
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| read(&store, &done, &reads)))
            .collect();
        // Until the readers, too, have had their turns.
        let mut version = 1;
        while (version < 60 || reads.load(Ordering::Relaxed) < 1000)
            && readers.iter().all(|r| !r.is_finished())
        {
            // The second of each two changes nothing.
            relist(&store, version..version + 20);
            relist(&store, version + 19..version + 20);
            version += 20;
        }
        done.store(true, Ordering::Release);
    });
    let guests = store
        .list()
        .unwrap()
        .iter()
        .filter(|o| o.metadata.uid == "guest")
        .count();
    assert_eq!((store.list().unwrap().len(), guests), (2 * STANDING + 2, 2));
}
