//! The object logic: a state, a request and the time give an answer and events.
//!
//! Nothing here knows a socket, a clock or chance: the time comes with the request, randomness from a
//! seed. Where a version needs a webhook to be converted, the work is given back ([`Halt::Convert`])
//! and repeated with the answer.

mod admission;
mod body;
mod compare;
mod convert;
mod crd;
mod delete;
mod dice;
mod events;
mod eviction;
mod gc;
mod grace;
mod kinds;
mod metadata;
mod names;
mod namespace;
mod object;
mod protection;
mod read;
mod reviews;
mod routing;
mod rules;
mod selector;
mod served;
mod storage;
mod subresource;
mod update;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;

pub(crate) use convert::Conversions;
pub(crate) use object::Entry;
pub(crate) use read::Page;
pub(crate) use served::{Form, Served};
pub(crate) use storage::Storage;
pub(crate) use watch::{Frame, Watch, WatchEnd};

use super::ApiError;
use super::registry::{self, Builtin};
use super::request::{Request, Verb};
use dice::Dice;

/// Group, version and plural.
type ResourceKey = (String, String, String);

/// Why a request has no answer yet.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It never will.
    Refused(ApiError),
    /// These objects have to be converted first; nothing was changed.
    Convert(convert::Need),
}

impl From<ApiError> for Halt {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

/// What a request is answered with.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A stored object, in its stored form.
    Object {
        code: u16,
        entry: Arc<Entry>,
        served: Arc<Served>,
    },
    /// Anything else, complete.
    Value { code: u16, value: Value },
    /// A page of a list.
    Page { page: Page, served: Arc<Served> },
}

/// An answer, with what goes into `Warning` headers.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) warnings: Vec<String>,
}

/// What surrounds one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: Timestamp,
    /// What webhooks have said so far.
    pub(crate) conversions: &'a Conversions,
}

impl Context<'_> {
    /// Now, as `metadata.creationTimestamp` has it.
    pub(crate) fn time(&self) -> String {
        format!("{:.0}", self.now)
    }
}

/// All that an API server remembers.
#[derive(Debug)]
pub(crate) struct State {
    /// The last resource version that was given out.
    version: u64,
    storages: BTreeMap<Arc<str>, Storage>,
    served: BTreeMap<ResourceKey, Arc<Served>>,
    /// By the UID of an owner: storage and key of what it owns.
    dependents: BTreeMap<Box<str>, BTreeSet<gc::Place>>,
    /// What the garbage collector has yet to look at.
    pending: VecDeque<gc::Place>,
    /// Claims that wait for the pods that use them.
    protected: BTreeSet<gc::Place>,
    /// Numbers of the schemas of custom resources, by their text.
    shapes: BTreeMap<String, u32>,
    /// Allotted cluster IPs.
    addresses: BTreeSet<u32>,
    /// Events with the times at which they go, unless they are of another version by then.
    expiring: VecDeque<(Timestamp, Arc<Entry>)>,
    dice: Dice,
    history: usize,
}

impl State {
    /// An empty state that serves the built-in resources. Keeps `history` events a resource.
    pub(crate) fn new(seed: u64, history: usize) -> Self {
        let mut state = Self {
            version: 1,
            storages: BTreeMap::new(),
            served: BTreeMap::new(),
            dependents: BTreeMap::new(),
            pending: VecDeque::new(),
            protected: BTreeSet::new(),
            shapes: BTreeMap::new(),
            addresses: BTreeSet::new(),
            expiring: VecDeque::new(),
            dice: Dice::new(seed),
            history,
        };
        for builtin in registry::builtin() {
            state.serve_builtin(builtin);
        }
        state
    }

    fn serve_builtin(&mut self, builtin: Builtin) {
        let Builtin {
            info,
            storage,
            traits,
        } = builtin;
        let fields: Vec<String> = registry::selectable(&storage)
            .iter()
            .map(|field| (*field).to_owned())
            .collect();
        let name = self.storage_for(&storage, fields);
        let form = if info.group == "events.k8s.io" {
            Form::Events
        } else {
            Form::Same
        };
        let key = (
            info.group.clone(),
            info.version.clone(),
            info.plural.clone(),
        );
        let served = Served::new(info, traits, name, form, None);
        self.served.insert(key, Arc::new(served));
    }

    /// The storage of this name, made where it is new.
    fn storage_for(&mut self, name: &str, selectable: Vec<String>) -> Arc<str> {
        if let Some(storage) = self.storages.get_mut(name) {
            if *storage.selectable != *selectable {
                storage.select_by(selectable);
            }
            return Arc::clone(&storage.name);
        }
        let storage = Storage::new(name, selectable, self.history, self.version);
        let name = Arc::clone(&storage.name);
        self.storages.insert(Arc::clone(&name), storage);
        name
    }

