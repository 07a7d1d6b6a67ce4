//! CustomResourceDefinitions at work: what they define is served at once, and goes with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::object::texts;
use super::{Context, Entry, Form, Served, State, served::Custom};
use crate::apiserver::ApiError;
use crate::apiserver::patch::{self, Writer};
use crate::apiserver::registry::{Traits, qualified};
use crate::apiserver::schema::Definition;

/// Storage of definitions.
pub(super) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// Finalizer that deletes the instances first.
pub(super) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Whether objects of `served` are definitions.
pub(super) fn is_definition(served: &Served) -> bool {
    served.storage.as_ref() == DEFINITIONS
}

/// Checks a definition before it is stored, and completes it. What its status says of names comes
/// after that, as if a controller had looked at it.
pub(super) fn check(object: &mut Value, now: &str) -> Result<(), ApiError> {
    let status = object.get("status").cloned();
    Definition::compile(object, now)?;
    let stored = object["status"]["storedVersions"].take();
    object["status"] = match status {
        Some(status) if status.is_object() => status,
        _ => json!({"acceptedNames": {"plural": "", "kind": ""}, "conditions": null}),
    };
    object["status"]["storedVersions"] = stored;
    Ok(())
}

/// Marks a definition that is to be deleted, before the ordinary deletion.
pub(super) fn mark(object: &mut Value, now: &str) {
    let mut finalizers = texts(object, "finalizers");
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    object["metadata"]["finalizers"] = json!(finalizers);
    object["metadata"]["deletionTimestamp"] = now.into();
    let message =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(
        object,
        now,
        "Terminating",
        "True",
        "InstanceDeletionPending",
        message,
    );
}

impl State {
    /// Serves what a stored definition defines, or no longer; completes its status.
    pub(super) fn define(&mut self, entry: &Arc<Entry>, now: &str) {
        let served = Arc::clone(
            self.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
                .expect("it is built in"),
        );
        let mut object = entry.value();
        served.name_type(&mut object);
        if self.storages[DEFINITIONS].get(&entry.key).is_none() {
            self.undefine(&object);
            return;
        }
        let old = object.clone();
        // It was compiled before it was stored.
        let Ok(definition) = Definition::compile(&mut object, now) else {
            return;
        };
        self.judge_names(&mut object, &old, now);
        let established = condition(&object, "Established");
        if !super::compare::same(&object, &entry.value()) {
            let writer = Writer {
                manager: "kube-apiserver",
                subresource: "status",
                api_version: "apiextensions.k8s.io/v1",
                time: now,
            };
            patch::track(Some(&old), &mut object, writer, served.merge());
            self.put(&served.storage, Arc::clone(&entry.key), object.clone());
        }
        if established {
            self.serve(&object["spec"], definition);
        }
    }

