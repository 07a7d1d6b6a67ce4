//! The garbage collector: what has lost its owners goes; what is to be deleted in the foreground
//! waits for what it owns; namespaces and definitions are emptied.
//!
//! A real cluster does this in kube-controller-manager, some time after a write. Here the server asks
//! for a step ([`State::tidy`]) after each write, and again while there is something left.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::Deletion;
use super::metadata::{FOREGROUND, ORPHAN};
use super::object::{key, texts};
use super::{Context, Entry, Form, State, crd};
use crate::apiserver::patch::{self, Writer};

/// Storage and key of an object.
pub(super) type Place = (Arc<str>, Arc<str>);

impl State {
    /// Whether [`State::tidy`] has anything to look at.
    pub(crate) fn untidy(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Looks at up to `budget` objects and does what they need.
    pub(crate) fn tidy(&mut self, context: Context<'_>, budget: usize) {
        for _ in 0..budget {
            let Some((storage, key)) = self.pending.pop_front() else {
                return;
            };
            let Some(entry) = self.entry(&storage, &key).cloned() else {
                continue;
            };
            let left = match storage.as_ref() {
                "namespaces" if !entry.deleting => {
                    self.furnish(&entry, context);
                    false
                }
                "namespaces" if entry.deleting => {
                    self.empty_namespace(&entry, context, budget) == budget
                }
                crd::DEFINITIONS if entry.deleting => {
                    self.empty_definition(&entry, context, budget) == budget
                }
                _ => {
                    self.collect(&storage, &entry, context);
                    false
                }
            };
            if left {
                self.pending.push_back((storage, key));
            }
        }
    }

    /// Keeps the index of owners and notes what the collector has to look at after a write.
    pub(super) fn owned(
        &mut self,
        storage: &Arc<str>,
        old: Option<&Entry>,
        new: Option<&Arc<Entry>>,
    ) {
        let place = |entry: &Entry| (Arc::clone(storage), Arc::clone(&entry.key));
        if storage.as_ref() == "pods"
            && !self.protected.is_empty()
            && let Some(pod) = old
        {
            self.recheck_claims(pod);
        }
        let owners =
            |entry: Option<&Entry>| entry.map(|entry| entry.owners.clone()).unwrap_or_default();
        let (before, after) = (owners(old), owners(new.map(|entry| &**entry)));
        if let Some(old) = old.filter(|_| before != after) {
            for owner in &before {
                if let Some(places) = self.dependents.get_mut(owner) {
                    places.remove(&place(old));
                    if places.is_empty() {
                        self.dependents.remove(owner);
                    }
                }
                if new.is_none() {
                    self.recheck_owner(&old.value(), old.names().0, owner);
                }
            }
        }
        if let (None, Some(new), "namespaces") = (old, new, storage.as_ref()) {
            self.pending.push_back(place(new));
        }
        if let Some(new) = new {
            if before != after {
                for owner in &after {
                    self.dependents
                        .entry(owner.clone())
                        .or_default()
                        .insert(place(new));
                }
                self.pending.push_back(place(new));
            } else if new.deleting {
                self.pending.push_back(place(new));
            }
        } else if let Some(old) = old {
            if let Some(places) = self.dependents.get(&old.uid) {
                self.pending.extend(places.iter().cloned());
            }
            self.recheck_container(storage, old);
        }
    }

    /// An owner that waits for this dependent may go now.
    fn recheck_owner(&mut self, dependent: &Value, namespace: &str, uid: &str) {
        let owner = dependent["metadata"]["ownerReferences"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|owner| owner["uid"] == uid);
        if let Some(entry) = owner.and_then(|owner| self.owner(owner, namespace))
            && entry.1.deleting
        {
            let (storage, entry) = entry;
            self.pending.push_back((storage, Arc::clone(&entry.key)));
        }
    }

    /// A namespace or a definition that waits for its content may go now.
    fn recheck_container(&mut self, storage: &Arc<str>, gone: &Entry) {
        let namespaces: Arc<str> = "namespaces".into();
        let (namespace, _) = gone.names();
        let waiting = |storage: Option<&super::Storage>, key: &str| {
            storage
                .and_then(|storage| storage.get(key))
                .is_some_and(|entry| entry.deleting)
        };
        if !namespace.is_empty() && waiting(self.storages.get(&namespaces), namespace) {
            self.pending.push_back((namespaces, namespace.into()));
        }
        // A definition is named as its storage is.
        if waiting(self.storages.get(crd::DEFINITIONS), storage) {
            self.pending
                .push_back((crd::DEFINITIONS.into(), Arc::clone(storage)));
        }
    }

    /// The object that an owner reference means, if it is there and the same one.
    fn owner(&self, reference: &Value, namespace: &str) -> Option<(Arc<str>, Arc<Entry>)> {
        let api_version = reference["apiVersion"].as_str()?;
        let (group, _) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let kind = reference["kind"].as_str()?;
        let served = self
            .served
            .values()
            .find(|served| served.info.group == group && served.info.kind == kind)?;
        let namespace = served.info.namespaced.then_some(namespace);
        let name = reference["name"].as_str()?;
        let entry = self
            .storages
            .get(&served.storage)?
            .get(&key(namespace, name))?;
        (reference["uid"] == *entry.uid).then(|| (Arc::clone(&served.storage), Arc::clone(entry)))
    }

    /// Whether the kind of an owner is known at all: an owner of an unknown kind is not judged.
    fn known(&self, reference: &Value) -> bool {
        let api_version = reference["apiVersion"].as_str().unwrap_or_default();
        let (group, _) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        self.served.values().any(|served| {
            served.info.group == group && reference["kind"] == served.info.kind.as_str()
        })
    }

    fn collect(&mut self, storage: &Arc<str>, entry: &Arc<Entry>, context: Context<'_>) {
        let object = entry.value();
        if self.release(storage, entry, &object, context) {
            return;
        }
        let finalizers = texts(&object, "finalizers");
        let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
        if entry.deleting && has(ORPHAN) {
            self.orphan(entry, context);
            self.drop_finalizer(storage, entry, ORPHAN, context);
        } else if entry.deleting && has(FOREGROUND) {
            self.delete_dependents(storage, entry, context);
        } else if !entry.owners.is_empty() && !entry.deleting {
            self.judge(storage, entry, &object, context);
        }
    }

    /// Deletes an object that no owner holds any more; drops references to owners that are gone.
    fn judge(
        &mut self,
        storage: &Arc<str>,
        entry: &Arc<Entry>,
        object: &Value,
        context: Context<'_>,
    ) {
        let references = object["metadata"]["ownerReferences"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let (namespace, _) = entry.names();
        let mut solid = Vec::new();
        let mut dangling = false;
        let mut waiting = false;
        for reference in references {
            match self.owner(&reference, namespace) {
                Some((_, owner)) => {
                    waiting |= owner.deleting
                        && reference["blockOwnerDeletion"] == json!(true)
                        && texts(&owner.value(), "finalizers")
                            .iter()
                            .any(|f| f == FOREGROUND);
                    solid.push(reference);
                }
                None if !self.known(&reference) => solid.push(reference),
                None => dangling = true,
            }
        }
        if solid.is_empty() && dangling {
            self.delete_in_background(storage, &entry.key, context);
        } else if waiting && solid.len() == 1 {
            self.delete_dependent(storage, entry, context);
        } else if dangling {
            let mut object = object.clone();
            object["metadata"]["ownerReferences"] = solid.into();
            self.tidied(storage, entry, object, context);
        }
    }

    fn dependents_of(&self, uid: &str) -> Vec<Place> {
        let places = self.dependents.get(uid);
        places.into_iter().flatten().cloned().collect()
    }

    /// Deletes what an owner waits for: what owns something itself goes after that.
    fn delete_dependent(&mut self, storage: &Arc<str>, entry: &Arc<Entry>, context: Context<'_>) {
        let deletion = if self.dependents.contains_key(&entry.uid) {
            Deletion::foreground()
        } else {
            Deletion::background()
        };
        self.delete_as(storage, &entry.key, &deletion, context);
    }

    /// Deletes what an object owns; takes the finalizer off once nothing is left that blocks it.
    fn delete_dependents(&mut self, storage: &Arc<str>, entry: &Arc<Entry>, context: Context<'_>) {
        let mut blocked = false;
        for (storage, key) in self.dependents_of(&entry.uid) {
            let there = self.entry(&storage, &key).cloned();
            if let Some(dependent) = there.filter(|dependent| !dependent.deleting) {
                self.delete_dependent(&storage, &dependent, context);
            }
            blocked |= self.entry(&storage, &key).is_some_and(|left| {
                left.value()["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|owner| {
                        owner["uid"] == *entry.uid && owner["blockOwnerDeletion"] == json!(true)
                    })
            });
        }
        if !blocked {
            self.drop_finalizer(storage, entry, FOREGROUND, context);
        }
    }

    /// Takes an owner out of the references of what it owns.
    fn orphan(&mut self, owner: &Entry, context: Context<'_>) {
        for (storage, key) in self.dependents_of(&owner.uid) {
            let Some(entry) = self.entry(&storage, &key).cloned() else {
                continue;
            };
            let mut object = entry.value();
            if let Some(references) = object["metadata"]["ownerReferences"].as_array_mut() {
                references.retain(|reference| reference["uid"] != *owner.uid);
            }
            self.tidied(&storage, &entry, object, context);
        }
    }

    /// Takes a finalizer off, which may be the last.
    pub(super) fn drop_finalizer(
        &mut self,
        storage: &Arc<str>,
        entry: &Arc<Entry>,
        finalizer: &str,
        context: Context<'_>,
    ) {
        let Some(entry) = self.entry(storage, &entry.key).cloned() else {
            return;
        };
        let mut object = entry.value();
        let mut finalizers = texts(&object, "finalizers");
        finalizers.retain(|name| name != finalizer);
        object["metadata"]["finalizers"] = json!(finalizers);
        self.tidied(storage, &entry, object, context);
    }

    /// Stores what the collector has changed, as a write of its own.
    fn tidied(
        &mut self,
        storage: &Arc<str>,
        entry: &Arc<Entry>,
        mut object: Value,
        context: Context<'_>,
    ) {
        let served = self
            .served
            .values()
            .find(|served| served.storage == *storage && served.form != Form::Events);
        let Some(served) = served.cloned() else {
            return;
        };
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.retain(|_, value| value.as_array().is_none_or(|list| !list.is_empty()));
        }
        let mut old = entry.value();
        served.name_type(&mut old);
        served.name_type(&mut object);
        let (api_version, time) = (served.api_version(), context.time());
        let writer = Writer {
            manager: "kube-controller-manager",
            subresource: "",
            api_version: &api_version,
            time: &time,
        };
        patch::track(Some(&old), &mut object, writer, served.merge());
        self.settle(&served, entry, object, None);
    }
}
