//! Server-side apply, and who owns which fields after any other write.
//!
//! A port of structured-merge-diff's rules and of the API server's around them: apply merges what is
//! applied into what is there, takes away what the applier owned before and applies no more (unless
//! somebody else owns it), and refuses to change what others own.

mod check;
mod compare;
mod conflict;
mod element;
mod items;
mod last_applied;
mod managed;
mod set;
mod typed;

use serde_json::{Value, json};

use self::{
    compare::compare,
    conflict::Conflicts,
    managed::{Entry, Managed, Manager, Operation},
    set::Set,
};
use super::{MergeSchema, Writer};
use crate::apiserver::ApiError;

/// Fields of every object that nobody owns.
fn unowned() -> Set {
    [
        &["apiVersion"][..],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ]
    .into_iter()
    .collect()
}

/// Who owned what before the first apply, where nobody kept a record.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

impl Writer<'_> {
    fn manager(&self, operation: Operation) -> Manager {
        let name = if self.manager.is_empty() {
            "unknown"
        } else {
            self.manager
        };
        Manager {
            name: name.to_owned(),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => self.api_version.to_owned(),
            },
            subresource: self.subresource.to_owned(),
        }
    }
}

/// Server-side apply: `live` (`None` to create) with `applied` merged in and `managedFields` kept.
/// Conflicts with other managers are a 409 with causes, unless forced.
///
/// `applied` must not have what its writer can't write ([`confine`]). What nothing would change comes back
/// as it was, the times of `managedFields` included.
pub(crate) fn apply(
    live: Option<&Value>,
    applied: &Value,
    writer: Writer<'_>,
    force: bool,
    schema: &MergeSchema,
) -> Result<Value, ApiError> {
    let kind = |object: &Value| {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        (text("apiVersion"), text("kind"))
    };
    let (version, given) = kind(applied);
    let wanted = live.map_or_else(|| given.clone(), |live| kind(live).1);
    if version != writer.api_version || given != wanted {
        let slash = if version.contains('/') { "" } else { "/" };
        return Err(ApiError::bad_request(format!(
            "invalid object type: {slash}{version}, Kind={given}"
        )));
    }
    if managed::of(applied).is_some_and(|list| !list.is_null()) {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    let wrong = check::check(&schema.types, schema.root, applied);
    if !wrong.is_empty() {
        return Err(ApiError::new(
            500,
            "",
            format!(
                "failed to create typed patch object ({}): {}",
                named(applied),
                check::message(&wrong)
            ),
        ));
    }
    let Some(mut record) = read(live.and_then(managed::of), schema) else {
        return Err(ApiError::new(500, "", "failed to decode managed fields"));
    };
    let before = live.map_or_else(|| empty(applied, schema), |live| bare(live, schema));
    if record.is_empty() && live.is_some() {
        let first = Writer {
            manager: BEFORE_FIRST_APPLY,
            ..writer
        };
        let nothing = empty(&before, schema);
        update(&nothing, &before, &mut record, first, schema);
        managed::cap(&mut record);
    }
    let change = |force| merge(&before, applied, record.clone(), writer, force, schema);
    let (object, mut record) = match change(force) {
        Ok(done) => done,
        Err(conflicts) => {
            let left = last_applied::without_allowed(conflicts, live, writer, schema);
            if !left.is_empty() {
                return Err(left.into_error());
            }
            change(true).map_err(Conflicts::into_error)?
        }
    };
    let manager = writer.manager(Operation::Apply);
    if object.is_some()
        && let Some(entry) = record.get_mut(&manager)
    {
        entry.time = Some(writer.time.to_owned());
    }
    let mut object = object.unwrap_or(before);
    schema.complete(&mut object);
    last_applied::refresh(&mut object, applied, writer);
    managed::store(&mut object, &record);
    keep_times(live, &mut object);
    Ok(object)
}

/// Takes out of `applied` what a write of its `subresource` (empty for the object itself) does not change,
/// and so does not own: `status` of an object whose status is a subresource, and there the spec and, of
/// custom resources, metadata.
pub(crate) fn confine(applied: &mut Value, subresource: &str, has_status: bool, custom: bool) {
    let Some(object) = applied.as_object_mut() else {
        return;
    };
    match subresource {
        "" if has_status => {
            object.remove("status");
        }
        "status" => {
            object.remove("spec");
            if let (true, Some(metadata)) = (
                custom,
                object.get_mut("metadata").and_then(Value::as_object_mut),
            ) {
                let kept = [
                    "name",
                    "namespace",
                    "uid",
                    "resourceVersion",
                    "managedFields",
                ];
                metadata.retain(|field, _| kept.contains(&field.as_str()));
            }
        }
        _ => {}
    }
}

/// Any other write: `managedFields` of `new` (replacing whatever it came with) after it has changed `old`.
/// An explicitly empty list in `new` resets them.
///
/// A server does this before it does anything of its own to the object: what admission and the kind's own
/// rules add later (a pod's service account, a first status) is nobody's.
pub(crate) fn track(
    old: Option<&Value>,
    new: &mut Value,
    writer: Writer<'_>,
    schema: &MergeSchema,
) {
    let given = managed::of(new).cloned();
    let live = || read(old.and_then(managed::of), schema).unwrap_or_default();
    let mut record = if !writer.subresource.is_empty() {
        live()
    } else if given.as_ref().is_some_and(managed::is_reset) {
        Managed::new()
    } else {
        match read(given.as_ref(), schema) {
            Some(given) if !given.is_empty() => given,
            _ => live(),
        }
    };
    managed::remove(new);
    if record.is_empty() && old.is_some() {
        return;
    }
    let after = bare(new, schema);
    let before = old.map_or_else(|| empty(&after, schema), |old| bare(old, schema));
    update(&before, &after, &mut record, writer, schema);
    managed::cap(&mut record);
    managed::store(new, &record);
    keep_times(old, new);
}

/// The record of managers, in terms of the present schema.
fn read(list: Option<&Value>, schema: &MergeSchema) -> Option<Managed> {
    let mut record = managed::decode(list)?;
    for entry in record.values_mut() {
        entry.fields.settle(&schema.types, schema.root);
    }
    Some(record)
}

/// What there is before an object is created.
fn empty(object: &Value, schema: &MergeSchema) -> Value {
    let mut empty = json!({"apiVersion": object["apiVersion"], "kind": object["kind"]});
    schema.complete(&mut empty);
    empty
}

/// An object without its `managedFields`, as a server holds it.
fn bare(object: &Value, schema: &MergeSchema) -> Value {
    let mut bare = object.clone();
    managed::remove(&mut bare);
    schema.complete(&mut bare);
    bare
}

/// `namespace/name; version, Kind=kind`.
fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let slash = if version.contains('/') { "" } else { "/" };
    format!(
        "{}/{}; {slash}{version}, Kind={}",
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]),
        text(&object["kind"]),
    )
}

