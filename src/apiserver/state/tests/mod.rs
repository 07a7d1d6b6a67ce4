//! The object logic as a whole: requests in, answers and events out.

mod collect;
mod conversion;
mod deletes;
mod lists;
mod watches;
mod writes;

use serde_json::{Value, json};

use super::{Answer, Context, Conversions, Frame, Halt, Reply, State, Watch, WatchEnd};
use crate::apiserver::ApiError;
use crate::apiserver::request::{Options, PatchKind, Request, Target, Verb};

/// A state, with a clock that stands.
pub(super) struct World {
    pub(super) state: State,
    pub(super) known: Conversions,
}

/// The target of a path such as `/api/v1/namespaces/a/pods/b`.
pub(super) fn target(path: &str) -> Target {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (group, rest) = match parts.as_slice() {
        ["api", rest @ ..] => ("", rest),
        ["apis", group, rest @ ..] => (*group, rest),
        _ => panic!("{path}"),
    };
    let (version, rest) = rest.split_first().unwrap();
    let (namespace, rest) = match rest {
        ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
            (Some((*namespace).to_owned()), rest)
        }
        rest => (None, rest),
    };
    let part = |index: usize| rest.get(index).map(|part| (*part).to_owned());
    Target {
        group: group.to_owned(),
        version: (*version).to_owned(),
        resource: part(0).unwrap(),
        namespace,
        name: part(1),
        subresource: part(2),
        rest: None,
    }
}

pub(super) fn request(verb: Verb, path: &str, body: Value) -> Request {
    Request {
        verb,
        target: target(path),
        options: Options::default(),
        body,
        duplicates: Vec::new(),
        agent: "test".to_owned(),
    }
}

impl World {
    /// With the namespace `a`.
    pub(super) fn new() -> Self {
        let mut world = Self {
            state: State::new(1, 100),
            known: Conversions::default(),
        };
        world.create("/api/v1/namespaces", json!({"metadata": {"name": "a"}}));
        world
    }

    pub(super) fn write(&mut self, request: &Request) -> Result<Answer, ApiError> {
        let now = "2026-11-30T10:00:00Z".parse().unwrap();
        let context = Context {
            now,
            conversions: &self.known,
        };
        self.state
            .write(request, context)
            .map_err(|halt| match halt {
                Halt::Refused(error) => error,
                Halt::Convert(need) => panic!("{need:?}"),
            })
    }

    pub(super) fn ask(&mut self, verb: Verb, path: &str, body: Value) -> Result<Value, ApiError> {
        let answer = self.write(&request(verb, path, body))?;
        Ok(object(&answer))
    }

    pub(super) fn create(&mut self, path: &str, body: Value) -> Value {
        self.ask(Verb::Create, path, body).unwrap()
    }

    pub(super) fn merge(&mut self, path: &str, body: Value) -> Value {
        self.ask(Verb::Patch(PatchKind::Merge), path, body).unwrap()
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.state
            .get(&request(Verb::Get, path, Value::Null))
            .map(|answer| object(&answer))
    }

    /// Lets the garbage collector work until it rests.
    pub(super) fn settle(&mut self) {
        let now = "2026-11-30T10:00:01Z".parse().unwrap();
        for _ in 0..100 {
            let context = Context {
                now,
                conversions: &self.known,
            };
            self.state.tidy(context, 3);
            if !self.state.untidy() {
                return;
            }
        }
        panic!("the garbage collector does not come to rest");
    }

    pub(super) fn watch(
        &self,
        path: &str,
        change: impl FnOnce(&mut Options),
    ) -> Result<Watch, ApiError> {
        let mut request = request(Verb::Watch, path, Value::Null);
        change(&mut request.options);
        self.state.watch(&request)
    }

    /// What a watch has to say, as `ADDED a/b`.
    pub(super) fn heard(&self, watch: &mut Watch) -> Result<Vec<String>, WatchEnd> {
        let frames = self.state.advance(watch, 100)?;
        Ok(frames
            .iter()
            .map(|frame| match frame {
                Frame::Object(kind, entry) => format!("{} {}@{}", kind.name(), entry.key, entry.rv),
                Frame::Bookmark { rv, initial } => format!("BOOKMARK {rv} {initial}"),
            })
            .collect())
    }
}

pub(super) fn object(answer: &Answer) -> Value {
    match &answer.reply {
        Reply::Object { entry, .. } => entry.value(),
        Reply::Value { value, .. } => value.clone(),
        Reply::Page { .. } => Value::Null,
    }
}

pub(super) fn config_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"x": "1"}})
}

pub(super) fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

pub(super) const MAPS: &str = "/api/v1/namespaces/a/configmaps";
pub(super) const PODS: &str = "/api/v1/namespaces/a/pods";
