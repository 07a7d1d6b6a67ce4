//! Updates and patches.

use std::sync::Arc;

use serde_json::{Value, json};

use super::metadata as meta;
use super::object::{Entry, key, metadata, text};
use super::write::{dry, undecodable, writer};
use super::{Answer, Context, Halt, Reply, Served, State, convert, crd, kinds, rules};
use crate::apiserver::patch;
use crate::apiserver::request::{PatchKind, Request, Verb};
use crate::apiserver::schema::Definition;
use crate::apiserver::{ApiError, Cause};

impl State {
    /// PUT and PATCH of an object or its `status`.
    pub(super) fn update(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let (namespace, name) = named(request)?;
        let Some(existing) = self.storage_of(served).get(&key(namespace, name)).cloned() else {
            return self.update_missing(served, request, context, name);
        };
        let old = convert::to_served(served, &existing, context.conversions)?;
        let (new, applied) = match request.verb {
            Verb::Patch(kind) => {
                let new = self.patched(served, request, &old, kind, &context.time())?;
                (new, kind == PatchKind::Apply)
            }
            _ => (request.body.clone(), false),
        };
        self.replace(served, request, context, &existing, &old, new, applied)
    }

    fn update_missing(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
        name: &str,
    ) -> Result<Answer, Halt> {
        let mut object = request.body.clone();
        let main = request.target.subresource.is_none();
        match request.verb {
            Verb::Patch(PatchKind::Apply) if main => {
                self.check_applied(served, &mut object)?;
                meta::check_name(&named_body(object.clone(), name), name)?;
                let uid = text(&object, "uid");
                if !uid.is_empty() {
                    let why = format!(
                        "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
                    );
                    return Err(served.conflict(name, &why).into());
                }
                self.admit(served, request.target.namespace.as_deref(), name)?;
                let (api_version, now) = (served.api_version(), context.time());
                let writer = writer(request, "", &api_version, &now);
                let force = request.options.force == Some(true);
                let mut object = named_body(object, name);
                patch::confine(
                    &mut object,
                    "",
                    served.traits.status,
                    served.custom.is_some(),
                );
                let object = patch::apply(None, &object, writer, force, served.merge())?;
                self.create_object(served, request, context, object, true)
            }
            Verb::Update if main && served.traits.create_on_update => {
                meta::check_name(&object, name)?;
                let uid = text(&object, "uid");
                if !uid.is_empty() {
                    let key = key(request.target.namespace.as_deref(), name);
                    return Err(other_uid(served, name, &key, uid, "").into());
                }
                metadata(&mut object).remove("resourceVersion");
                self.create_object(served, request, context, object, false)
            }
            _ => Err(served.not_found(name).into()),
        }
    }

    /// `old` with the patch of a request.
    pub(super) fn patched(
        &self,
        served: &Served,
        request: &Request,
        old: &Value,
        kind: PatchKind,
        now: &str,
    ) -> Result<Value, ApiError> {
        let mut new = old.clone();
        match kind {
            PatchKind::Json => patch::json(&mut new, &request.body)?,
            PatchKind::Merge => {
                patch::check_merge(&request.body)?;
                patch::merge(&mut new, &request.body);
            }
            PatchKind::Strategic => patch::strategic(&mut new, &request.body, served.merge())?,
            PatchKind::Apply => {
                let mut body = request.body.clone();
                self.check_applied(served, &mut body)?;
                let name = request.target.name.as_deref().unwrap_or_default();
                let mut body = named_body(body, name);
                meta::check_name(&body, name)?;
                let api_version = served.api_version();
                let subresource = request.target.subresource.as_deref().unwrap_or_default();
                patch::confine(
                    &mut body,
                    subresource,
                    served.traits.status,
                    served.custom.is_some(),
                );
                let writer = writer(request, subresource, &api_version, now);
                let force = request.options.force == Some(true);
                new = patch::apply(Some(old), &body, writer, force, served.merge())?;
            }
        }
        Ok(new)
    }