    /// Whether the names of a definition are free in its group, as the naming controller judges it.
    fn judge_names(&self, object: &mut Value, old: &Value, now: &str) {
        let name = object["metadata"]["name"].clone();
        let group = &object["spec"]["group"];
        let taken: Vec<Value> = self.storages[DEFINITIONS]
            .objects(None)
            .map(|entry| entry.value())
            .filter(|other| other["metadata"]["name"] != name && other["spec"]["group"] == *group)
            .map(|other| other["status"]["acceptedNames"].clone())
            .collect();
        let texts = |names: &Value| -> Vec<String> {
            let one = ["plural", "singular"].map(|field| names[field].clone());
            let short = names["shortNames"].as_array().cloned().unwrap_or_default();
            one.iter()
                .chain(&short)
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect()
        };
        let names: Vec<String> = taken.iter().flat_map(texts).collect();
        let kinds: Vec<&Value> = taken
            .iter()
            .flat_map(|names| [&names["kind"], &names["listKind"]])
            .collect();
        let wanted = object["spec"]["names"].clone();
        let mut accepted = object["status"]["acceptedNames"].clone();
        let mut conflict = None;
        let is_taken = |name: &Value| {
            name.as_str()
                .is_some_and(|name| names.iter().any(|other| other == name))
        };
        for (field, reason) in [
            ("plural", "PluralConflict"),
            ("singular", "SingularConflict"),
            ("shortNames", "ShortNamesConflict"),
            ("kind", "KindConflict"),
            ("listKind", "ListKindConflict"),
        ] {
            let wanted = &wanted[field];
            let found = match field {
                "shortNames" => wanted
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|name| is_taken(name)),
                "kind" | "listKind" => kinds.contains(&wanted).then_some(wanted),
                _ => is_taken(wanted).then_some(wanted),
            };
            let Some(found) = found else {
                continue;
            };
            conflict = Some((reason, format!("{found} is already in use")));
            // What was accepted before stays so.
            let before = &old["status"]["acceptedNames"][field];
            match (before, field) {
                (Value::Null, "kind") => accepted[field] = "".into(),
                (Value::Null, _) => {
                    if let Some(accepted) = accepted.as_object_mut() {
                        accepted.remove(field);
                    }
                }
                (before, _) => accepted[field] = before.clone(),
            }
        }
        let Some((reason, message)) = conflict else {
            return;
        };
        object["status"]["acceptedNames"] = accepted;
        set_condition(object, now, "NamesAccepted", "False", reason, &message);
        if !condition(old, "Established") {
            set_condition(
                object,
                now,
                "Established",
                "False",
                "NotAccepted",
                "not all names are accepted",
            );
        }
    }

    /// Serves the versions of a definition.
    fn serve(&mut self, spec: &Value, definition: Definition) {
        let group = spec["group"].as_str().unwrap_or_default().to_owned();
        let plural = spec["names"]["plural"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let selectable: BTreeSet<String> = definition
            .versions
            .iter()
            .flat_map(|version| &version.selectable)
            .map(|path| undotted(path))
            .collect();
        let storage = self.storage_for(
            &qualified(&plural, &group),
            selectable.into_iter().collect(),
        );
        self.served
            .retain(|(g, _, p), _| *g != group || *p != plural);
        let stored_version = definition
            .versions
            .iter()
            .find(|version| version.storage)
            .map(|version| format!("{group}/{}", version.info.version))
            .unwrap_or_default();
        for version in definition
            .versions
            .into_iter()
            .filter(|version| version.served)
        {
            let form = match &definition.webhook {
                Some(webhook) => Form::Webhook {
                    storage_api_version: stored_version.clone(),
                    webhook: Arc::new(webhook.clone()),
                },
                None => Form::Same,
            };
            let traits = Traits {
                generation: true,
                status: version.info.status,
                returns_deleted: false,
                ..Traits::default()
            };
            let key = (group.clone(), version.info.version.clone(), plural.clone());
            let shape = self.shape(&version.raw_schema);
            let custom = Custom {
                schema: version.schema,
                shape,
                raw_schema: version.raw_schema,
                selectable: version
                    .selectable
                    .iter()
                    .map(|path| undotted(path))
                    .collect(),
                deprecation: version.deprecation,
            };
            let served = Served::new(
                version.info,
                traits,
                Arc::clone(&storage),
                form,
                Some(custom),
            );
            self.served.insert(key, Arc::new(served));
        }
    }

    /// Number of a schema.
    fn shape(&mut self, schema: &Value) -> u32 {
        let next = u32::try_from(self.shapes.len() + 1).unwrap_or(u32::MAX);
        *self.shapes.entry(schema.to_string()).or_insert(next)
    }

    fn undefine(&mut self, object: &Value) {
        let group = object["spec"]["group"].as_str().unwrap_or_default();
        let plural = object["spec"]["names"]["plural"]
            .as_str()
            .unwrap_or_default();
        self.served.retain(|(g, _, p), _| g != group || p != plural);
        if let Some(storage) = self.storages.remove(qualified(plural, group).as_str()) {
            // Watches end.
            storage.changed().notify_waiters();
        }
    }

    /// One step in the deletion of a definition: its instances, then itself.
    pub(super) fn empty_definition(
        &mut self,
        entry: &Arc<Entry>,
        context: Context<'_>,
        budget: usize,
    ) -> usize {
        let object = entry.value();
        let mut finalizers = texts(&object, "finalizers");
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
            return 0;
        }
        let group = object["spec"]["group"].as_str().unwrap_or_default();
        let plural = object["spec"]["names"]["plural"]
            .as_str()
            .unwrap_or_default();
        let name: Arc<str> = qualified(plural, group).into();
        let instances: Vec<Arc<str>> = self
            .storages
            .get(&name)
            .map(|storage| {
                storage
                    .objects(None)
                    .map(|entry| Arc::clone(&entry.key))
                    .collect()
            })
            .unwrap_or_default();
        if instances.is_empty() {
            let mut object = object;
            finalizers.retain(|finalizer| finalizer != CLEANUP);
            object["metadata"]["finalizers"] = json!(finalizers);
            let now = context.time();
            set_condition(
                &mut object,
                &now,
                "Terminating",
                "False",
                "InstanceDeletionCompleted",
                "removed all instances",
            );
            let served = Arc::clone(
                self.find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
                    .expect("it is built in"),
            );
            let last = self.settle(&served, entry, object, None);
            self.define(&last, &now);
            return 1;
        }
        let mut done = 0;
        for key in instances {
            if done == budget {
                break;
            }
            done += usize::from(self.delete_in_background(&name, &key, context));
        }
        done
    }
}

fn undotted(path: &str) -> String {
    path.trim_start_matches('.').to_owned()
}

/// Whether a condition is true.
fn condition(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn set_condition(
    object: &mut Value,
    now: &str,
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
) {
    let condition = json!({
        "type": kind,
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    });
    let mut conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    match conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind)
    {
        Some(there) => *there = condition,
        None => conditions.push(condition),
    }
    object["status"]["conditions"] = conditions.into();
}
