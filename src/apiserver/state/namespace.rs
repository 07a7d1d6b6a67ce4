//! The life of namespaces: nothing is created where there is none, or where one is going.

use std::sync::Arc;

use serde_json::json;

use super::{Context, Entry, Served, State, gc};
use crate::apiserver::ApiError;

/// Namespaces that can't be deleted.
pub(super) const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

impl State {
    /// Whether an object may be created in `namespace`.
    pub(super) fn admit(
        &self,
        served: &Served,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<(), ApiError> {
        let Some(namespace) = namespace else {
            return Ok(());
        };
        let namespaces = self.storages.get("namespaces").expect("it is built in");
        let Some(entry) = namespaces.get(namespace) else {
            return Err(ApiError::not_found("", "namespaces", namespace));
        };
        if !entry.deleting {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut error = served.forbidden(name, &why);
        error.details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        Err(error)
    }

    /// One step in the deletion of a namespace: its content, then itself. Gives whether anything was
    /// done.
    pub(super) fn empty_namespace(
        &mut self,
        entry: &Arc<Entry>,
        context: Context<'_>,
        budget: usize,
    ) -> usize {
        let name = entry.names().1.to_owned();
        let content: Vec<gc::Place> = self
            .storages
            .values()
            .flat_map(|storage| {
                storage
                    .objects(Some(&name))
                    .map(|entry| (Arc::clone(&storage.name), Arc::clone(&entry.key)))
            })
            .collect();
        if content.is_empty() {
            let mut namespace = entry.value();
            namespace["spec"]["finalizers"] = json!([]);
            let served = Arc::clone(self.find("", "v1", "namespaces").expect("it is built in"));
            self.settle(&served, entry, namespace, None);
            return 1;
        }
        let mut done = 0;
        for (storage, key) in content {
            if done == budget {
                break;
            }
            done += usize::from(self.delete_in_background(&storage, &key, context));
        }
        done
    }
}
