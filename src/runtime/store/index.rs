//! The store's tables: by namespace and name, and by owner.

use std::sync::Arc;

use super::Upsert;
use crate::runtime::hash::Map;
use crate::runtime::{Kind, ObjectKey};

pub(super) struct Index<K> {
    /// Namespace → name → object. Names of namespaces are shared by all keys of theirs.
    namespaces: Map<Arc<str>, Map<Arc<str>, Entry<K>>>,
    /// Owner UID → objects.
    owners: Map<Box<str>, Map<ObjectKey, Arc<K>>>,
    len: usize,
    /// Counts lists; an entry of an older one was not in the current list (yet).
    epoch: u32,
}

struct Entry<K> {
    object: Arc<K>,
    epoch: u32,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self {
            namespaces: Map::default(),
            owners: Map::default(),
            len: 0,
            epoch: 0,
        }
    }
}

impl<K: Kind> Index<K> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, key: &ObjectKey) -> Option<&Arc<K>> {
        let entry = self.namespaces.get(&*key.namespace)?.get(&*key.name)?;
        Some(&entry.object)
    }

    pub(super) fn all(&self) -> Vec<Arc<K>> {
        let mut all = Vec::with_capacity(self.len);
        for names in self.namespaces.values() {
            all.extend(names.values().map(|entry| Arc::clone(&entry.object)));
        }
        all
    }

    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.namespaces
            .get(namespace)
            .map_or_else(Vec::new, |names| {
                names
                    .values()
                    .map(|entry| Arc::clone(&entry.object))
                    .collect()
            })
    }

    pub(super) fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.owners
            .get(uid)
            .map_or_else(Vec::new, |owned| owned.values().cloned().collect())
    }

    pub(super) fn begin_epoch(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    pub(super) fn touch(&mut self, key: &ObjectKey) {
        let epoch = self.epoch;
        let names = self.namespaces.get_mut(&*key.namespace);
        if let Some(entry) = names.and_then(|names| names.get_mut(&*key.name)) {
            entry.epoch = epoch;
        }
    }

    /// Entries that the current list did not hold.
    pub(super) fn stale(&self) -> Vec<(ObjectKey, Arc<K>)> {
        let mut stale = Vec::new();
        for (namespace, names) in &self.namespaces {
            for (name, entry) in names.iter().filter(|(_, e)| e.epoch != self.epoch) {
                let key = ObjectKey {
                    namespace: Arc::clone(namespace),
                    name: Arc::clone(name),
                };
                stale.push((key, Arc::clone(&entry.object)));
            }
        }
        stale
    }

    pub(super) fn upsert(&mut self, new: &Arc<K>) -> (ObjectKey, Upsert<K>) {
        let key = self.intern(new);
        let epoch = self.epoch;
        let names = self
            .namespaces
            .entry(Arc::clone(&key.namespace))
            .or_default();
        let old = if let Some(entry) = names.get_mut(&*key.name) {
            entry.epoch = epoch;
            let (old, meta) = (entry.object.meta(), new.meta());
            if old.uid == meta.uid && old.resource_version == meta.resource_version {
                return (key, Upsert::Unchanged);
            }
            Some(std::mem::replace(&mut entry.object, Arc::clone(new)))
        } else {
            let object = Arc::clone(new);
            names.insert(Arc::clone(&key.name), Entry { object, epoch });
            self.len += 1;
            None
        };
        if let Some(old) = &old {
            self.drop_owners(&key, old, Some(new));
        }
        for owner in &new.meta().owner_references {
            self.owners
                .entry(owner.uid.as_str().into())
                .or_default()
                .insert(key.clone(), Arc::clone(new));
        }
        let upsert = match old {
            Some(last) if last.meta().uid != new.meta().uid => Upsert::Replaced {
                last,
                new: Arc::clone(new),
            },
            old => Upsert::Applied {
                old,
                new: Arc::clone(new),
            },
        };
        (key, upsert)
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, uid: Option<&str>) -> Option<Arc<K>> {
        let names = self.namespaces.get_mut(&*key.namespace)?;
        let held = &names.get(&*key.name)?.object;
        if uid.is_some_and(|uid| uid != held.meta().uid) {
            return None;
        }
        let last = names.remove(&*key.name)?.object;
        if names.is_empty() {
            self.namespaces.remove(&*key.namespace);
        }
        self.len -= 1;
        self.drop_owners(key, &last, None);
        Some(last)
    }

    /// Takes `old` out of the owners' tables, but for those that `new` has too.
    fn drop_owners(&mut self, key: &ObjectKey, old: &K, new: Option<&Arc<K>>) {
        for owner in &old.meta().owner_references {
            let kept = new.is_some_and(|new| {
                new.meta()
                    .owner_references
                    .iter()
                    .any(|other| other.uid == owner.uid)
            });
            if kept {
                continue;
            }
            if let Some(owned) = self.owners.get_mut(owner.uid.as_str()) {
                owned.remove(key);
                if owned.is_empty() {
                    self.owners.remove(owner.uid.as_str());
                }
            }
        }
    }

    /// The object's key, with the parts that the store has already.
    fn intern(&self, object: &K) -> ObjectKey {
        let meta = object.meta();
        let known = self.namespaces.get_key_value(meta.namespace.as_str());
        let name = known.and_then(|(_, names)| names.get_key_value(meta.name.as_str()));
        ObjectKey {
            namespace: known
                .map_or_else(|| meta.namespace.as_str().into(), |(ns, _)| Arc::clone(ns)),
            name: name.map_or_else(|| meta.name.as_str().into(), |(name, _)| Arc::clone(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::testing::{Thing, owned, thing};

    fn upsert(index: &mut Index<Thing>, object: Thing) -> Upsert<Thing> {
        index.upsert(&Arc::new(object)).1
    }

    #[test]
    fn lookups_by_namespace_and_owner_follow_every_change() {
        let mut index = Index::default();
        upsert(&mut index, owned("x", "a", "1", 1, &["o1", "o2"]));
        upsert(&mut index, owned("x", "b", "2", 1, &["o1"]));
        upsert(&mut index, thing("y", "a", "3", 1));
        assert_eq!((index.len(), index.all().len()), (3, 3));
        assert_eq!(index.in_namespace("x").len(), 2);
        assert_eq!(index.owned_by("o1").len(), 2);

        upsert(&mut index, owned("x", "a", "1", 2, &["o2", "o3"]));
        assert_eq!(index.owned_by("o1").len(), 1);
        assert_eq!(index.owned_by("o2")[0].meta().resource_version, "2");
        assert_eq!(index.owned_by("o3").len(), 1);

        assert!(
            index.remove(&ObjectKey::new("x", "a"), Some("9")).is_none(),
            "another UID"
        );
        assert!(index.remove(&ObjectKey::new("x", "a"), None).is_some());
        assert!(index.remove(&ObjectKey::new("x", "b"), None).is_some());
        assert_eq!(index.len(), 1);
        assert!(
            index.owners.is_empty() && index.namespaces.len() == 1,
            "nothing is left behind"
        );
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
    fn what_a_list_did_not_hold_is_stale() {
        let mut index = Index::default();
        for name in ["a", "b", "c"] {
            upsert(&mut index, thing("x", name, name, 1));
        }
        index.begin_epoch();
        assert_eq!(index.stale().len(), 3);
        upsert(&mut index, thing("x", "a", "a", 1));
        index.touch(&ObjectKey::new("x", "b"));
        let stale = index.stale();
        assert_eq!(stale.len(), 1);
        assert_eq!(stale[0].0, ObjectKey::new("x", "c"));
    }
}