/// Gives the fields that a write changed to its manager, and takes them from the others.
fn update(
    before: &Value,
    after: &Value,
    record: &mut Managed,
    writer: Writer<'_>,
    schema: &MergeSchema,
) {
    let changed = compare(&schema.types, schema.root, before, after);
    let written = changed.modified.union(&changed.added);
    for entry in record.values_mut() {
        entry.fields = entry
            .fields
            .difference(&written)
            .difference(&changed.removed);
    }
    record.retain(|_, entry| !entry.fields.is_empty());
    let own = written.difference(&unowned());
    if own.is_empty() {
        return;
    }
    let entry = record
        .entry(writer.manager(Operation::Update))
        .or_insert_with(|| Entry {
            fields: Set::default(),
            api_version: writer.api_version.to_owned(),
            time: None,
        });
    entry.fields.add(&own);
    entry.time = Some(writer.time.to_owned());
}

/// The object (`None` where it is as before) and its managers after an apply.
fn merge(
    before: &Value,
    applied: &Value,
    mut record: Managed,
    writer: Writer<'_>,
    force: bool,
    schema: &MergeSchema,
) -> Result<(Option<Value>, Managed), Conflicts> {
    let (types, root) = (&schema.types, schema.root);
    let manager = writer.manager(Operation::Apply);
    let merged = typed::merge(types, root, before, applied);
    let entry = Entry {
        fields: typed::fields(types, root, applied),
        api_version: writer.api_version.to_owned(),
        time: None,
    };
    let last = record.insert(manager.clone(), entry);
    if let (Some(last), Some(entry)) = (&last, record.get_mut(&manager)) {
        entry.time.clone_from(&last.time);
    }
    let after = match &last {
        Some(last) => prune(merged, &last.fields, &record, schema),
        None => merged,
    };
    let changed = compare(types, root, before, &after);
    let written = changed.modified.union(&changed.added);
    let others = || record.iter().filter(|(other, _)| **other != manager);
    let conflicts: Vec<(Manager, Set)> = others()
        .map(|(other, entry)| (other.clone(), entry.fields.intersection(&written)))
        .filter(|(_, fields)| !fields.is_empty())
        .collect();
    if !force && !conflicts.is_empty() {
        return Err(Conflicts::new(&conflicts, &record));
    }
    for (other, entry) in &mut record {
        if *other != manager {
            entry.fields = entry
                .fields
                .difference(&written)
                .difference(&changed.removed);
        }
    }
    if let Some(entry) = record.get_mut(&manager) {
        entry.fields = entry.fields.difference(&unowned());
    }
    record.retain(|_, entry| !entry.fields.is_empty());
    Ok(((after != *before).then_some(after), record))
}

/// Takes away what the applier owned, owns no more, and nobody else owns.
fn prune(merged: Value, last: &Set, record: &Managed, schema: &MergeSchema) -> Value {
    if last.is_empty() {
        return merged;
    }
    let (types, root) = (&schema.types, schema.root);
    let named = |set: &Set| set.with_named(types, Some(root));
    let fields = |value: &Value| named(&typed::fields(types, root, value));
    let without =
        |gone: &Set| typed::without(types, root, &merged, gone).unwrap_or_else(|| json!({}));
    let all = fields(&merged);
    // What anybody owns comes back, with all that is around it.
    let mut owned = Set::default();
    for entry in record.values() {
        owned.add(&entry.fields);
    }
    let kept = fields(&without(&named(last)));
    let pruned = without(&all.difference(&kept.union(&named(&owned))));
    // So does what the applier never owned: only what it owned may go.
    without(&all.difference(&fields(&pruned)).intersection(&named(last)))
}

/// Leaves the times of `managedFields` as they were where nothing else has changed, so that a write
/// which changes nothing is none.
fn keep_times(old: Option<&Value>, new: &mut Value) {
    let timeless = |object: &Value| {
        let mut object = object.clone();
        let list = object["metadata"]
            .get_mut("managedFields")
            .and_then(Value::as_array_mut);
        for entry in list.into_iter().flatten() {
            entry["time"] = Value::Null;
        }
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        object
    };
    if let Some(old) = old
        && let Some(list) = managed::of(old)
        && managed::of(new).is_some_and(|now| now != list)
        && timeless(old) == timeless(new)
    {
        new["metadata"]["managedFields"] = list.clone();
    }
}

#[cfg(test)]
mod tests;
