//! The store's tables: by key, by namespace in order, by owner, and as declared. Pure.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use hashbrown::HashTable;

use super::Upsert;
use super::groups::{Groups, Keys, order};
use super::ordered::{Objects, Ordered};
use crate::runtime::hash::{Map, State};
use crate::runtime::{Kind, Meta, Text};

/// What the tables take for an object, about: an entry of each, two thirds full, and its part of an
/// owner's group.
const ENTRY_BYTES: usize = 96;

pub(super) struct Index<K> {
    /// The keys are in the objects, beside the count of references that a reader changes anyway: a
    /// look-up touches one entry and one object.
    objects: HashTable<Entry<K>>,
    namespaces: Map<Box<str>, Ordered<K>>,
    owners: Groups<K>,
    declared: Vec<Declared<K>>,
    hasher: State,
    /// Counts lists; an entry has the number of the one that was begun last when it was seen.
    epoch: u32,
    /// See [`Kind::held_bytes`]; with the tables.
    bytes: usize,
}

struct Entry<K> {
    object: Arc<K>,
    hash: u32,
    epoch: u32,
}

struct Declared<K> {
    keys: Box<Keys<K>>,
    groups: Groups<K>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self {
            objects: HashTable::new(),
            namespaces: Map::default(),
            owners: Groups::default(),
            declared: Vec::new(),
            hasher: State::default(),
            epoch: 0,
            bytes: 0,
        }
    }
}

/// For the table, which places by the low bits and tells apart by the high ones. Half of a hash is
/// kept of each object, so that a growing table need not look at them.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Whether a list was begun before another. Numbers wrap: they are compared as neighbours are.
fn is_before(epoch: u32, other: u32) -> bool {
    epoch.wrapping_sub(other) > u32::MAX / 2
}

fn is(meta: &Meta, namespace: &str, name: &str) -> bool {
    *meta.name == *name && *meta.namespace == *namespace
}

impl<K: Kind> Index<K> {
    /// Objects of a namespace, or of all.
    pub(super) fn len(&self, namespace: Option<&str>) -> usize {
        match namespace {
            None => self.objects.len(),
            Some(namespace) => self.namespaces.get(namespace).map_or(0, Ordered::len),
        }
    }

