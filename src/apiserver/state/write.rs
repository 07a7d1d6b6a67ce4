//! Creation.

use std::sync::Arc;

use serde_json::{Value, json};

use super::object::{key, metadata, text};
use super::{
    Answer, Context, Halt, Reply, Served, State, body, convert, crd, kinds, metadata as meta, rules,
};
use crate::apiserver::patch::{self, MergeSchema, Writer};
use crate::apiserver::request::{PatchKind, Request, Verb};
use crate::apiserver::schema::Definition;
use crate::apiserver::{ApiError, Cause};

impl State {
    pub(super) fn create(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
    ) -> Result<Answer, Halt> {
        self.create_object(served, request, context, request.body.clone(), false)
    }

    /// Creates `object`, whose `managedFields` are `applied` already or yet to be kept.
    pub(super) fn create_object(
        &mut self,
        served: &Arc<Served>,
        request: &Request,
        context: Context<'_>,
        mut object: Value,
        applied: bool,
    ) -> Result<Answer, Halt> {
        let now = context.time();
        let namespace = request.target.namespace.as_deref();
        self.check_type(served, &mut object)?;
        meta::ensure_namespace(&mut object, namespace)?;
        if !applied && !matches!(text(&object, "resourceVersion"), "" | "0") {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(ApiError::new(500, "", why).into());
        }
        metadata(&mut object).remove("resourceVersion");
        let uid = self.dice.uid();
        meta::initialise(&mut object, &uid, &now, || self.dice.suffix());
        let name = text(&object, "name").to_owned();
        let mut warnings = self.decode(served, request, &mut object)?;
        warnings.extend(meta::deduplicate_owners(&mut object));
        // Nodes tell their status when they register.
        if served.traits.status
            && served.storage.as_ref() != "nodes"
            && let Some(object) = object.as_object_mut()
        {
            object.remove("status");
        }
        if !applied {
            let api_version = served.api_version();
            let writer = writer(request, "", &api_version, &now);
            patch::track(None, &mut object, writer, served.merge());
        }
        self.admit(served, namespace, &name)?;

        if served.traits.generation {
            metadata(&mut object).insert("generation".to_owned(), 1.into());
        }
        meta::tidy(&mut object);
        kinds::create(&served.storage, &mut object, &now);
        self.admit_pod(served, &mut object, &name)?;

        let mut causes = rules::validate(served, &object);
        causes.extend(kinds::validate(&served.storage, &object, None));
        if let Some(custom) = &served.custom {
            causes.extend(custom.schema.validate(&object, None));
        }
        self.refuse(served, &name, &causes)?;

        let key = key(namespace, &name);
        if let Some(there) = self.storage_of(served).get(&key) {
            let mut error =
                ApiError::already_exists(&served.info.group, &served.info.plural, &name);
            if there.deleting {
                error.message = format!("object is being deleted: {}", error.message);
            }
            if !text(&object, "generateName").is_empty() {
                error
                    .message
                    .push_str(", the server was not able to generate a unique name for the object");
                error.retry_after = Some(1);
            }
            return Err(error.into());
        }
        if crd::is_definition(served) {
            crd::check(&mut object, &now)?;
        }
        let stored = convert::to_stored(served, object, context.conversions)?;
        if request.options.is_dry_run() {
            return Ok(dry(served, 201, stored, warnings));
        }
        let stored = self.allot(&served.storage, stored)?;
        let entry = self.put_shaped(&served.storage, key, stored, served.shape());
        if crd::is_definition(served) {
            self.define(&entry, &now);
        }
        Ok(Answer {
            reply: Reply::Object {
                code: 201,
                entry,
                served: Arc::clone(served),
            },
            warnings,
        })
    }

    /// What decoding does: unknown fields go (or are refused), defaults come. Gives warnings.
    pub(super) fn decode(
        &self,
        served: &Served,
        request: &Request,
        object: &mut Value,
    ) -> Result<Vec<String>, ApiError> {
        let mut problems = request.duplicates.clone();
        let mut unknown = Vec::new();
        if let Some(custom) = &served.custom {
            // The metadata of custom resources is Go's own type, too.
            let mut wrapped = json!({ "metadata": object["metadata"].take() });
            let metadata = MergeSchema::builtin("", "ConfigMap");
            let decoded = metadata.decode(&mut wrapped);
            object["metadata"] = wrapped["metadata"].take();
            unknown.extend(decoded.map_err(|why| undecodable(served, request, object, &why))?);
            unknown.extend(custom.schema.prune(object));
            custom.schema.default(object);
        } else {
            let decoded = served.merge().decode(object);
            unknown.extend(decoded.map_err(|why| undecodable(served, request, object, &why))?);
            body::null_texts(object);
            patch::drop_nulls(object);
            kinds::default(&served.storage, object);
            if crd::is_definition(served) {
                Definition::set_defaults(object);
            }
            served.merge().complete(object);
        }
        problems.extend(unknown.into_iter().map(|path| format!("unknown field {path:?}")));
        match request.options.field_validation.as_str() {
            _ if problems.is_empty() => Ok(Vec::new()),
            "Ignore" => Ok(Vec::new()),
            "Strict" => {
                let why = format!("strict decoding error: {}", problems.join(", "));
                Err(undecodable(served, request, object, &why))
            }
            _ => Ok(problems),
        }
    }

    /// Refuses what is invalid.
    pub(super) fn refuse(
        &self,
        served: &Served,
        name: &str,
        causes: &[Cause],
    ) -> Result<(), ApiError> {
        if causes.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(
            &served.info.group,
            &served.info.kind,
            name,
            causes,
        ))
    }
}

/// Refuses an object that can't be decoded: what was sent, or what a patch has made.
pub(super) fn undecodable(served: &Served, request: &Request, object: &Value, why: &str) -> ApiError {
    let patched = matches!(request.verb, Verb::Patch(kind) if kind != PatchKind::Apply);
    if patched && served.custom.is_none() {
        let cause = Cause::invalid("patch", &Value::from(object.to_string()), why);
        let mut error = ApiError::invalid("", "", "", &[cause]);
        if let Some(details) = error.details.as_object_mut() {
            details.retain(|field, _| field == "causes");
        }
        return error;
    }
    ApiError::bad_request(format!(
        "{kind} in version {:?} cannot be handled as a {kind}: {why}",
        served.info.version,
        kind = served.info.kind
    ))
}

/// Who writes.
pub(super) fn writer<'a>(
    request: &'a Request,
    subresource: &'a str,
    api_version: &'a str,
    time: &'a str,
) -> Writer<'a> {
    Writer {
        manager: request.manager(),
        subresource,
        api_version,
        time,
    }
}

/// The answer to a dry run: the object as it would be.
pub(super) fn dry(served: &Served, code: u16, mut object: Value, warnings: Vec<String>) -> Answer {
    if served.form == super::Form::Events {
        super::events::to_events_group(&mut object);
    }
    served.name_type(&mut object);
    Answer {
        reply: Reply::Value {
            code,
            value: object,
        },
        warnings,
    }
}
