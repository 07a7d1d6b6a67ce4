//! Subresources: status, scale, binding, eviction and the like. (`log` and `proxy` reach pods, and
//! are no matter of the state.)

use std::sync::Arc;

use serde_json::{Value, json};

use super::delete::{Deleted, Deletion};
use super::object::{key, metadata, text};
use super::selector::Labels;
use super::update::named;
use super::{Answer, Context, Entry, Halt, Reply, Served, State, convert, method_not_allowed};
use crate::apiserver::ApiError;
use crate::apiserver::request::{PatchKind, Request, Verb};

impl State {
    pub(super) fn write_subresource(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let subresource = request.target.subresource.as_deref().unwrap_or_default();
        let updates = matches!(request.verb, Verb::Update | Verb::Patch(_));
        match subresource {
            "scale" if updates => self.rescale(served, request, context),
            "binding" if request.verb == Verb::Create => self.bind(served, request, context),
            "eviction" if request.verb == Verb::Create => self.evict(served, request, context),
            "finalize" if request.verb == Verb::Update => self.finalize(served, request),
            "token" if request.verb == Verb::Create => self.token(served, request, context),
            "status" | "ephemeralcontainers" | "resize" if updates => {
                self.update(served, request, context)
            }
            _ => Err(method_not_allowed().into()),
        }
    }

    fn existing(&self, served: &Served, request: &Request) -> Result<Arc<Entry>, ApiError> {
        let (namespace, name) = named(request)?;
        self.storage_of(served)
            .get(&key(namespace, name))
            .cloned()
            .ok_or_else(|| served.not_found(name))
    }

    /// A write of `scale` is a write of `spec.replicas`.
    fn rescale(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let existing = self.existing(served, request)?;
        let old = convert::to_served(served, &existing, context.conversions)?;
        let current = scale(served, &old)?;
        let mut wanted = match request.verb {
            Verb::Patch(PatchKind::Json) => {
                let mut scale = current.clone();
                crate::apiserver::patch::json(&mut scale, &request.body)?;
                scale
            }
            Verb::Patch(_) => {
                let mut scale = current.clone();
                crate::apiserver::patch::merge(&mut scale, &request.body);
                scale
            }
            _ => request.body.clone(),
        };
        let version = text(&wanted, "resourceVersion");
        if !matches!(version, "" | "0") && version != text(&current, "resourceVersion") {
            return Err(served.modified(existing.names().1).into());
        }
        let replicas = wanted["spec"]["replicas"].take();
        let replicas = if replicas.is_null() {
            json!(0)
        } else {
            replicas
        };
        if replicas.as_i64().is_none_or(|replicas| replicas < 0) {
            let cause = crate::apiserver::Cause::invalid(
                "spec.replicas",
                &replicas,
                "must be greater than or equal to 0",
            );
            return Err(
                ApiError::invalid("autoscaling", "Scale", existing.names().1, &[cause]).into(),
            );
        }
        let mut new = old.clone();
        let path = &served
            .info
            .scale
            .as_ref()
            .ok_or_else(method_not_allowed)?
            .spec_replicas;
        *at(&mut new, path) = replicas;
        let mut main = request.clone();
        main.verb = Verb::Update;
        main.body = Value::Null;
        main.target.subresource = None;
        let answer = self.replace(served, &main, context, &existing, &old, new, false)?;
        let value = match &answer.reply {
            Reply::Object { entry, .. } => convert::to_served(served, entry, context.conversions)?,
            Reply::Value { value, .. } => value.clone(),
            Reply::Page { .. } => return Err(method_not_allowed().into()),
        };
        let value = scale(served, &value)?;
        Ok(Answer {
            reply: Reply::Value { code: 200, value },
            warnings: answer.warnings,
        })
    }