    /// Bytes that objects and tables take, about.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn get(&self, namespace: &str, name: &str) -> Option<&Arc<K>> {
        self.entry(namespace, name).map(|entry| &entry.object)
    }

    fn entry(&self, namespace: &str, name: &str) -> Option<&Entry<K>> {
        let hash = self.hash(namespace, name);
        let same = |e: &Entry<K>| e.hash == hash && is(e.object.meta(), namespace, name);
        self.objects.find(spread(hash), same)
    }

    pub(super) fn all(&self) -> Objects<K> {
        let mut namespaces: Vec<_> = self.namespaces.iter().collect();
        namespaces.sort_unstable_by_key(|(name, _)| *name);
        let mut all = Objects::default();
        for (_, ordered) in namespaces {
            all.append(ordered.snapshot());
        }
        all
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Objects<K> {
        let ordered = self.namespaces.get(namespace);
        ordered.map(Ordered::snapshot).unwrap_or_default()
    }

    pub(super) fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.owners.of(uid)
    }

    /// Declares an index. Returns its number.
    pub(super) fn declare(&mut self, keys: Box<Keys<K>>) -> usize {
        let mut groups = Groups::default();
        let mut found = Vec::new();
        for entry in &self.objects {
            keys(&entry.object, &mut found);
            for key in found.drain(..) {
                groups.insert(&key, &entry.object);
            }
        }
        self.declared.push(Declared { keys, groups });
        self.declared.len() - 1
    }

    /// What a declared index has under `key`.
    pub(super) fn declared(&self, index: usize, key: &str) -> Vec<Arc<K>> {
        self.declared[index].groups.of(key)
    }

    /// Begins a list, and returns its number.
    pub(super) fn begin_epoch(&mut self) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    pub(super) fn touch(&mut self, namespace: &str, name: &str) {
        let epoch = self.epoch;
        if let Some(entry) = self.find(namespace, name) {
            entry.epoch = epoch;
        }
    }

    /// Objects of a namespace, or of all, that were not seen since the list of that number was begun;
    /// ordered by key.
    pub(super) fn stale(&self, namespace: Option<&str>, began: u32) -> Vec<Arc<K>> {
        let Some(namespace) = namespace else {
            let stale = self.objects.iter().filter(|e| is_before(e.epoch, began));
            let mut stale: Vec<_> = stale.map(|e| Arc::clone(&e.object)).collect();
            stale.sort_unstable_by(|a, b| order(&**a, b));
            return stale;
        };
        let is_stale = |object: &Arc<K>| {
            let entry = self.entry(namespace, &object.meta().name);
            entry.is_some_and(|entry| is_before(entry.epoch, began))
        };
        self.in_namespace(namespace)
            .into_iter()
            .filter(is_stale)
            .collect()
    }

    pub(super) fn upsert(&mut self, new: &Arc<K>) -> Upsert<K> {
        let epoch = self.epoch;
        let meta = new.meta();
        let hash = self.hash(&meta.namespace, &meta.name);
        let same =
            |e: &Entry<K>| e.hash == hash && is(e.object.meta(), &meta.namespace, &meta.name);
        let old = if let Some(entry) = self.objects.find_mut(spread(hash), same) {
            entry.epoch = epoch;
            let old = entry.object.meta();
            if old.uid == meta.uid && old.resource_version == meta.resource_version {
                return Upsert::Unchanged;
            }
            Some(std::mem::replace(&mut entry.object, Arc::clone(new)))
        } else {
            let object = Arc::clone(new);
            let entry = Entry {
                object,
                hash,
                epoch,
            };
            self.objects
                .insert_unique(spread(hash), entry, |e| spread(e.hash));
            None
        };
        self.bytes += new.held_bytes() + ENTRY_BYTES;
        if let Some(old) = &old {
            self.bytes -= old.held_bytes() + ENTRY_BYTES;
        }
        if let Some(ordered) = self.namespaces.get_mut(meta.namespace.as_str()) {
            ordered.insert(Arc::clone(new));
        } else {
            let ordered = self.namespaces.entry(meta.namespace.as_str().into());
            ordered.or_default().insert(Arc::clone(new));
        }
        self.group(old.as_ref(), Some(new));
        match old {
            Some(last) if last.meta().uid != meta.uid => Upsert::Replaced {
                last,
                new: Arc::clone(new),
            },
            old => Upsert::Applied {
                old,
                new: Arc::clone(new),
            },
        }
    }

    /// Removes the object of that key, and of that UID where one is given.
    pub(super) fn remove(
        &mut self,
        namespace: &str,
        name: &str,
        uid: Option<&str>,
    ) -> Option<Arc<K>> {
        let hash = self.hash(namespace, name);
        let same = |e: &Entry<K>| e.hash == hash && is(e.object.meta(), namespace, name);
        let entry = self.objects.find_entry(spread(hash), same).ok()?;
        if uid.is_some_and(|uid| uid != entry.get().object.meta().uid) {
            return None;
        }
        let (Entry { object: last, .. }, _) = entry.remove();
        // After many have gone, as when what is watched was narrowed.
        if self.objects.len() * 4 < self.objects.capacity() {
            self.objects
                .shrink_to(self.objects.len() * 2, |e| spread(e.hash));
        }
        self.bytes -= last.held_bytes() + ENTRY_BYTES;
        if let Some(ordered) = self.namespaces.get_mut(namespace) {
            ordered.remove(name);
            if ordered.is_empty() {
                self.namespaces.remove(namespace);
            }
        }
        self.group(Some(&last), None);
        Some(last)
    }

    /// Puts `new` where `old` was in the groups; both have the same key.
    fn group(&mut self, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        regroup(&mut self.owners, old, new, owners(old), owners(new));
        for Declared { keys, groups } in &mut self.declared {
            let keys = |object: Option<&Arc<K>>| {
                let mut found = Vec::new();
                if let Some(object) = object {
                    keys(object, &mut found);
                }
                found
            };
            regroup(groups, old, new, keys(old).iter(), keys(new).iter());
        }
    }

    fn find(&mut self, namespace: &str, name: &str) -> Option<&mut Entry<K>> {
        let hash = self.hash(namespace, name);
        let same = |e: &Entry<K>| e.hash == hash && is(e.object.meta(), namespace, name);
        self.objects.find_mut(spread(hash), same)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "half of a hash will do: see `spread`"
    )]
    fn hash(&self, namespace: &str, name: &str) -> u32 {
        self.hasher.hash_one((name, namespace)) as u32
    }

    /// Groups and namespaces, for tests that nothing is left behind.
    #[cfg(test)]
    pub(super) fn tables(&self) -> [usize; 3] {
        let declared = self.declared.iter().map(|declared| declared.groups.len());
        [self.namespaces.len(), self.owners.len(), declared.sum()]
    }
}

