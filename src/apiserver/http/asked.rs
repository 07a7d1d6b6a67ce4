//! A request for a resource, top to bottom: who, what, faults, the deed, faults again, the answer.

use std::sync::Arc;

use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Method, Response};
use hyper::body::Incoming;
use serde_json::Value;

use super::accept::{Media, Shape, takes_gzip};
use super::answer::{self, Gzip};
use super::stream::{self, Sickness};
use super::suffer::{self, Blow};
use super::{Body, Control, body, damage, never, page, pods, query};
use crate::apiserver::audit::AuditEvent;
use crate::apiserver::auth::Caller;
use crate::apiserver::faults::{Fault, Subject};
use crate::apiserver::request::{PatchKind, Request, Target, Verb};
use crate::apiserver::state::{Answer, Reply, Watch, method_not_allowed};
use crate::apiserver::table::IncludeObject;
use crate::apiserver::{ApiError, ApiServer};

/// A request for a resource.
pub(super) struct Asked {
    caller: String,
    request: Request,
    media: Media,
    /// As faults and the audit name it.
    resource: String,
    faults: Vec<Fault>,
}

impl Asked {
    pub(super) fn new(
        server: &ApiServer,
        caller: &Caller,
        parts: &Parts,
        mut target: Target,
        watched: bool,
    ) -> Result<Self, ApiError> {
        let (mut options, watch) = query::options(parts.uri.query().unwrap_or_default())?;
        let reaches_pod = pods::reaches_pod(&target);
        let named = target.name.is_some();
        let verb = match parts.method {
            Method::GET if watched || watch && !named => Verb::Watch,
            Method::GET if named => Verb::Get,
            Method::GET => Verb::List,
            Method::HEAD if reaches_pod => Verb::Get,
            Method::POST if !named || target.subresource.is_some() => Verb::Create,
            Method::PUT if named => Verb::Update,
            Method::PATCH if named && reaches_pod => Verb::Patch(PatchKind::Merge),
            Method::PATCH if named => {
                let custom = server
                    .state()
                    .find(&target.group, &target.version, &target.resource)
                    .is_some_and(|served| served.custom.is_some());
                Verb::Patch(body::patch_kind(&parts.headers, custom)?)
            }
            Method::DELETE if named => Verb::Delete,
            Method::DELETE => Verb::DeleteCollection,
            _ => return Err(method_not_allowed()),
        };
        if verb == Verb::Watch
            && let Some(name) = target.name.take()
        {
            options.field_selector = format!("metadata.name={name}");
        }
        caller.may(verb, &target)?;
        query::check(verb, &options)?;
        let resource = target.qualified();
        let faults = server.faults().decide(Subject {
            client: &caller.name,
            verb: verb.name(),
            resource: &resource,
            namespace: target.namespace.as_deref().unwrap_or_default(),
            name: target.name.as_deref().unwrap_or_default(),
        });
        let mut media = if reaches_pod {
            Media::JSON
        } else if verb == Verb::Watch {
            Media::of_watch(&parts.headers)?
        } else {
            Media::negotiate(&parts.headers)?
        };
        let asked = parts.uri.query().unwrap_or_default();
        let include = query::pairs(asked).find(|(key, _)| key == "includeObject");
        if let Some((_, include)) = include.filter(|_| media.shape == Shape::Table) {
            media.include = IncludeObject::parse(&include)?;
        }
        Ok(Self {
            caller: caller.name.clone(),
            media,
            request: Request {
                verb,
                target,
                options,
                body: Value::Null,
                duplicates: Vec::new(),
                agent: caller.agent.clone(),
            },
            resource,
            faults,
        })
    }

    pub(super) async fn answer(
        mut self,
        server: &ApiServer,
        control: &Arc<Control>,
        parts: &Parts,
        incoming: Incoming,
    ) -> Result<Response<Body>, ApiError> {
        let verb = self.request.verb;
        match suffer::before(&self.faults, verb, control).await {
            Some(Blow::Dropped) => {
                self.record(server, 0, false);
                return never().await;
            }
            Some(Blow::Refused(error)) => {
                self.record(server, error.code, false);
                return Err(error);
            }
            None => {}
        }
        if pods::reaches_pod(&self.request.target) {
            let target = &self.request.target;
            let response = pods::reach(server, target, parts, incoming).await;
            let code = response
                .as_ref()
                .map_or_else(|error| error.code, |response| response.status().as_u16());
            self.record(server, code, false);
            return response.map(|response| self.damage(response));
        }
        if self.request.verb.writes() {
            if !matches!(self.request.verb, Verb::Patch(_)) {
                body::check_language(&parts.headers)?;
            }
            let bytes = body::read(incoming).await?;
            (self.request.body, self.request.duplicates) =
                body::understand(server, &self.request, &parts.headers, &bytes)?;
        }
        let outcome = self.carry_out(server).await;
        let (code, wrote) = match &outcome {
            Ok((answer, wrote)) => (code(answer), *wrote),
            Err(error) => (error.code, false),
        };
        self.record(server, code, wrote);
        suffer::after(server, &self.faults, control).await;
        let response = match outcome {
            Ok((Done::Answer(answer), _)) => self.render(server, parts, answer).await?,
            Ok((Done::Watch(watch), _)) => {
                let warning = watch.served.deprecation();
                let mut response = self.stream(server, *watch);
                answer::warn(&mut response, warning.as_slice());
                response
            }
            Ok((Done::Failed(error), _)) => streamed(stream::failed(&error)),
            Err(error) => return Err(error),
        };
        Ok(self.damage(response))
    }

