//! Runs a case on one server: step by step, in a namespace of its own.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use http::Response;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use super::http::{Lines, whole};
use super::normal;
use super::script::{Action, Body, Call, Case, Condition, Keep, Step};
use super::target::Target;

/// Headers that are part of an answer's meaning.
const HEADERS: [&str; 5] = [
    "content-type",
    "warning",
    "retry-after",
    "allow",
    "location",
];
/// `UNTIL` asks this often, at this distance.
const ASKS: u32 = 1000;
const PAUSE: Duration = Duration::from_millis(20);

/// Runs a case and gives the answers to its steps, normalised: objects with `step` and `status`,
/// `headers` and `body`, or with `failed` where no answer came.
pub(crate) async fn run(target: &Target, case: &Case) -> Result<Vec<Value>, String> {
    let namespace = target.make_namespace().await?;
    let mut run = Run {
        target,
        namespace: namespace.clone(),
        saved: BTreeMap::new(),
        watches: BTreeMap::new(),
        created: Vec::new(),
    };
    let mut answers = Vec::new();
    for step in &case.steps {
        let answer = match run.step(step).await {
            Ok(answer) => answer,
            Err(what) => json!({"failed": what}),
        };
        if let Some(name) = &step.save {
            let body = answer.get("body").cloned().unwrap_or_default();
            run.saved.insert(name.clone(), body);
        }
        answers.push(finish(step, answer));
    }
    let created = std::mem::take(&mut run.created);
    target.clean(&namespace, created).await;
    Ok(normal::normalise(answers, &namespace))
}

/// The step's name goes in, and what is not compared goes out.
fn finish(step: &Step, mut answer: Value) -> Value {
    if let Some(fields) = answer.as_object_mut() {
        fields.insert("step".to_owned(), step.text.clone().into());
        if !step.body {
            fields.remove("body");
        }
        if let Some(keep) = &step.keep {
            keep_only(fields.get_mut("body"), keep);
        }
    }
    answer
}

struct Run<'a> {
    target: &'a Target,
    namespace: String,
    /// Bodies by the name of their step.
    saved: BTreeMap<String, Value>,
    watches: BTreeMap<String, Lines>,
    /// Paths of what was created.
    created: Vec<String>,
}

