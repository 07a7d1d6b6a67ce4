//! Deletion: preconditions, finalizers, grace periods.

use std::sync::Arc;

use serde_json::{Value, json};

use super::grace::{Grace, bump_generation, grace, later, mark, shorten};
use super::metadata::{FOREGROUND, ORPHAN};
use super::object::{Entry, metadata, texts};
use super::update::named;
use super::{Answer, Context, Halt, Reply, Served, State, crd, namespace};
use crate::apiserver::request::Request;
use crate::apiserver::{ApiError, Cause};

/// What is said where a Job is deleted without a word about its pods.
const JOB_WARNING: &str = "child pods are preserved by default when jobs are deleted; set \
    propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

/// How to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Deletion {
    pub(super) grace: Option<i64>,
    propagation: Option<String>,
    orphan_dependents: Option<bool>,
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: Vec<String>,
}

impl Deletion {
    /// From the query and the body (a `DeleteOptions`), which wins.
    pub(super) fn of(request: &Request) -> Result<Self, ApiError> {
        let (options, body) = (&request.options, &request.body);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match body["kind"].as_str() {
            None | Some("" | "DeleteOptions") => {}
            Some(kind) => {
                let version = body["apiVersion"].as_str().unwrap_or_default();
                return Err(ApiError::bad_request(format!(
                    "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
                )));
            }
        }
        let deletion = Self {
            grace: body["gracePeriodSeconds"]
                .as_i64()
                .or(options.grace_period_seconds),
            propagation: text(&body["propagationPolicy"])
                .or_else(|| options.propagation_policy.clone()),
            orphan_dependents: body["orphanDependents"]
                .as_bool()
                .or(options.orphan_dependents),
            uid: text(&body["preconditions"]["uid"]),
            resource_version: text(&body["preconditions"]["resourceVersion"]),
            dry_run: match body["dryRun"].as_array() {
                Some(list) => list.iter().filter_map(text).collect(),
                None => options.dry_run.clone(),
            },
        };
        deletion.check()?;
        Ok(deletion)
    }

    /// In the background, at once: as the garbage collector deletes.
    pub(super) fn background() -> Self {
        Self {
            propagation: Some("Background".to_owned()),
            ..Self::default()
        }
    }

    /// After what it owns.
    pub(super) fn foreground() -> Self {
        Self {
            propagation: Some("Foreground".to_owned()),
            ..Self::default()
        }
    }

    /// Whether it is left to the kind what becomes of dependents.
    fn is_undecided(&self) -> bool {
        self.orphan_dependents.is_none() && self.propagation.is_none()
    }

    fn check(&self) -> Result<(), ApiError> {
        let refuse = |cause| {
            Err(ApiError::invalid(
                "meta.k8s.io",
                "DeleteOptions",
                "",
                &[cause],
            ))
        };
        if self.dry_run.iter().any(|value| value != "All") {
            let given = json!(self.dry_run);
            return refuse(Cause::not_supported("dryRun", &given, &["All"]));
        }
        match self.propagation.as_deref() {
            Some(_) if self.orphan_dependents.is_some() => refuse(Cause::invalid(
                "propagationPolicy",
                &json!(self.propagation),
                "orphanDependents and deletionPropagation cannot be both set",
            )),
            None | Some("Background" | "Foreground" | "Orphan") => Ok(()),
            Some(other) => refuse(Cause::not_supported(
                "propagationPolicy",
                &other.into(),
                &["Foreground", "Background", "Orphan", "nil"],
            )),
        }
    }

    /// The finalizer that the garbage collector is to act on, if any.
    fn finalizer(&self, present: &[String]) -> Option<&'static str> {
        match (self.orphan_dependents, self.propagation.as_deref()) {
            (Some(true), _) | (None, Some("Orphan")) => Some(ORPHAN),
            (None, Some("Foreground")) => Some(FOREGROUND),
            (Some(false), _) | (None, Some(_)) => None,
            (None, None) => [ORPHAN, FOREGROUND]
                .into_iter()
                .find(|f| present.iter().any(|p| p == f)),
        }
    }
}