    /// The last resource version.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// All that is served, by group, version and plural.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Served>> {
        self.served.values()
    }

    /// One served version.
    pub(crate) fn find(&self, group: &str, version: &str, resource: &str) -> Option<&Arc<Served>> {
        self.served
            .get(&(group.to_owned(), version.to_owned(), resource.to_owned()))
    }

    /// A storage by its name, such as `pods`.
    pub(crate) fn storage(&self, name: &str) -> Option<&Storage> {
        self.storages.get(name)
    }

    /// All storages.
    pub(crate) fn storages(&self) -> impl Iterator<Item = &Storage> {
        self.storages.values()
    }

    /// Forgets all events up to now, as etcd's compaction does.
    pub(crate) fn compact(&mut self) {
        let version = self.version;
        self.storages
            .values_mut()
            .for_each(|storage| storage.compact(version));
    }

    /// Which resource a request is for.
    ///
    /// # Errors
    /// 404 for a resource that is not served, 405 for a verb that it does not have.
    pub(crate) fn resolve(&self, request: &Request) -> Result<Arc<Served>, ApiError> {
        let target = &request.target;
        let served = self
            .find(&target.group, &target.version, &target.resource)
            .ok_or_else(ApiError::no_such_path)?;
        // A namespace where there are none, or a name in all namespaces: no such path.
        let info = &served.info;
        let misplaced = if info.namespaced {
            target.name.is_some() && target.namespace.is_none()
                || request.verb == Verb::Create
                    && target.namespace.is_none()
                    && target.subresource.is_none()
        } else {
            target.namespace.is_some()
        };
        if misplaced && !(info.namespaced && target.name.is_none()) {
            return Err(ApiError::no_such_path());
        }
        if let Some(subresource) = &target.subresource {
            let known = (subresource == "status" && info.status)
                || (subresource == "scale" && info.scale.is_some())
                || info
                    .subresources
                    .iter()
                    .any(|(name, _)| name == subresource);
            if !known {
                return Err(match &target.name {
                    Some(name) if served.custom.is_some() => served.not_found(name),
                    _ => ApiError::no_such_path(),
                });
            }
        }
        let refused = misplaced
            || served.traits.create_only && (request.verb != Verb::Create || target.name.is_some());
        if refused {
            return Err(method_not_allowed());
        }
        Ok(Arc::clone(served))
    }

    /// Carries out a request that writes.
    pub(crate) fn write(
        &mut self,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let dice = self.dice.clone();
        let outcome = self.carry_out(request, context);
        if matches!(outcome, Err(Halt::Convert(_))) {
            // Chance falls the same way when it is repeated, or no answer would ever fit.
            self.dice = dice;
        }
        outcome
    }

    fn carry_out(&mut self, request: &Request, context: Context<'_>) -> Result<Answer, Halt> {
        let served = self.resolve(request)?;
        if served.traits.create_only {
            return reviews::answer(self, &served, request).map_err(Halt::Refused);
        }
        let mut answer = if request.target.subresource.is_some() {
            self.write_subresource(&served, request, context)?
        } else {
            match request.verb {
                Verb::Create => self.create(&served, request, context)?,
                Verb::Update | Verb::Patch(_) => self.update(&served, request, context)?,
                Verb::Delete => self.delete(&served, request, context)?,
                Verb::DeleteCollection => self.delete_collection(&served, request, context)?,
                Verb::Get | Verb::List | Verb::Watch => return Err(method_not_allowed().into()),
            }
        };
        answer.warnings.extend(served.deprecation());
        if served.storage.as_ref() == "events" {
            self.expire_events(&answer.reply, context.now);
        }
        Ok(answer)
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn storage_of(&self, served: &Served) -> &Storage {
        self.storages
            .get(&served.storage)
            .expect("what is served has a storage")
    }

    /// What is stored there, if anything is.
    fn entry(&self, storage: &str, key: &str) -> Option<&Arc<Entry>> {
        self.storages.get(storage)?.get(key)
    }

    /// Stores `object` (in its stored form) and tells watches and the garbage collector.
    fn put(&mut self, storage: &Arc<str>, key: Arc<str>, object: Value) -> Arc<Entry> {
        let shape = self.entry(storage, &key).map_or(0, |entry| entry.shape);
        self.put_shaped(storage, key, object, shape)
    }

    /// The same with an object that was held to the schema `shape`.
    fn put_shaped(
        &mut self,
        storage: &Arc<str>,
        key: Arc<str>,
        object: Value,
        shape: u32,
    ) -> Arc<Entry> {
        let rv = self.next_version();
        let place = self
            .storages
            .get_mut(storage)
            .expect("what is served has a storage");
        let old = place.get(&key).cloned();
        let entry = Arc::new(Entry::new(key, rv, object, &place.selectable, shape));
        place.put(&entry);
        self.owned(storage, old.as_deref(), Some(&entry));
        entry
    }

    /// Removes an object and tells watches and the garbage collector. What is given back has the
    /// version of its deletion.
    fn remove(&mut self, storage: &Arc<str>, key: &str) -> Option<Arc<Entry>> {
        let rv = self.version + 1;
        let entry = self.storages.get_mut(storage)?.remove(key, rv)?;
        self.version = rv;
        self.owned(storage, Some(&entry), None);
        self.release_address(storage, &entry);
        Some(Arc::new(entry.at(rv)))
    }
}

/// 405, in the words of a real server.
pub(crate) fn method_not_allowed() -> ApiError {
    ApiError {
        details: serde_json::json!({}),
        ..ApiError::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
    }
}