impl Run<'_> {
    async fn step(&mut self, step: &Step) -> Result<Value, String> {
        match &step.action {
            Action::Request(call) => self.ask(call).await,
            Action::Until(condition, call) => {
                let mut answer = self.ask(call).await?;
                for _ in 0..ASKS {
                    if holds(condition, &answer) {
                        return Ok(answer);
                    }
                    tokio::time::sleep(PAUSE).await;
                    answer = self.ask(call).await?;
                }
                Err(format!("never came: {condition:?}; last: {answer}"))
            }
            Action::Watch(call) => {
                let response = self.send(call).await?;
                let mut answer = head(&response);
                if response.status().is_success() {
                    let name = step.save.clone().unwrap_or_default();
                    self.watches.insert(name, Lines::new(response.into_body()));
                } else {
                    answer["body"] = parse(&whole(response.into_body()).await?);
                }
                Ok(answer)
            }
            Action::Events { watch, count } => self.events(watch, Some(*count)).await,
            Action::End { watch } => self.events(watch, None).await,
        }
    }

    async fn events(&mut self, watch: &str, count: Option<usize>) -> Result<Value, String> {
        let lines = self.watches.get_mut(watch).ok_or("no such watch")?;
        let mut events = Vec::new();
        while count.is_none_or(|count| events.len() < count) {
            match lines.next().await {
                Ok(Some(line)) => events.push(parse(&line)),
                Ok(None) if count.is_none() => break,
                Ok(None) => {
                    events.push("it ended".into());
                    break;
                }
                Err(what) => {
                    events.push(what.into());
                    break;
                }
            }
        }
        Ok(json!({"body": events}))
    }

    async fn ask(&mut self, call: &Call) -> Result<Value, String> {
        let response = self.send(call).await?;
        let mut answer = head(&response);
        answer["body"] = parse(&whole(response.into_body()).await?);
        if answer["status"] == 201 {
            self.remember(call, &answer);
        }
        Ok(answer)
    }

    async fn send(&self, call: &Call) -> Result<Response<Incoming>, String> {
        let path = self.path(&call.path)?;
        let mut headers: Vec<(String, String)> = Vec::new();
        for (name, value) in &call.headers {
            headers.push((name.clone(), self.fill(value)?));
        }
        let body = match &call.body {
            Body::None => Vec::new(),
            Body::Raw(text) => self.fill(text)?.into_bytes(),
            Body::Yaml(text) => {
                let mut body: Value = serde_yaml::from_str(&self.fill(text)?)
                    .map_err(|error| format!("the step's body: {error}"))?;
                if let Some((path, length)) = &call.fill {
                    set(&mut body, path, "x".repeat(*length).into());
                }
                body.to_string().into_bytes()
            }
        };
        if !body.is_empty() && !headers.iter().any(|(name, _)| name == "content-type") {
            headers.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        let client = call.client.as_deref();
        self.target
            .send(client, &call.method, &path, headers, body)
            .await
    }

    /// The absolute path, variables filled in.
    fn path(&self, path: &str) -> Result<String, String> {
        let path = self.fill(path)?;
        if path.starts_with('/') {
            return Ok(path);
        }
        let namespace = &self.namespace;
        Ok(match path.split_once(':') {
            Some((group, rest))
                if !rest.is_empty() && !group.contains(['?', '=']) && group.contains('/') =>
            {
                format!("/apis/{group}/namespaces/{namespace}/{rest}")
            }
            _ => format!("/api/v1/namespaces/{namespace}/{path}"),
        })
    }

    /// Replaces `${ns}` and `${ANSWER.path}`.
    fn fill(&self, text: &str) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (name, after) = after.split_once('}').ok_or("a variable without an end")?;
            filled.push_str(before);
            filled.push_str(&self.variable(name)?);
            rest = after;
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn variable(&self, name: &str) -> Result<String, String> {
        if name == "ns" {
            return Ok(self.namespace.clone());
        }
        let (answer, path) = name.split_at(name.find('.').unwrap_or(name.len()));
        match self.saved.get(answer).and_then(|body| get(body, path)) {
            Some(value) => Ok(text(value).into_owned()),
            None => Err(format!("the answers so far have no {name}")),
        }
    }

    /// Keeps what was created, to be removed afterwards: objects only, never a collection.
    fn remember(&mut self, call: &Call, answer: &Value) {
        let Ok(path) = self.path(&call.path) else {
            return;
        };
        let path = path.split('?').next().unwrap_or_default();
        let name = answer["body"]["metadata"]["name"].as_str();
        match (call.method.as_str(), name) {
            ("POST", Some(name)) => self.created.push(format!("{path}/{name}")),
            ("PUT" | "PATCH", Some(name)) if path.ends_with(&format!("/{name}")) => {
                self.created.push(path.to_owned());
            }
            _ => {}
        }
    }
}

fn head(response: &Response<Incoming>) -> Value {
    let mut headers = Map::new();
    for name in HEADERS {
        let values: Vec<Value> = response
            .headers()
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into())
            .collect();
        match values.len() {
            0 => {}
            1 => drop(headers.insert(name.to_owned(), values[0].clone())),
            _ => drop(headers.insert(name.to_owned(), values.into())),
        }
    }
    json!({"status": response.status().as_u16(), "headers": headers})
}

fn parse(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|_| String::from_utf8_lossy(body).into())
}

fn holds(condition: &Condition, answer: &Value) -> bool {
    match condition {
        Condition::Status(status) => answer["status"] == *status,
        Condition::Field(path, wanted) => match get(&answer["body"], path) {
            Some(value) => text(value) == *wanted,
            None => wanted.is_empty(),
        },
    }
}

/// A string as it is, anything else in JSON.
fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => text.into(),
        value => value.to_string().into(),
    }
}

/// The value at `.a.0.b`.
fn get<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .filter(|part| !part.is_empty())
        .try_fold(value, |value, part| match value {
            Value::Array(items) => items.get(part.parse::<usize>().ok()?),
            value => value.get(part),
        })
}

fn set(value: &mut Value, path: &str, new: Value) {
    let parts = path.split('.').filter(|part| !part.is_empty());
    *parts.fold(value, |value, part| &mut value[part]) = new;
}

fn keep_only(body: Option<&mut Value>, keep: &Keep) {
    let mut parts = keep.list.split('.').filter(|part| !part.is_empty());
    let list = body.and_then(|body| {
        parts.try_fold(body, |value, part| match value {
            Value::Array(items) => items.get_mut(part.parse::<usize>().ok()?),
            value => value.get_mut(part),
        })
    });
    if let Some(Value::Array(items)) = list {
        items.retain(|item| {
            let field = get(item, &keep.field).and_then(Value::as_str);
            keep.values
                .iter()
                .any(|value| Some(value.as_str()) == field)
        });
    }
}