fn owners<K: Kind>(object: Option<&Arc<K>>) -> impl Iterator<Item = &Text> + Clone {
    let references = object.map(|object| object.meta().owner_references.iter());
    references.into_iter().flatten().map(|owner| &owner.uid)
}

/// The same for one index: `before` are the keys of `old`, `after` those of `new`.
fn regroup<'a, K: Kind>(
    groups: &mut Groups<K>,
    old: Option<&Arc<K>>,
    new: Option<&Arc<K>>,
    before: impl Iterator<Item = &'a Text>,
    after: impl Iterator<Item = &'a Text> + Clone,
) {
    if let Some(old) = old {
        for key in before {
            if !after.clone().any(|other| other == key) {
                groups.remove(key, old);
            }
        }
    }
    if let Some(new) = new {
        for key in after {
            groups.insert(key, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::{Thing, owned, thing};

    fn upsert(index: &mut Index<Thing>, object: Thing) -> Upsert<Thing> {
        index.upsert(&Arc::new(object))
    }

    #[test]
    fn lookups_by_namespace_and_owner_follow_every_change() {
        let mut index = Index::default();
        upsert(&mut index, owned("x", "a", "1", 1, &["o1", "o2"]));
        upsert(&mut index, owned("x", "b", "2", 1, &["o1"]));
        upsert(&mut index, thing("y", "a", "3", 1));
        assert_eq!((index.len(None), index.all().len()), (3, 3));
        assert_eq!(index.in_namespace("x").len(), 2);
        assert_eq!(index.owned_by("o1").len(), 2);

        upsert(&mut index, owned("x", "a", "1", 2, &["o2", "o3"]));
        assert_eq!(index.owned_by("o1").len(), 1);
        assert_eq!(index.owned_by("o2")[0].meta().resource_version, "2");
        assert_eq!(index.owned_by("o3").len(), 1);

        assert!(index.remove("x", "a", Some("9")).is_none(), "another UID");
        assert!(index.remove("x", "a", None).is_some());
        assert!(index.remove("x", "b", None).is_some());
        assert_eq!(index.len(None), 1);
        assert_eq!(index.tables(), [1, 0, 0], "nothing is left behind");
    }

    #[test]
    fn an_equal_version_changes_nothing_and_another_uid_is_a_replacement() {
        let mut index = Index::default();
        upsert(&mut index, thing("x", "a", "1", 1));
        assert!(matches!(
            upsert(&mut index, thing("x", "a", "1", 1)),
            Upsert::Unchanged
        ));
        assert!(matches!(
            upsert(&mut index, thing("x", "a", "1", 2)),
            Upsert::Applied { old: Some(_), .. }
        ));
        let replaced = upsert(&mut index, thing("x", "a", "2", 3));
        assert!(matches!(replaced, Upsert::Replaced { last, .. } if last.meta().uid == "1"));
    }

    #[test]
    fn what_a_list_did_not_hold_is_stale_also_when_numbers_wrap() {
        let mut index = Index {
            epoch: u32::MAX,
            ..Index::default()
        };
        for name in ["a", "b", "c"] {
            upsert(&mut index, thing("x", name, name, 1));
        }
        let began = index.begin_epoch();
        assert_eq!(index.stale(None, began).len(), 3);
        upsert(&mut index, thing("x", "a", "a", 1));
        index.touch("x", "b");
        let stale = index.stale(None, began);
        assert_eq!(stale.len(), 1);
        assert_eq!(stale[0].metadata.name, "c");
    }

    #[test]
    fn lists_of_two_namespaces_that_cross_sweep_each_its_own() {
        let mut index = Index::default();
        for namespace in ["x", "y"] {
            for name in ["a", "b"] {
                upsert(&mut index, thing(namespace, name, name, 1));
            }
        }
        let x = index.begin_epoch();
        upsert(&mut index, thing("x", "a", "a", 1));
        let y = index.begin_epoch();
        upsert(&mut index, thing("y", "b", "b", 1));
        let stale = |index: &Index<Thing>, namespace, began| {
            let stale = index.stale(Some(namespace), began).into_iter();
            stale
                .map(|object| object.meta().key().to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(stale(&index, "x", x), ["x/b"]);
        assert_eq!(stale(&index, "y", y), ["y/a"]);
        assert!(stale(&index, "z", y).is_empty());
        assert_eq!((index.len(Some("x")), index.len(Some("z"))), (2, 0));
    }
}
