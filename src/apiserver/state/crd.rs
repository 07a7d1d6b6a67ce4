//! CustomResourceDefinitions at work: what they define is served at once, and goes with them.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::object::texts;
use super::{Context, Entry, Form, Served, State, served::Custom};
use crate::apiserver::ApiError;
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

impl State {
    /// Compiles a definition before it is stored, and completes its status.
    pub(super) fn check_definition(
        &self,
        object: &mut Value,
        now: &str,
    ) -> Result<Vec<String>, ApiError> {
        Definition::compile(object, now)?;
        Ok(Vec::new())
    }

    /// Serves what a stored definition defines, or no longer.
    pub(super) fn define(&mut self, entry: &Entry, now: &str) {
        let mut object = entry.value();
        object["apiVersion"] = "apiextensions.k8s.io/v1".into();
        object["kind"] = "CustomResourceDefinition".into();
        let gone = self.storages[DEFINITIONS].get(&entry.key).is_none();
        if gone {
            self.undefine(&object);
            return;
        }
        // It was compiled before it was stored; a write of its status does not change that.
        let Ok(definition) = Definition::compile(&mut object, now) else {
            return;
        };
        let spec = &object["spec"];
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
            let custom = Custom {
                schema: version.schema,
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

    /// Marks a definition that is to be deleted, before the ordinary deletion.
    pub(super) fn mark_definition(object: &mut Value, now: &str) {
        let mut finalizers = texts(object, "finalizers");
        if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
            finalizers.push(CLEANUP.to_owned());
        }
        object["metadata"]["finalizers"] = json!(finalizers);
        set_condition(
            object,
            now,
            "True",
            "InstanceDeletionPending",
            "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        );
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

fn set_condition(object: &mut Value, now: &str, status: &str, reason: &str, message: &str) {
    let condition = json!({
        "type": "Terminating",
        "status": status,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    });
    let mut conditions = object["status"]["conditions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    conditions.retain(|condition| condition["type"] != "Terminating");
    conditions.push(condition);
    object["status"]["conditions"] = conditions.into();
}
