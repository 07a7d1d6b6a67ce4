//! What admission does to new pods: their service account has to be there, their priority is that of
//! its class.

use serde_json::{Value, json};

use super::object::key;
use super::{Served, State};
use crate::apiserver::ApiError;

/// Classes that every cluster has, with their values.
const BUILT_IN: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

impl State {
    /// Refuses a pod of an account or a class that there is not; sets its priority. The account
    /// `default` is taken to be there.
    pub(super) fn admit_pod(&self, served: &Served, pod: &mut Value, name: &str) -> Result<(), ApiError> {
        if served.storage.as_ref() != "pods" {
            return Ok(());
        }
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or_default();
        let accounts = self.storages.get("serviceaccounts").expect("it is built in");
        if account != "default" && accounts.get(&key(Some(&namespace), account)).is_none() {
            let why = format!(
                "error looking up service account {namespace}/{account}: serviceaccount {account:?} not found"
            );
            return Err(served.forbidden(name, &why));
        }
        let class = pod["spec"]["priorityClassName"].as_str().unwrap_or_default();
        if !class.is_empty() {
            let classes = self.storages.get("priorityclasses.scheduling.k8s.io").expect("it is built in");
            let own = classes.get(class).map(|class| class.value()["value"].as_i64().unwrap_or_default());
            let built_in = BUILT_IN.iter().find(|(name, _)| *name == class).map(|(_, value)| *value);
            let value = own.or(built_in).ok_or_else(|| {
                served.forbidden(name, &format!("no PriorityClass with name {class} was found"))
            })?;
            pod["spec"]["priority"] = json!(value);
        }
        Ok(())
    }
}