    async fn carry_out(&self, server: &ApiServer) -> Result<(Done, bool), ApiError> {
        let request = &self.request;
        let stale = self.faults.iter().find_map(|fault| match fault {
            Fault::Stale { versions } => Some(*versions),
            _ => None,
        });
        let answer = match request.verb {
            Verb::Get => {
                let state = server.state();
                match stale {
                    Some(back) => state.stale_get(request, back)?,
                    None => state.get(request)?,
                }
            }
            Verb::List => {
                let state = server.state();
                let (page, served) = match stale {
                    Some(back) => state.stale_list(request, back)?,
                    None => state.list(request)?,
                };
                let warnings = served.deprecation().into_iter().collect();
                Answer {
                    reply: Reply::Page { page, served },
                    warnings,
                }
            }
            Verb::Watch => {
                // The request is judged before anything is said; what is too old is said in the stream.
                return match server.state().watch(request) {
                    Ok(_) if self.faults.contains(&Fault::Gone) => {
                        Ok((Done::Failed(suffer::gone()), false))
                    }
                    Ok(watch) => Ok((Done::Watch(Box::new(watch)), false)),
                    Err(error) if error.code == 410 => Ok((Done::Failed(error), false)),
                    Err(error) => Err(error),
                };
            }
            _ => {
                let (answer, wrote) = server.write(request).await?;
                return Ok((Done::Answer(answer), wrote));
            }
        };
        Ok((Done::Answer(answer), false))
    }

    async fn render(
        &self,
        server: &ApiServer,
        parts: &Parts,
        answer: Answer,
    ) -> Result<Response<Body>, ApiError> {
        let gzip = if self.faults.contains(&Fault::Gzip) {
            Gzip::Always
        } else if takes_gzip(&parts.headers) {
            Gzip::Large
        } else {
            Gzip::No
        };
        let (code, json) = match answer.reply {
            Reply::Object {
                code,
                entry,
                served,
            } => (
                code,
                page::single(server, &served, &entry, self.media, true).await?,
            ),
            Reply::Page { page, served } => {
                (200, page::list(server, &served, &page, self.media).await?)
            }
            Reply::Value { code, value } => (code, value.to_string().into_bytes()),
        };
        let mut response = answer::document(code, json, self.media, gzip);
        answer::warn(&mut response, &answer.warnings);
        Ok(response)
    }

    fn stream(&self, server: &ApiServer, watch: Watch) -> Response<Body> {
        let mut sickness = Sickness::default();
        for fault in &self.faults {
            match fault {
                Fault::Silent => sickness.silent = true,
                Fault::NoBookmark => sickness.unmarked = true,
                Fault::BookmarkStorm { count } => sickness.storm = Some(*count),
                Fault::HalfFrame => sickness.half = true,
                Fault::Reset { after_bytes } => sickness.reset = Some(*after_bytes),
                _ => {}
            }
        }
        let timeout = self.request.options.timeout_seconds;
        streamed(stream::body(
            server.clone(),
            watch,
            self.media,
            timeout,
            sickness,
        ))
    }

    /// Cuts an answer short, or spoils it.
    fn damage(&self, response: Response<Body>) -> Response<Body> {
        let response = response.map(|body| damage::of_bytes(body, &self.faults));
        if self.request.verb == Verb::Watch {
            return response;
        }
        damage::shorten(response, &self.faults)
    }

    fn record(&self, server: &ApiServer, code: u16, wrote: bool) {
        let target = &self.request.target;
        let name = target.name.clone().or_else(|| {
            self.request.body["metadata"]["name"]
                .as_str()
                .map(str::to_owned)
        });
        server.record(AuditEvent {
            sequence: 0,
            at: server.now(),
            client: self.caller.clone(),
            verb: self.request.verb.name(),
            resource: self.resource.clone(),
            namespace: target.namespace.clone().unwrap_or_default(),
            name: name.unwrap_or_default(),
            code,
            version: server.resource_version(),
            wrote,
            faults: self.faults.iter().map(Fault::name).collect(),
        });
    }
}

/// A request that was carried out.
enum Done {
    Answer(Answer),
    Watch(Box<Watch>),
    /// A watch that has only an error to tell.
    Failed(ApiError),
}

fn code(done: &Done) -> u16 {
    match done {
        Done::Answer(answer) => match &answer.reply {
            Reply::Object { code, .. } | Reply::Value { code, .. } => *code,
            Reply::Page { .. } => 200,
        },
        Done::Watch(_) => 200,
        Done::Failed(error) => error.code,
    }
}

/// The answer to a watch.
pub(super) fn streamed(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}
