//! Evictions: deletions that a PodDisruptionBudget has to allow.

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::{Deleted, Deletion};
use super::selector::Labels;
use super::subresource::success;
use super::{Answer, Context, Entry, Halt, Served, State};
use crate::apiserver::ApiError;
use crate::apiserver::patch::{self, Writer};
use crate::apiserver::request::Request;

const BUDGETS: &str = "poddisruptionbudgets.policy";
/// When to come back where a budget's status is not yet of its spec.
const RETRY_AFTER: u32 = 10;

impl State {
    /// Deletes a pod where its disruption budget allows that.
    pub(super) fn evict(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let mut existing = self.existing(served, request)?;
        let pod = existing.value();
        let (namespace, name) = existing.names();
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        let disrupts = !existing.deleting && !matches!(phase, "Succeeded" | "Failed" | "Pending");
        let budgets: Vec<Arc<Entry>> = self.storages[BUDGETS]
            .objects(Some(&namespace))
            .filter(|budget| {
                disrupts && Labels::of(&budget.value()["spec"]["selector"]).matches(&existing)
            })
            .cloned()
            .collect();
        if budgets.len() > 1 {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(500, "InternalError", why).into());
        }
        let mut request = request.clone();
        request.body = request.body["deleteOptions"].take();
        let deletion = Deletion::of(&request)?;
        let dry = request.options.is_dry_run();
        if let Some(budget) = budgets.first() {
            self.spend(budget, &name, dry, context)?;
        }
        if disrupts && !dry {
            existing = self.mark_disrupted(served, &existing, pod, context);
        }
        match self.delete_entry(served, &existing, &deletion, context)? {
            Deleted::Gone(_) | Deleted::Pending(_) => Ok(success(201)),
        }
    }

    /// Says in a pod's status why it goes.
    fn mark_disrupted(
        &mut self,
        served: &Arc<Served>,
        existing: &Arc<Entry>,
        mut pod: Value,
        context: Context<'_>,
    ) -> Arc<Entry> {
        let condition = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": null,
            "lastTransitionTime": context.time(),
        });
        let mut conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "DisruptionTarget");
        conditions.push(condition);
        pod["status"]["conditions"] = conditions.into();
        self.put(&served.storage, Arc::clone(&existing.key), pod)
    }

    /// Takes one disruption from a budget.
    fn spend(
        &mut self,
        budget: &Arc<Entry>,
        pod: &str,
        dry: bool,
        context: Context<'_>,
    ) -> Result<(), ApiError> {
        let old = budget.value();
        let name = budget.names().1;
        let number = |field: &str| old["status"][field].as_i64().unwrap_or_default();
        let refuse = |why: String| {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let mut error = ApiError::new(429, "TooManyRequests", message);
            error.details = json!({"causes": [{"reason": "DisruptionBudget", "message": why}]});
            error
        };
        if number("observedGeneration") < old["metadata"]["generation"].as_i64().unwrap_or_default()
        {
            let mut error = refuse(format!(
                "The disruption budget {name} is still being processed by the server."
            ));
            error.retry_after = Some(RETRY_AFTER);
            return Err(error);
        }
        let allowed = number("disruptionsAllowed");
        if allowed <= 0 {
            return Err(refuse(format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number("desiredHealthy"),
                number("currentHealthy")
            )));
        }
        if dry {
            return Ok(());
        }
        let now = context.time();
        let mut object = old.clone();
        object["status"]["disruptionsAllowed"] = (allowed - 1).into();
        object["status"]["disruptedPods"][pod] = now.as_str().into();
        if allowed == 1 {
            object["status"]["conditions"] = json!([{
                "type": "DisruptionAllowed",
                "status": "False",
                "reason": "InsufficientPods",
                "message": "",
                "lastTransitionTime": now,
                "observedGeneration": number("observedGeneration"),
            }]);
        }
        let served = Arc::clone(
            self.find("policy", "v1", "poddisruptionbudgets")
                .expect("it is built in"),
        );
        let mut old = old;
        served.name_type(&mut old);
        served.name_type(&mut object);
        let writer = Writer {
            manager: "kube-apiserver",
            subresource: "status",
            api_version: "policy/v1",
            time: &now,
        };
        patch::track(Some(&old), &mut object, writer, served.merge());
        self.put(&served.storage, Arc::clone(&budget.key), object);
        Ok(())
    }
}
