//! What differs, and what may.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

/// One difference between two answers to a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// Where in the answer: `.status`, `.headers.warning`, `.body.metadata.name`, `.body.items[0]`.
    pub(crate) path: String,
    /// What a real server says there; `None` where it says nothing.
    pub(crate) real: Option<Value>,
    /// What the embedded server says there.
    pub(crate) embedded: Option<Value>,
}

/// Every difference between two values.
pub(crate) fn differences(real: &Value, embedded: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    compare(String::new(), Some(real), Some(embedded), &mut found);
    found
}

fn compare(
    path: String,
    real: Option<&Value>,
    embedded: Option<&Value>,
    found: &mut Vec<Difference>,
) {
    match (real, embedded) {
        (real, embedded) if real == embedded => {}
        (Some(Value::Object(ours)), Some(Value::Object(theirs))) => {
            for (key, value) in ours {
                compare(format!("{path}.{key}"), Some(value), theirs.get(key), found);
            }
            for (key, value) in theirs.iter().filter(|(key, _)| !ours.contains_key(*key)) {
                compare(format!("{path}.{key}"), None, Some(value), found);
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs)))
            if let (Some(ours), Some(theirs)) = (by_name(ours), by_name(theirs)) =>
        {
            let names: BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
            for name in names {
                let (ours, theirs) = (ours.get(name), theirs.get(name));
                compare(
                    format!("{path}[{name}]"),
                    ours.copied(),
                    theirs.copied(),
                    found,
                );
            }
        }
        (Some(Value::Array(ours)), Some(Value::Array(theirs))) => {
            for at in 0..ours.len().max(theirs.len()) {
                compare(format!("{path}[{at}]"), ours.get(at), theirs.get(at), found);
            }
        }
        (real, embedded) => found.push(Difference {
            path,
            real: real.cloned(),
            embedded: embedded.cloned(),
        }),
    }
}

/// The elements of a list of subresources, by their names: one that is missing is one difference, and
/// not one of each that comes after it.
fn by_name(list: &[Value]) -> Option<BTreeMap<&str, &Value>> {
    let named = list
        .iter()
        .map(|item| Some((item["subresource"].as_str()?, item)));
    named.collect()
}

/// A row of the table of differences that are meant.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    /// Patterns (`*` stands for anything) of `SCRIPT: CASE`, of the step's text and of the path.
    pub(crate) case: String,
    pub(crate) step: String,
    pub(crate) path: String,
    /// Whether it was met.
    pub(crate) shown: bool,
}

/// The table in a Markdown file: rows of case, step, place and reason.
pub(crate) fn listed(file: &Path) -> Result<Vec<Listed>, String> {
    let text =
        std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches(['|', ' ']).splitn(4, " | ").collect();
        let [case, step, path, reason] = cells.as_slice() else {
            return Err(format!("{}: not four cells: {row}", file.display()));
        };
        if reason.trim().is_empty() {
            return Err(format!("{}: no reason: {row}", file.display()));
        }
        let bare = |cell: &str| cell.trim().trim_matches('`').to_owned();
        Ok(Listed {
            case: bare(case),
            step: bare(step),
            path: bare(path),
            shown: false,
        })
    })
    .collect()
}

impl Listed {
    /// Whether it is about this difference; remembers that it was.
    pub(crate) fn covers(&mut self, case: &str, step: &str, path: &str) -> bool {
        let covers =
            matches(&self.case, case) && matches(&self.step, step) && matches(&self.path, path);
        self.shown |= covers;
        covers
    }
}

/// Whether `text` is as `pattern` says, in which `*` stands for anything.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((before, rest)) => text.strip_prefix(before).is_some_and(|text| {
            let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            ends.into_iter().any(|at| matches(rest, &text[at..]))
        }),
    }
}
