//! `metadata.managedFields`: who owns which fields.

use std::collections::BTreeMap;

use serde_json::{Map as Object, Value};

use super::set::Set;

/// How a manager writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    /// Server-side apply.
    Apply,
    /// Anything else.
    Update,
}

impl Operation {
    fn text(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// What makes an entry the same entry.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Manager {
    pub(super) name: String,
    pub(super) operation: Operation,
    /// Empty for Apply: who applies has one entry, whatever the version.
    pub(super) api_version: String,
    pub(super) subresource: String,
}

/// What a manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) fields: Set,
    pub(super) api_version: String,
    /// Of the last write that changed something.
    pub(super) time: Option<String>,
}

/// All managers.
pub(super) type Managed = BTreeMap<Manager, Entry>;

/// `metadata.managedFields` of an object.
pub(super) fn of(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

/// Whether somebody wants `managedFields` to start anew: an empty list, or one empty entry.
pub(super) fn is_reset(list: &Value) -> bool {
    match list.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.values().all(|value| match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            _ => false,
        }),
        _ => false,
    }
}

/// Reads the entries; `None` where one of them makes no sense.
pub(super) fn decode(list: Option<&Value>) -> Option<Managed> {
    let mut record = Managed::new();
    for entry in list.and_then(Value::as_array).into_iter().flatten() {
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        let operation = match entry["operation"].as_str() {
            Some("Apply") => Operation::Apply,
            Some("Update") => Operation::Update,
            _ => return None,
        };
        let api_version = text("apiVersion");
        if api_version.is_empty() || entry["fieldsType"] != "FieldsV1" {
            return None;
        }
        let manager = Manager {
            name: text("manager"),
            operation,
            api_version: match operation {
                Operation::Apply => String::new(),
                Operation::Update => api_version.clone(),
            },
            subresource: text("subresource"),
        };
        let fields = Set::parse(&entry["fieldsV1"]).ok()?;
        let time = entry["time"].as_str().map(str::to_owned);
        record.insert(
            manager,
            Entry {
                fields,
                api_version,
                time,
            },
        );
    }
    Some(record)
}

/// Writes the entries in a server's order: appliers first, each sort by its time.
pub(super) fn encode(record: &Managed) -> Value {
    let mut entries: Vec<(&Manager, &Entry)> = record.iter().collect();
    entries.sort_by_key(|(manager, entry)| {
        (
            manager.operation,
            entry.time.as_deref().unwrap_or_default(),
            &manager.name,
            &entry.api_version,
            &manager.subresource,
        )
    });
    let text = |text: &str| Value::String(text.to_owned());
    let written = entries.into_iter().map(|(manager, entry)| {
        let mut object = Object::new();
        object.insert("manager".to_owned(), text(&manager.name));
        object.insert("operation".to_owned(), text(manager.operation.text()));
        object.insert("apiVersion".to_owned(), text(&entry.api_version));
        if let Some(time) = &entry.time {
            object.insert("time".to_owned(), text(time));
        }
        object.insert("fieldsType".to_owned(), text("FieldsV1"));
        object.insert("fieldsV1".to_owned(), entry.fields.to_fields());
        if !manager.subresource.is_empty() {
            object.insert("subresource".to_owned(), text(&manager.subresource));
        }
        Value::Object(object)
    });
    Value::Array(written.collect())
}

/// Puts the entries into `object`; without any the field goes.
pub(super) fn store(object: &mut Value, record: &Managed) {
    if record.is_empty() {
        remove(object);
    } else if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("managedFields".to_owned(), encode(record));
    }
}

/// Takes the entries out of `object`.
pub(super) fn remove(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
}

/// At most this many entries of updates are kept (`DefaultMaxUpdateManagers`).
const MOST_UPDATERS: usize = 10;
/// Who owns what those owned that were dropped.
const ANCIENT: &str = "ancient-changes";

/// Joins the oldest entries of updates where there are too many.
pub(super) fn cap(record: &mut Managed) {
    let mut updaters: Vec<Manager> = record
        .keys()
        .filter(|manager| manager.operation == Operation::Update)
        .cloned()
        .collect();
    let mut many = updaters.len();
    if many <= MOST_UPDATERS {
        return;
    }
    updaters.sort_by_key(|manager| (record[manager].time.clone(), manager.clone()));
    let mut first: BTreeMap<String, Manager> = BTreeMap::new();
    for manager in updaters {
        if many <= MOST_UPDATERS {
            return;
        }
        let version = manager.api_version.clone();
        let Some(oldest) = first.get(&version) else {
            first.insert(version, manager);
            continue;
        };
        let bucket = Manager {
            name: ANCIENT.to_owned(),
            operation: Operation::Update,
            api_version: version,
            subresource: String::new(),
        };
        if !record.contains_key(&bucket)
            && let Some(entry) = record.remove(oldest)
        {
            record.insert(bucket.clone(), entry);
        }
        if let Some(entry) = record.remove(&manager)
            && let Some(ancient) = record.get_mut(&bucket)
        {
            ancient.fields.add(&entry.fields);
            ancient.time = entry.time;
            many -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, time: &str) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "v1", "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {format!("f:{manager}"): {}}}})
    }

    #[test]
    fn entries_are_read_and_written_in_order() {
        let list = json!([
            entry("b", "Update", "2026-01-01T00:00:00Z"),
            entry("a", "Update", "2026-01-01T00:00:00Z"),
            entry("z", "Apply", "2026-01-02T00:00:00Z"),
        ]);
        let record = decode(Some(&list)).expect("reads");
        let written = encode(&record);
        let names: Vec<&str> = written
            .as_array()
            .expect("a list")
            .iter()
            .filter_map(|e| e["manager"].as_str())
            .collect();
        assert_eq!(names, ["z", "a", "b"]);
        assert_eq!(decode(Some(&written)), Some(record));
    }

    #[test]
    fn what_makes_no_sense_is_not_read() {
        for broken in [
            json!([{"manager": "a", "operation": "Patch", "apiVersion": "v1", "fieldsType": "FieldsV1"}]),
            json!([{"manager": "a", "operation": "Apply", "apiVersion": "", "fieldsType": "FieldsV1"}]),
            json!([{"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "V2"}]),
            json!([{"manager": "a", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"x": {}}}]),
        ] {
            assert_eq!(decode(Some(&broken)), None, "{broken}");
        }
        assert!(is_reset(&json!([])) && is_reset(&json!([{}])));
        assert!(!is_reset(&Value::Null) && !is_reset(&json!([{"manager": "a"}])));
    }

    #[test]
    fn the_oldest_updates_are_joined() {
        let list: Vec<Value> = (10..23)
            .map(|i| {
                entry(
                    &format!("m{i}"),
                    "Update",
                    &format!("2026-01-01T00:00:{i}Z"),
                )
            })
            .collect();
        let mut record = decode(Some(&Value::Array(list))).expect("reads");
        cap(&mut record);
        assert_eq!(record.len(), MOST_UPDATERS);
        let ancient = record
            .iter()
            .find(|(manager, _)| manager.name == ANCIENT)
            .expect("joined");
        assert_eq!(ancient.1.fields.paths().len(), 4);
        assert_eq!(ancient.1.time.as_deref(), Some("2026-01-01T00:00:13Z"));
    }
}