    /// Puts `new` in the place of `old`, as far as the request's subresource allows.
    #[allow(
        clippy::too_many_arguments,
        reason = "an object in three forms, and who asks for what"
    )]
    pub(super) fn replace(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
        existing: &Arc<Entry>,
        old: &Value,
        mut new: Value,
        applied: bool,
    ) -> Result<Answer, Halt> {
        let now = context.time();
        let (namespace, name) = named(request)?;
        let subresource = request.target.subresource.as_deref().unwrap_or_default();
        let typed = self.check_type(served, &mut new);
        typed.map_err(|error| of_patch(served, request, &new, error))?;
        meta::check_name(&new, name)?;
        meta::ensure_namespace(&mut new, namespace)?;
        check_version(served, request, name, existing, &mut new)?;

        let mut warnings = self.decode(served, request, &mut new)?;
        warnings.extend(meta::deduplicate_owners(&mut new));
        isolate(served, subresource, &mut new, old);
        meta::preserve(&mut new, old);
        if !applied {
            let api_version = served.api_version();
            let writer = writer(request, subresource, &api_version, &now);
            patch::track(Some(old), &mut new, writer, served.merge());
        }
        meta::tidy(&mut new);
        kinds::update(&served.storage, subresource, &mut new, old);
        if served.traits.generation && subresource != "status" && changed(served, &new, old) {
            let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
            metadata(&mut new).insert("generation".to_owned(), generation.into());
        }

        let mut causes = rules::validate_update(&new, old);
        causes.extend(rules::validate(served, &new));
        causes.extend(match subresource {
            "status" => kinds::validate_status(&served.storage, &new),
            _ => kinds::validate(&served.storage, &new, Some(old)),
        });
        if crd::is_definition(served) {
            causes.extend(Definition::immutable(&new, old));
        }
        if let Some(custom) = &served.custom {
            causes.extend(match subresource {
                "status" => custom.schema.validate_status(&new, Some(old)),
                _ => custom.schema.validate(&new, Some(old)),
            });
        }
        self.refuse(served, name, &causes)?;

        if crd::is_definition(served) && subresource.is_empty() {
            crd::check(&mut new, &now)?;
        }
        let stored = convert::to_stored(served, new, context.conversions)?;
        if request.options.is_dry_run() {
            return Ok(dry(served, 200, stored, warnings));
        }
        let reply = |entry| Reply::Object {
            code: 200,
            entry,
            served: Arc::clone(served),
        };
        if same(&stored, &existing.value()) {
            return Ok(Answer {
                reply: reply(Arc::clone(existing)),
                warnings,
            });
        }
        let entry = self.settle(served, existing, stored, Some(served.shape()));
        if crd::is_definition(served) {
            self.define(&entry, &now);
        }
        Ok(Answer {
            reply: reply(entry),
            warnings,
        })
    }

    /// Stores an update, which may be the last one: an object that is being deleted goes with its last
    /// finalizer.
    pub(super) fn settle(
        &mut self,
        served: &Served,
        existing: &Arc<Entry>,
        stored: Value,
        shape: Option<u32>,
    ) -> Arc<Entry> {
        let shape = shape.unwrap_or(existing.shape);
        let finalized = stored["metadata"]["finalizers"]
            .as_array()
            .is_none_or(Vec::is_empty);
        let grace = existing.deleting
            && existing.value()["metadata"]["deletionGracePeriodSeconds"]
                .as_i64()
                .unwrap_or_default()
                > 0;
        let purged = served.storage.as_ref() != "namespaces"
            || stored["spec"]["finalizers"]
                .as_array()
                .is_none_or(Vec::is_empty);
        if finalized && existing.deleting && !grace && purged {
            let storage = &self.storages[&served.storage];
            let last = Entry::new(
                Arc::clone(&existing.key),
                existing.rv,
                stored,
                &storage.selectable,
                shape,
            );
            self.remove(&served.storage, &existing.key);
            return Arc::new(last);
        }
        self.put_shaped(&served.storage, Arc::clone(&existing.key), stored, shape)
    }

    /// Checks the type of what is applied: it has to name it.
    fn check_applied(&self, served: &Served, object: &mut Value) -> Result<(), ApiError> {
        let given = |field: &str| object[field].as_str().unwrap_or_default();
        let (version, kind) = (given("apiVersion"), given("kind"));
        if kind != served.info.kind {
            let (group, version) = version.rsplit_once('/').unwrap_or(("", version));
            let why = format!("invalid object type: {group}/{version}, Kind={kind}");
            return Err(ApiError::bad_request(why));
        }
        self.check_type(served, object)
    }
}

/// Namespace and name of a request for one object.
pub(super) fn named(request: &Request) -> Result<(Option<&str>, &str), ApiError> {
    let name = request
        .target
        .name
        .as_deref()
        .ok_or_else(super::method_not_allowed)?;
    Ok((request.target.namespace.as_deref(), name))
}

fn named_body(mut object: Value, name: &str) -> Value {
    if text(&object, "name").is_empty() {
        metadata(&mut object).insert("name".to_owned(), name.into());
    }
    object
}

