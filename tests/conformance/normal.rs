//! What differs from run to run without meaning anything is replaced, so that answers compare.
//!
//! Equality and order survive: a UID becomes `uid 1 of NAME`, a resource version `2 of NAME` (the
//! second one seen of that object), and the version of a list or a bookmark `since 2 of NAME`: the
//! newest one of an object that is not newer than it.

mod order;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use order::sorted;
use text::{address, age, ago, numbers, times, uuids};

/// Columns of tables whose cells tell how long ago something was.
const AGES: [&str; 4] = ["Age", "Last Seen", "First Seen", "Duration"];

/// A made-up name is a prefix, of which so many bytes are used, and so many letters.
const PREFIX: usize = 58;
const SUFFIX: usize = 5;

/// Normalises the answers of one case, which ran in `namespace`.
pub(crate) fn normalise(answers: Vec<Value>, namespace: &str) -> Vec<Value> {
    let mut answers: Vec<Value> = answers
        .into_iter()
        .map(|answer| texts(answer, &|text| text.replace(namespace, "$ns")))
        .collect();
    let mut generated = Vec::new();
    answers
        .iter()
        .for_each(|answer| names(answer, &mut generated));
    for (count, (prefix, name)) in generated.iter().enumerate() {
        let short = format!("{prefix}<{}>", count + 1);
        answers = answers
            .into_iter()
            .map(|answer| texts(answer, &|text| text.replace(name, &short)))
            .collect();
    }
    let mut seen = Seen::default();
    answers.iter().for_each(|answer| seen.look(answer));
    let known = seen.name();
    answers
        .into_iter()
        .map(|answer| known.replace(answer, "", false))
        .collect()
}

/// Applies `change` to every text and every key.
fn texts(value: Value, change: &dyn Fn(&str) -> String) -> Value {
    match value {
        Value::String(text) => change(&text).into(),
        Value::Array(items) => items.into_iter().map(|item| texts(item, change)).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .map(|(key, value)| (change(&key), texts(value, change)))
            .collect(),
        other => other,
    }
}

/// Names that the server made up, in order of appearance.
fn names(value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        Value::Object(fields) => {
            if let (Some(Value::String(prefix)), Some(Value::String(name))) =
                (fields.get("generateName"), fields.get("name"))
                && let Some(rest) = name.strip_prefix(prefix.get(..PREFIX).unwrap_or(prefix))
                && rest.len() == SUFFIX
                && !found.iter().any(|(_, known)| known == name)
            {
                found.push((prefix.clone(), name.clone()));
            }
            fields.values().for_each(|value| names(value, found));
        }
        _ => {}
    }
}

/// Whether an object stands for many: its resource version is the collection's.
fn is_collection(fields: &Map<String, Value>) -> bool {
    fields.contains_key("items") || fields.get("kind").is_some_and(|kind| kind == "Table")
}

/// What objects were seen.
#[derive(Debug, Default)]
struct Seen {
    /// UIDs by the name of their object, in order of appearance.
    uids: BTreeMap<String, Vec<String>>,
    /// Resource versions by the name of their object.
    versions: BTreeMap<String, BTreeSet<u64>>,
}

impl Seen {
    fn look(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.look(item)),
            Value::Object(fields) => {
                if let Some(Value::Object(metadata)) = fields.get("metadata")
                    && let Some(Value::String(name)) = metadata.get("name")
                {
                    self.note(name, metadata);
                }
                fields.values().for_each(|value| self.look(value));
            }
            _ => {}
        }
    }

    fn note(&mut self, name: &str, metadata: &Map<String, Value>) {
        if let Some(Value::String(uid)) = metadata.get("uid") {
            let known = self.uids.entry(name.to_owned()).or_default();
            if !known.contains(uid) {
                known.push(uid.clone());
            }
        }
        let version = metadata.get("resourceVersion").and_then(Value::as_str);
        if let Some(version) = version.and_then(|version| version.parse().ok()) {
            self.versions
                .entry(name.to_owned())
                .or_default()
                .insert(version);
        }
    }

    fn name(self) -> Known {
        let mut known = Known::default();
        for (name, uids) in self.uids {
            for (count, uid) in uids.into_iter().enumerate() {
                known
                    .uids
                    .insert(uid, format!("uid {} of {name}", count + 1));
            }
        }
        for (name, versions) in self.versions {
            for (count, version) in versions.into_iter().enumerate() {
                known
                    .versions
                    .insert(version, format!("{} of {name}", count + 1));
            }
        }
        known
    }
}

