//! Subresources: status, scale, binding, eviction and the like. (`log` and `proxy` reach pods, and
//! are no matter of the state.)

use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{key, metadata, text};
use super::update::named;
use super::write::writer;
use super::{Answer, Context, Entry, Halt, Reply, Served, State, convert, method_not_allowed};
use crate::apiserver::request::{PatchKind, Request, Verb};
use crate::apiserver::{ApiError, patch};

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
            "finalize" if request.verb == Verb::Update => self.finalize(served, request, context),
            "token" if request.verb == Verb::Create => self.token(served, request, context),
            "status" | "ephemeralcontainers" | "resize" if updates => {
                self.update(served, request, context)
            }
            _ => Err(method_not_allowed().into()),
        }
    }

    pub(super) fn existing(
        &self,
        served: &Served,
        request: &Request,
    ) -> Result<Arc<Entry>, ApiError> {
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
                patch::json(&mut scale, &request.body)?;
                scale
            }
            Verb::Patch(_) => {
                let mut scale = current.clone();
                patch::merge(&mut scale, &request.body);
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
            return Err(ApiError::new(500, "", "target.name: Required value").into());
        }
        let named = text(&request.body, "name");
        if !named.is_empty() && named != name {
            let why = "name in URL does not match name in Binding object";
            return Err(ApiError::bad_request(why).into());
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
            return Err(ApiError::conflict("", "pods/binding", name, &why).into());
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

    /// Sets the finalizers of a namespace.
    fn finalize(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        let existing = self.existing(served, request)?;
        let old = existing.value();
        let mut object = old.clone();
        let finalizers = request.body["spec"]["finalizers"].clone();
        if let Some(spec) = object["spec"].as_object_mut() {
            match finalizers.as_array() {
                Some(list) if !list.is_empty() => spec.insert("finalizers".to_owned(), finalizers),
                _ => spec.remove("finalizers"),
            };
        }
        let (api_version, now) = (served.api_version(), context.time());
        let writer = writer(request, "finalize", &api_version, &now);
        patch::track(Some(&old), &mut object, writer, served.merge());
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

pub(super) fn success(code: u16) -> Answer {
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