/// Optimistic concurrency: the version and the UID that the new object names must be the old one's.
fn check_version(
    served: &Served,
    request: &Request,
    name: &str,
    existing: &Entry,
    new: &mut Value,
) -> Result<(), ApiError> {
    let uid = text(new, "uid");
    if request.verb == Verb::Update && !uid.is_empty() && uid != &*existing.uid {
        return Err(other_uid(served, name, &existing.key, uid, &existing.uid));
    }
    let version = text(new, "resourceVersion");
    match version {
        "" | "0" if request.verb == Verb::Update && !served.traits.unconditional_update => {
            let why = "must be specified for an update";
            let cause = Cause::invalid("metadata.resourceVersion", &json!(0), why);
            Err(ApiError::invalid(
                &served.info.group,
                &served.info.plural,
                name,
                &[cause],
            ))
        }
        "" | "0" => {
            let version = existing.rv.to_string();
            metadata(new).insert("resourceVersion".to_owned(), version.into());
            Ok(())
        }
        version => match version.parse::<u64>() {
            Ok(version) if version == existing.rv => Ok(()),
            Ok(_) => Err(served.modified(name)),
            Err(_) => {
                let why = format!("strconv.ParseUint: parsing {version:?}: invalid syntax");
                Err(ApiError::new(500, "", why))
            }
        },
    }
}

/// 409 for a PUT of an object that was made anew.
fn other_uid(served: &Served, name: &str, key: &str, asked: &str, there: &str) -> ApiError {
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {asked}, UID in object meta: {there}",
        served.info.plural
    );
    served.conflict(name, &why)
}

/// What is said of a patch that makes another type of an object.
fn of_patch(served: &Served, request: &Request, object: &Value, error: ApiError) -> ApiError {
    let patched = matches!(request.verb, Verb::Patch(kind) if kind != PatchKind::Apply);
    let handled = format!("cannot be handled as a {}: ", served.info.kind);
    match error.message.split_once(&handled) {
        Some((_, why)) if patched => undecodable(served, request, object, why),
        _ => error,
    }
}

/// Puts back what the subresource (or its absence) can't change.
fn isolate(served: &Served, subresource: &str, new: &mut Value, old: &Value) {
    if subresource == "status" {
        let status = new.get("status").cloned();
        if served.custom.is_some() {
            let managed = new["metadata"].get("managedFields").cloned();
            *new = old.clone();
            if let Some(managed) = managed {
                metadata(new).insert("managedFields".to_owned(), managed);
            }
        } else {
            let metadata = new["metadata"].take();
            *new = old.clone();
            new["metadata"] = metadata;
            kinds::isolate_status(&served.storage, new, old);
        }
        set(new, "status", status.as_ref());
    } else if served.traits.status && subresource.is_empty() {
        set(new, "status", old.get("status"));
    }
}

fn set(object: &mut Value, field: &str, value: Option<&Value>) {
    if let Some(object) = object.as_object_mut() {
        match value {
            Some(value) => object.insert(field.to_owned(), value.clone()),
            None => object.remove(field),
        };
    }
}

/// Whether the generation rises: anything but metadata and status has changed.
fn changed(served: &Served, new: &Value, old: &Value) -> bool {
    let ignored = |field: &str| {
        matches!(field, "metadata" | "apiVersion" | "kind")
            || (field == "status" && served.traits.status)
    };
    let (Some(new), Some(old)) = (new.as_object(), old.as_object()) else {
        return true;
    };
    new.iter()
        .any(|(field, value)| !ignored(field) && old.get(field) != Some(value))
        || old
            .keys()
            .any(|field| !ignored(field) && !new.contains_key(field))
}

/// Whether two stored objects are the same but for their versions and the times of managed fields.
pub(super) fn same(new: &Value, old: &Value) -> bool {
    let ignored = |field: &str| matches!(field, "apiVersion" | "kind" | "metadata");
    let (Some(a), Some(b)) = (new.as_object(), old.as_object()) else {
        return false;
    };
    let body =
        |map: &serde_json::Map<String, Value>| map.keys().filter(|field| !ignored(field)).count();
    body(a) == body(b)
        && a.iter()
            .all(|(field, value)| ignored(field) || b.get(field) == Some(value))
        && same_metadata(&new["metadata"], &old["metadata"])
}

fn same_metadata(new: &Value, old: &Value) -> bool {
    let (Some(a), Some(b)) = (new.as_object(), old.as_object()) else {
        return false;
    };
    let versioned = |map: &serde_json::Map<String, Value>| {
        map.len() - usize::from(map.contains_key("resourceVersion"))
    };
    versioned(a) == versioned(b)
        && a.iter().all(|(field, value)| match field.as_str() {
            "resourceVersion" => true,
            "managedFields" => b
                .get(field)
                .is_some_and(|old| timeless(value) == timeless(old)),
            _ => b.get(field) == Some(value),
        })
}

fn timeless(managed: &Value) -> Vec<Value> {
    let mut entries = managed.as_array().cloned().unwrap_or_default();
    for entry in &mut entries {
        if let Some(entry) = entry.as_object_mut() {
            entry.remove("time");
        }
    }
    entries
}
