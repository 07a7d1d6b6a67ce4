//! The objects of one resource, and the changes that its watches may still ask for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;

use super::object::Entry;
use crate::apiserver::ApiError;

/// A change of one object.
#[derive(Debug)]
pub(crate) struct Event {
    /// Version at which it happened.
    pub(crate) rv: u64,
    /// What the object was; `None` for a creation.
    pub(crate) old: Option<Arc<Entry>>,
    /// What it is since; `None` for a deletion.
    pub(crate) new: Option<Arc<Entry>>,
}

impl Event {
    /// Key of the object.
    pub(crate) fn key(&self) -> &Arc<str> {
        self.new
            .as_ref()
            .or(self.old.as_ref())
            .map(|entry| &entry.key)
            .expect("an event has an object before or after")
    }
}

/// All objects of one group and resource, whatever version they are served in.
#[derive(Debug)]
pub(crate) struct Storage {
    /// Such as `pods` or `deployments.apps`.
    pub(crate) name: Arc<str>,
    /// Paths that field selectors may name.
    pub(crate) selectable: Arc<[String]>,
    objects: BTreeMap<Arc<str>, Arc<Entry>>,
    history: VecDeque<Arc<Event>>,
    capacity: usize,
    /// The history is complete after this version, for watches that are open.
    dropped: u64,
    /// And for those that are yet to be opened.
    floor: u64,
    /// Wakes watches. It is told of each change and holds no state.
    changed: Arc<Notify>,
}

impl Storage {
    pub(crate) fn new(name: &str, selectable: Vec<String>, capacity: usize, now: u64) -> Self {
        Self {
            name: name.into(),
            selectable: selectable.into(),
            objects: BTreeMap::new(),
            history: VecDeque::new(),
            capacity,
            dropped: now,
            floor: now,
            changed: Arc::default(),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.objects.get(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.objects.len()
    }

    /// All objects of a namespace, or all.
    pub(crate) fn objects(&self, namespace: Option<&str>) -> impl Iterator<Item = &Arc<Entry>> {
        let prefix = namespace
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default();
        self.range(&prefix, "")
    }

    /// Objects whose keys begin with `prefix` and are not before `start`.
    fn range<'a>(
        &'a self,
        prefix: &str,
        start: &str,
    ) -> impl Iterator<Item = &'a Arc<Entry>> + use<'a> {
        let from: Arc<str> = std::cmp::max(prefix, start).into();
        let prefix = prefix.to_owned();
        self.objects
            .range::<Arc<str>, _>(from..)
            .take_while(move |(key, _)| key.starts_with(&prefix))
            .map(|(_, entry)| entry)
    }

    /// The same as it was at version `rv`.
    ///
    /// # Errors
    /// [`TooOld`] where the history does not reach back that far.
    pub(crate) fn range_at(
        &self,
        prefix: &str,
        start: &str,
        rv: u64,
    ) -> Result<Vec<&Arc<Entry>>, TooOld> {
        self.remembers(rv)?;
        let mut since = self.since(rv)?.rev().peekable();
        if since.peek().is_none() {
            return Ok(self.range(prefix, start).collect());
        }
        // Going back in time, the last to speak about an object is who changed it first.
        let mut undone: BTreeMap<&str, Option<&Arc<Entry>>> = BTreeMap::new();
        for event in since {
            undone.insert(event.key(), event.old.as_ref());
        }
        let mut entries: Vec<&Arc<Entry>> = self
            .range(prefix, start)
            .filter(|entry| !undone.contains_key(&*entry.key))
            .collect();
        let then = undone
            .into_values()
            .flatten()
            .filter(|entry| entry.key.starts_with(prefix) && &*entry.key >= start);
        entries.extend(then);
        entries.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(entries)
    }

    /// Changes after version `rv`, oldest first.
    ///
    /// # Errors
    /// [`TooOld`] where some of them are forgotten.
    pub(crate) fn since(
        &self,
        rv: u64,
    ) -> Result<impl DoubleEndedIterator<Item = &Arc<Event>>, TooOld> {
        if rv < self.dropped {
            return Err(TooOld {
                asked: rv,
                oldest: self.dropped,
            });
        }
        let first = self.history.partition_point(|event| event.rv <= rv);
        Ok(self.history.range(first..))
    }

    /// Whether a watch or a list may start at version `rv`.
    ///
    /// # Errors
    /// [`TooOld`] where it is forgotten.
    pub(crate) fn remembers(&self, rv: u64) -> Result<(), TooOld> {
        if rv < self.floor {
            return Err(TooOld {
                asked: rv,
                oldest: self.floor,
            });
        }
        Ok(())
    }

    /// Oldest version that a watch can start from.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }

    /// Forgets the history up to version `rv`, as compaction does. Watches that are open and have
    /// taken what there was go on.
    pub(crate) fn compact(&mut self, rv: u64) {
        while self.history.front().is_some_and(|event| event.rv <= rv) {
            self.forget();
        }
        self.floor = self.floor.max(rv);
    }

    fn forget(&mut self) {
        if let Some(forgotten) = self.history.pop_front() {
            self.dropped = forgotten.rv;
            self.floor = self.floor.max(forgotten.rv);
        }
    }

    /// Puts an object in its place and tells watches.
    pub(crate) fn put(&mut self, entry: &Arc<Entry>) {
        let old = self
            .objects
            .insert(Arc::clone(&entry.key), Arc::clone(entry));
        self.record(Event {
            rv: entry.rv,
            old,
            new: Some(Arc::clone(entry)),
        });
    }

    /// Removes an object at version `rv` and tells watches.
    pub(crate) fn remove(&mut self, key: &str, rv: u64) -> Option<Arc<Entry>> {
        let old = self.objects.remove(key)?;
        self.record(Event {
            rv,
            old: Some(Arc::clone(&old)),
            new: None,
        });
        Some(old)
    }

    fn record(&mut self, event: Event) {
        self.history.push_back(Arc::new(event));
        if self.history.len() > self.capacity {
            self.forget();
        }
        self.changed.notify_waiters();
    }

    /// What wakes those who wait for a change.
    pub(crate) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Bytes of all bodies, for measurements.
    pub(crate) fn bytes(&self) -> usize {
        self.objects.values().map(|entry| entry.body.len()).sum()
    }
}

/// The history does not reach back to the version that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooOld {
    pub(crate) asked: u64,
    pub(crate) oldest: u64,
}