/// What became of an object that was to be deleted.
pub(super) enum Deleted {
    /// It is gone; its last state.
    Gone(Arc<Entry>),
    /// It goes once somebody has done their part; its state now.
    Pending(Arc<Entry>),
}

impl State {
    pub(super) fn delete(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let (_, name) = named(request)?;
        let deletion = Deletion::of(request)?;
        let entry = self.existing(served, request)?;
        let deleted = self.delete_entry(served, &entry, &deletion, context)?;
        let accepted = deletion.orphan_dependents == Some(false);
        let reply = match deleted {
            Deleted::Gone(entry) if !served.traits.returns_deleted => {
                let mut details =
                    json!({"name": name, "kind": served.info.plural, "uid": &*entry.uid});
                if !served.info.group.is_empty() {
                    details["group"] = served.info.group.as_str().into();
                }
                let value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
                    "status": "Success", "details": details});
                Reply::Value { code: 200, value }
            }
            Deleted::Gone(entry) => Reply::Object {
                code: 200,
                entry,
                served: Arc::clone(served),
            },
            Deleted::Pending(entry) => Reply::Object {
                code: if accepted { 202 } else { 200 },
                entry,
                served: Arc::clone(served),
            },
        };
        let undecided = served.storage.as_ref() == "jobs.batch" && deletion.is_undecided();
        Ok(Answer {
            reply,
            warnings: undecided
                .then(|| JOB_WARNING.to_owned())
                .into_iter()
                .collect(),
        })
    }

    pub(super) fn delete_collection(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let deletion = Deletion::of(request)?;
        let (page, _) = self.list(request)?;
        for entry in &page.entries {
            match self.delete_entry(served, entry, &deletion, context) {
                Ok(_) => {}
                Err(error) if error.code == 404 || error.code == 409 => {}
                Err(error) => return Err(error.into()),
            }
        }
        let reply = Reply::Page {
            page,
            served: Arc::clone(served),
        };
        Ok(Answer {
            reply,
            warnings: Vec::new(),
        })
    }

    /// Deletes one object as the garbage collector does. Gives whether anything changed.
    pub(super) fn delete_in_background(
        &mut self,
        storage: &str,
        key: &str,
        context: Context<'_>,
    ) -> bool {
        self.delete_as(storage, key, &Deletion::background(), context)
    }

    /// The same, as `deletion` says.
    pub(super) fn delete_as(
        &mut self,
        storage: &str,
        key: &str,
        deletion: &Deletion,
        context: Context<'_>,
    ) -> bool {
        let objects = self.storages.get(storage);
        let Some(entry) = objects.and_then(|objects| objects.get(key)).cloned() else {
            return false;
        };
        let served = self
            .served
            .values()
            .find(|served| &*served.storage == storage);
        let Some(served) = served.cloned() else {
            return self.remove(&storage.into(), key).is_some();
        };
        let before = self.version;
        // What is refused stays, as it does where the collector asks a real server.
        let _ = self.delete_entry(&served, &entry, deletion, context);
        self.version != before
    }

    /// Deletes one object, as far as that can be done now.
    pub(super) fn delete_entry(
        &mut self,
        served: &Arc<Served>,
        entry: &Arc<Entry>,
        deletion: &Deletion,
        context: Context<'_>,
    ) -> Result<Deleted, ApiError> {
        let name = entry.names().1;
        check_preconditions(served, entry, deletion)?;
        match served.storage.as_ref() {
            "namespaces" if namespace::IMMORTAL.contains(&name) => {
                return Err(served.forbidden(name, "this namespace may not be deleted"));
            }
            "namespaces" => return Ok(self.delete_namespace(served, entry, deletion, context)),
            _ => {}
        }
        let mut object = entry.value();
        let grace = grace(served, &object, deletion);
        match grace {
            Grace::Pending => return Ok(Deleted::Pending(Arc::clone(entry))),
            Grace::Given(seconds) if !entry.deleting => {
                let until = later(context.now, seconds);
                bump_generation(&mut object);
                let metadata = metadata(&mut object);
                metadata.insert("deletionTimestamp".to_owned(), until.into());
                metadata.insert("deletionGracePeriodSeconds".to_owned(), seconds.into());
            }
            Grace::Given(seconds) => shorten(&mut object, seconds, context.now),
            Grace::None => {}
        }
        let definition = crd::is_definition(served) && !entry.deleting;
        if definition {
            crd::mark(&mut object, &context.time());
        }
        let present = texts(&object, "finalizers");
        let mut finalizers = present.clone();
        finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
        // Jobs alone leave what they own by default, as they did in their first version.
        let orphans = served.storage.as_ref() == "jobs.batch" && deletion.is_undecided();
        let finalizer = deletion.finalizer(&present).or(orphans.then_some(ORPHAN));
        finalizers.extend(finalizer.map(str::to_owned));
        let waits = !finalizers.is_empty();
        if finalizers != present {
            object["metadata"]["finalizers"] = json!(finalizers);
        }
        let gives_time = matches!(grace, Grace::Given(seconds) if seconds > 0);
        if waits && !definition && matches!(grace, Grace::None) {
            mark(&mut object, entry.deleting, context.now);
        }
        let changed = !super::compare::same(&object, &entry.value());
        if !deletion.dry_run.is_empty() {
            let storage = &self.storages[&served.storage];
            let would = Entry::new(
                Arc::clone(&entry.key),
                entry.rv,
                object,
                &storage.selectable,
                entry.shape,
            );
            let would = Arc::new(would);
            return Ok(if waits || gives_time {
                Deleted::Pending(would)
            } else {
                Deleted::Gone(would)
            });
        }
        // A graceful deletion without time is written before the object goes, as a real server does.
        let written = if changed && (waits || !matches!(grace, Grace::None)) {
            let written = self.put(&served.storage, Arc::clone(&entry.key), object);
            if definition {
                self.define(&written, &context.time());
            }
            written
        } else {
            Arc::clone(entry)
        };
        if waits || gives_time {
            return Ok(Deleted::Pending(written));
        }
        let last = self.remove(&served.storage, &entry.key).unwrap_or(written);
        if crd::is_definition(served) {
            self.define(&last, &context.time());
        }
        Ok(Deleted::Gone(last))
    }

    fn delete_namespace(
        &mut self,
        served: &Arc<Served>,
        entry: &Arc<Entry>,
        deletion: &Deletion,
        context: Context<'_>,
    ) -> Deleted {
        if entry.deleting {
            return Deleted::Pending(Arc::clone(entry));
        }
        let mut object = entry.value();
        metadata(&mut object).insert("deletionTimestamp".to_owned(), context.time().into());
        object["status"]["phase"] = "Terminating".into();
        if !deletion.dry_run.is_empty() {
            return Deleted::Pending(Arc::clone(entry));
        }
        let entry = self.put(&served.storage, Arc::clone(&entry.key), object);
        self.pending
            .push_back((Arc::clone(&served.storage), Arc::clone(&entry.key)));
        Deleted::Pending(entry)
    }
}

fn check_preconditions(
    served: &Served,
    entry: &Entry,
    deletion: &Deletion,
) -> Result<(), ApiError> {
    let name = entry.names().1;
    let conflict = |why: String| {
        // A real server names the kind here, not the resource.
        Err(ApiError::conflict(
            &served.info.group,
            &served.info.kind,
            name,
            &why,
        ))
    };
    if let Some(uid) = deletion.uid.as_deref().filter(|uid| *uid != &*entry.uid) {
        return conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might \
             have been deleted and then recreated",
            entry.uid
        ));
    }
    let version = entry.rv.to_string();
    match deletion.resource_version.as_deref() {
        Some(asked) if asked != version => conflict(format!(
            "the ResourceVersion in the precondition ({asked}) does not match the ResourceVersion in \
             record ({version}). The object might have been modified"
        )),
        _ => Ok(()),
    }
}