/// What everything is called.
#[derive(Debug, Default)]
struct Known {
    uids: BTreeMap<String, String>,
    versions: BTreeMap<u64, String>,
}

impl Known {
    /// `collection`: the value is the metadata of a list, a table or a bookmark.
    fn replace(&self, value: Value, key: &str, collection: bool) -> Value {
        match value {
            Value::String(text) => self.text(&text, key, collection).into(),
            Value::Number(_) if key == "nodePort" => "<port>".into(),
            Value::Array(items) => items
                .into_iter()
                .map(|item| self.replace(item, key, false))
                .collect(),
            Value::Object(mut fields) => {
                ages(&mut fields);
                causes(&mut fields);
                managers(&mut fields);
                let bookmark = fields.get("type").is_some_and(|kind| kind == "BOOKMARK");
                let many = is_collection(&fields);
                fields
                    .into_iter()
                    .map(|(key, value)| {
                        let collection = match key.as_str() {
                            "object" => bookmark,
                            "metadata" => many || collection,
                            "resourceVersion" => collection,
                            _ => false,
                        };
                        let value = self.replace(value, &key, collection);
                        (uuids(&key, &self.uids), value)
                    })
                    .collect()
            }
            other => other,
        }
    }

    fn text(&self, text: &str, key: &str, collection: bool) -> String {
        match key {
            "resourceVersion" => match text.parse() {
                Ok(version) => self.version(version, collection),
                Err(_) => text.to_owned(),
            },
            // Of a group whose name is the namespace's.
            "storageVersionHash" => "<hash>".to_owned(),
            "continue" if !text.is_empty() => "<more>".to_owned(),
            "clusterIP" | "clusterIPs" if address(text) => "<address>".to_owned(),
            "message" => numbers(&sorted(&times(&uuids(text, &self.uids))), &|number| {
                let known = self.versions.get(&number);
                known.map_or_else(|| "<version>".to_owned(), |name| format!("<{name}>"))
            }),
            _ => times(&uuids(text, &self.uids)),
        }
    }

    fn version(&self, version: u64, collection: bool) -> String {
        if !collection && let Some(name) = self.versions.get(&version) {
            return name.clone();
        }
        match self.versions.range(..=version).next_back() {
            Some((_, name)) => format!("since {name}"),
            None => "since the beginning".to_owned(),
        }
    }
}

/// Hides how old the rows of a table are, and how long ago something happened to them.
fn ages(fields: &mut Map<String, Value>) {
    let columns: Vec<bool> = match fields.get("columnDefinitions") {
        Some(Value::Array(columns)) => columns
            .iter()
            .map(|column| AGES.iter().any(|name| column["name"] == *name))
            .collect(),
        // Later tables of a watch have no definitions: any column may be one.
        Some(Value::Null) => vec![true; 100],
        _ => return,
    };
    let Some(Value::Array(rows)) = fields.get_mut("rows") else {
        return;
    };
    for row in rows {
        let Some(Value::Array(cells)) = row.get_mut("cells") else {
            continue;
        };
        for (cell, is_age) in cells.iter_mut().zip(&columns) {
            let text = cell.as_str().unwrap_or_default();
            if *is_age && age(text) {
                *cell = "<age>".into();
            } else if let Some(hidden) = ago(text) {
                *cell = hidden.into();
            }
        }
    }
}

/// Sorts the causes of a refusal: a real server goes through properties in no order.
fn causes(fields: &mut Map<String, Value>) {
    let Some(causes) = fields
        .get("details")
        .and_then(|details| details.get("causes"))
    else {
        return;
    };
    let mut causes = causes.as_array().cloned().unwrap_or_default();
    let listed = |causes: &[Value]| {
        let mut said: Vec<String> = Vec::new();
        for cause in causes {
            let field = cause["field"].as_str().unwrap_or_default();
            let text = format!("{field}: {}", cause["message"].as_str().unwrap_or_default());
            if !said.contains(&text) {
                said.push(text);
            }
        }
        format!("[{}]", said.join(", "))
    };
    let given = listed(&causes);
    causes.sort_by_key(Value::to_string);
    if let Some(Value::String(message)) = fields.get_mut("message") {
        *message = message.replace(&given, &listed(&causes));
    }
    fields["details"]["causes"] = causes.into();
}

/// Sorts the entries of managed fields, which come by their times.
fn managers(fields: &mut Map<String, Value>) {
    if let Some(Value::Array(entries)) = fields.get_mut("managedFields") {
        let key = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        entries.sort_by_key(|entry| {
            ["manager", "operation", "subresource", "apiVersion"].map(|field| key(entry, field))
        });
    }
}