    /// Puts a pod on a node, as a scheduler does.
    fn bind(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let existing = self.existing(served, request)?;
        let name = existing.names().1;
        let node = request.body["target"]["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            let cause = crate::apiserver::Cause::required("target.name", "");
            return Err(ApiError::invalid("", "Binding", name, &[cause]).into());
        }
        let mut pod = existing.value();
        if existing.deleting {
            return Err(served
                .conflict(
                    name,
                    &format!("pod {name} is being deleted, cannot be assigned to a host"),
                )
                .into());
        }
        let present = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        if !present.is_empty() {
            let why = format!("pod {name} is already assigned to node {present:?}");
            return Err(served.conflict(name, &why).into());
        }
        pod["spec"]["nodeName"] = node.into();
        for (key, value) in request.body["metadata"]["annotations"]
            .as_object()
            .into_iter()
            .flatten()
        {
            pod["metadata"]["annotations"][key] = value.clone();
        }
        let condition = json!({"type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": context.time()});
        let mut conditions = pod["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(condition);
        pod["status"]["conditions"] = conditions.into();
        if !request.options.is_dry_run() {
            self.put(&served.storage, Arc::clone(&existing.key), pod);
        }
        Ok(success(201))
    }

    /// Deletes a pod where its disruption budget allows that.
    fn evict(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let existing = self.existing(served, request)?;
        let (namespace, name) = existing.names();
        let pod = existing.value();
        let disrupts = !existing.deleting
            && !matches!(
                pod["status"]["phase"].as_str(),
                Some("Succeeded" | "Failed" | "Pending")
            );
        let budgets: Vec<Arc<Entry>> = self.storages["poddisruptionbudgets.policy"]
            .objects(Some(namespace))
            .filter(|budget| {
                disrupts && Labels::of(&budget.value()["spec"]["selector"]).matches(&existing)
            })
            .cloned()
            .collect();
        if budgets.len() > 1 {
            let why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            return Err(ApiError::new(500, "InternalError", why).into());
        }
        if let Some(budget) = budgets.first() {
            self.spend(budget, name, &context.time(), request.options.is_dry_run())?;
        }
        let mut request = request.clone();
        request.body = request.body["deleteOptions"].take();
        let deletion = Deletion::of(&request)?;
        match self.delete_entry(served, &existing, &deletion, context)? {
            Deleted::Gone(_) | Deleted::Pending(_) => Ok(success(201)),
        }
    }

    /// Takes one disruption from a budget.
    fn spend(
        &mut self,
        budget: &Arc<Entry>,
        pod: &str,
        now: &str,
        dry: bool,
    ) -> Result<(), ApiError> {
        let mut object = budget.value();
        let name = budget.names().1;
        let number = |field: &str| object["status"][field].as_i64().unwrap_or_default();
        let allowed = number("disruptionsAllowed");
        if allowed <= 0 {
            let message = "Cannot evict pod as it would violate the pod's disruption budget.";
            let mut error = ApiError::new(429, "TooManyRequests", message);
            error.details = json!({"causes": [{"reason": "DisruptionBudget", "message": format!(
                "The disruption budget {name} needs {} healthy pods and has {} currently",
                number("desiredHealthy"), number("currentHealthy")
            )}]});
            return Err(error);
        }
        object["status"]["disruptionsAllowed"] = (allowed - 1).into();
        object["status"]["disruptedPods"][pod] = now.into();
        if !dry {
            self.put(
                &"poddisruptionbudgets.policy".into(),
                Arc::clone(&budget.key),
                object,
            );
        }
        Ok(())
    }

    /// Sets the finalizers of a namespace.
    fn finalize(&mut self, served: &Arc<Served>, request: &Request) -> Result<Answer, Halt> {
        let existing = self.existing(served, request)?;
        let mut object = existing.value();
        object["spec"]["finalizers"] = request.body["spec"]["finalizers"].clone();
        let entry = self.settle(served, &existing, object, None);
        let reply = Reply::Object {
            code: 200,
            entry,
            served: Arc::clone(served),
        };
        Ok(Answer {
            reply,
            warnings: Vec::new(),
        })
    }

    /// A token for a service account. Nobody checks it.
    fn token(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let existing = self.existing(served, request)?;
        let mut value = request.body.clone();
        let seconds = value["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
        let expires = context
            .now
            .saturating_add(jiff::SignedDuration::from_secs(seconds))
            .unwrap_or(context.now);
        value["kind"] = "TokenRequest".into();
        value["apiVersion"] = "authentication.k8s.io/v1".into();
        metadata(&mut value).insert("name".to_owned(), existing.names().1.into());
        metadata(&mut value).insert("namespace".to_owned(), existing.names().0.into());
        value["status"] =
            json!({"token": self.dice.uid(), "expirationTimestamp": format!("{expires:.0}")});
        Ok(Answer {
            reply: Reply::Value { code: 201, value },
            warnings: Vec::new(),
        })
    }
}

fn success(code: u16) -> Answer {
    let value = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": code});
    Answer {
        reply: Reply::Value { code, value },
        warnings: Vec::new(),
    }
}

/// The `Scale` of an object.
pub(super) fn scale(served: &Served, object: &Value) -> Result<Value, ApiError> {
    let paths = served
        .info
        .scale
        .as_ref()
        .ok_or_else(ApiError::no_such_path)?;
    let read = |path: &str| {
        let mut value = object;
        for part in path.split('.').filter(|part| !part.is_empty()) {
            value = &value[part];
        }
        value.clone()
    };
    let number = |path: &str| read(path).as_i64().unwrap_or_default();
    let mut meta = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if !object["metadata"][field].is_null() {
            meta[field] = object["metadata"][field].clone();
        }
    }
    let mut spec = json!({});
    if number(&paths.spec_replicas) != 0 {
        spec["replicas"] = number(&paths.spec_replicas).into();
    }
    let mut status = json!({"replicas": number(&paths.status_replicas)});
    let selector = if served.custom.is_some() {
        paths.label_selector.as_deref().map(read)
    } else {
        selector_text(&object["spec"]["selector"])
    };
    if let Some(selector @ Value::String(_)) = selector {
        status["selector"] = selector;
    }
    Ok(
        json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta, "spec": spec, "status": status}),
    )
}

/// A selector of a spec as text.
fn selector_text(selector: &Value) -> Option<Value> {
    let labels = selector
        .get("matchLabels")
        .unwrap_or(selector)
        .as_object()?;
    let pairs: Vec<String> = labels
        .iter()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    Some(pairs.join(",").into())
}

/// The place of a dotted path, made where there is none.
fn at<'a>(object: &'a mut Value, path: &str) -> &'a mut Value {
    let mut value = object;
    for part in path.split('.').filter(|part| !part.is_empty()) {
        if !value.is_object() {
            *value = json!({});
        }
        value = &mut value[part];
    }
    value
}