impl From<TooOld> for ApiError {
    fn from(too_old: TooOld) -> Self {
        Self::expired(format!(
            "too old resource version: {} ({})",
            too_old.asked, too_old.oldest
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn put(storage: &mut Storage, key: &str, rv: u64) {
        let entry = Entry::new(key.into(), rv, json!({"metadata": {"name": key}}), &[], 0);
        storage.put(&Arc::new(entry));
    }

    fn at(storage: &Storage, rv: u64) -> Vec<String> {
        let entries = storage.range_at("", "", rv).unwrap();
        entries
            .iter()
            .map(|entry| format!("{}@{}", entry.key, entry.rv))
            .collect()
    }

    #[test]
    fn the_past_can_be_read_as_far_as_the_history_goes() {
        let mut storage = Storage::new("pods", Vec::new(), 4, 0);
        put(&mut storage, "n/a", 1);
        put(&mut storage, "n/b", 2);
        put(&mut storage, "n/a", 3);
        storage.remove("n/b", 4);
        assert_eq!(at(&storage, 0), Vec::<String>::new());
        assert_eq!(at(&storage, 2), ["n/a@1", "n/b@2"]);
        assert_eq!(at(&storage, 3), ["n/a@3", "n/b@2"]);
        assert_eq!(at(&storage, 9), ["n/a@3"]);
        put(&mut storage, "n/c", 5);
        let too_old = storage.range_at("", "", 0).unwrap_err();
        assert_eq!(
            too_old,
            TooOld {
                asked: 0,
                oldest: 1
            }
        );
        assert_eq!(at(&storage, 1), ["n/a@1"]);
        assert_eq!(storage.since(3).unwrap().count(), 2);
        storage.compact(4);
        assert!(storage.since(3).is_err() && storage.since(4).is_ok());
    }

    #[test]
    fn a_namespace_is_not_the_beginning_of_another() {
        let mut storage = Storage::new("pods", Vec::new(), 4, 0);
        for (rv, key) in (1..).zip(["a/x", "a-b/x", "ab/x"]) {
            put(&mut storage, key, rv);
        }
        let keys: Vec<_> = storage
            .objects(Some("a"))
            .map(|entry| entry.key.to_string())
            .collect();
        assert_eq!(keys, ["a/x"]);
        assert_eq!(storage.objects(None).count(), 3);
    }
}
