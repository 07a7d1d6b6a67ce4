//! The language of the cases: steps as one would type them, in files that anybody can read.
//!
//! ```text
//! ## an object is read as it was created      a case; it runs in a namespace of its own
//! !alone                                       only where no controller interferes
//! a = POST configmaps                          `a` names the answer, for ${a.metadata.uid}
//!   @ accept: application/yaml                 a header
//!   {metadata: {name: a}}                      the body, in YAML (sent as JSON)
//!
//! GET configmaps/a                             relative: below the case's namespace, core v1
//!
//! GET apps/v1:deployments/a                    … of another group
//!
//! GET /version                                 absolute
//!
//! UNTIL 404 GET configmaps/a                   asks until the status (or .a.field=value) is there
//!
//! w = WATCH configmaps?resourceVersion=0       opens a watch; its first answer is the head
//!
//! EVENTS w 3                                   reads three events
//!
//! END w                                        reads until the server ends it
//! ```
//!
//! `MERGE`, `JSON`, `STRATEGIC` and `APPLY` are PATCH with the content type of that name. Other lines
//! with `@`: `@raw BODY` sends a body as it is, `@file PATH` one from the project (its own API group
//! made the case's, see [`OWN_GROUP`]), `@fill .data.a 2000000` puts a long text somewhere,
//! `@as NAME` speaks as another client, `@keep .resources name a,b` compares these elements of a
//! list only, `@no-body` compares everything but the body. Steps are separated by empty lines.

use std::path::Path;

/// In a file of the project this group gets the namespace in front, so that cases share no kinds.
const OWN_GROUP: &str = "mysql.mainstay.dev";

/// A file of cases.
#[derive(Debug)]
pub(crate) struct Script {
    /// Name of the file, without its extension.
    pub(crate) name: String,
    pub(crate) cases: Vec<Case>,
}

/// Steps that belong together and share a namespace.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    /// Needs a server beside which no controllers of workloads and nodes run.
    pub(crate) alone: bool,
    pub(crate) steps: Vec<Step>,
}

/// One step.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// Its first line, as written.
    pub(crate) text: String,
    /// What its answer is called.
    pub(crate) save: Option<String>,
    pub(crate) action: Action,
    /// List in the answer that is compared in part only.
    pub(crate) keep: Option<Keep>,
    /// Whether the answer's body is compared.
    pub(crate) body: bool,
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Request(Call),
    Until(Condition, Call),
    Watch(Call),
    Events { watch: String, count: usize },
    End { watch: String },
}

/// A request, its variables not yet filled in.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) client: Option<String>,
    pub(crate) body: Body,
    /// Path of a field and the length of the text to put there.
    pub(crate) fill: Option<(String, usize)>,
}

/// A request's body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None,
    Yaml(String),
    Raw(String),
}

/// What `UNTIL` waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    Status(u16),
    Field(String, String),
}

/// Elements of the list at `list` whose `field` is one of `values`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keep {
    pub(crate) list: String,
    pub(crate) field: String,
    pub(crate) values: Vec<String>,
}

impl Script {
    /// Reads every script of a folder, in the order of their names.
    pub(crate) fn read_all(folder: &Path) -> Result<Vec<Self>, String> {
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .map_err(|error| format!("{}: {error}", folder.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.extension().is_some_and(|ending| ending == "case"))
            .collect();
        files.sort();
        files
            .iter()
            .map(|file| {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                let text = std::fs::read_to_string(file)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                Self::parse(&name, &text).map_err(|what| format!("{}:{what}", file.display()))
            })
            .collect()
    }

    fn parse(name: &str, text: &str) -> Result<Self, String> {
        let mut cases: Vec<Case> = Vec::new();
        let mut block: Vec<&str> = Vec::new();
        let lines = text.lines().chain([""]).enumerate();
        for (number, line) in lines {
            let at = |what: String| format!("{}: {what}", number + 1);
            if let Some(title) = line.strip_prefix("## ") {
                cases.push(Case {
                    name: title.trim().to_owned(),
                    alone: false,
                    steps: Vec::new(),
                });
            } else if line.trim() == "!alone" {
                let case = cases.last_mut().ok_or_else(|| at("no case yet".into()))?;
                case.alone = true;
            } else if line.starts_with('#') {
                // A remark.
            } else if !line.trim().is_empty() {
                block.push(line);
            } else if !block.is_empty() {
                let case = cases.last_mut().ok_or_else(|| at("no case yet".into()))?;
                case.steps.push(step(&block).map_err(at)?);
                block.clear();
            }
        }
        Ok(Self {
            name: name.to_owned(),
            cases,
        })
    }
}

fn step(lines: &[&str]) -> Result<Step, String> {
    let text = lines[0].trim();
    let (save, rest) = match text.split_once(" = ") {
        Some((name, rest)) => (Some(name.to_owned()), rest),
        None => (None, text),
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let mut keep = None;
    let mut body = true;
    let mut call = |method: &str, path: &str| -> Result<Call, String> {
        let mut call = call(method, path);
        for line in &lines[1..] {
            match line.trim().strip_prefix('@') {
                Some(option) => match option.split_once(' ') {
                    None if option == "no-body" => body = false,
                    Some(("keep", what)) => keep = Some(keep_of(what)?),
                    Some((name, value)) => call.set(name, value.trim())?,
                    None => return Err(format!("unknown option @{option}")),
                },
                None => call.add_body(line),
            }
        }
        Ok(call)
    };
    let action = match words.as_slice() {
        ["EVENTS", watch, count] => Action::Events {
            watch: (*watch).to_owned(),
            count: count
                .parse()
                .map_err(|_| format!("not a number: {count}"))?,
        },
        ["END", watch] => Action::End {
            watch: (*watch).to_owned(),
        },
        ["UNTIL", condition, method, path] => {
            Action::Until(condition_of(condition)?, call(method, path)?)
        }
        ["WATCH", path] if save.is_some() => {
            let mark = if path.contains('?') { '&' } else { '?' };
            Action::Watch(call("GET", &format!("{path}{mark}watch=true"))?)
        }
        [method, path] => Action::Request(call(method, path)?),
        _ => return Err(format!("not a step: {text}")),
    };
    Ok(Step {
        text: text.to_owned(),
        save,
        action,
        keep,
        body,
    })
}

fn call(method: &str, path: &str) -> Call {
    let patch = match method {
        "MERGE" => Some("application/merge-patch+json"),
        "JSON" => Some("application/json-patch+json"),
        "STRATEGIC" => Some("application/strategic-merge-patch+json"),
        "APPLY" => Some("application/apply-patch+yaml"),
        _ => None,
    };
    Call {
        method: if patch.is_some() { "PATCH" } else { method }.to_owned(),
        path: path.to_owned(),
        headers: patch
            .map(|kind| vec![("content-type".to_owned(), kind.to_owned())])
            .unwrap_or_default(),
        client: None,
        body: Body::None,
        fill: None,
    }
}

impl Call {
    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "" => {
                let (header, value) = value.split_once(':').ok_or("a header is NAME: VALUE")?;
                self.headers.retain(|(known, _)| known != header);
                self.headers
                    .push((header.to_owned(), value.trim().to_owned()));
            }
            "as" => self.client = Some(value.to_owned()),
            "raw" => self.body = Body::Raw(value.to_owned()),
            "file" => {
                let file = crate::project(value);
                let text = std::fs::read_to_string(&file)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                let group = format!("${{ns}}.{OWN_GROUP}");
                self.body = Body::Yaml(text.replace(OWN_GROUP, &group));
            }
            "fill" => {
                let (path, length) = value.split_once(' ').ok_or("@fill PATH LENGTH")?;
                let length = length.parse().map_err(|_| "@fill PATH LENGTH")?;
                self.fill = Some((path.to_owned(), length));
            }
            _ => return Err(format!("unknown option @{name}")),
        }
        Ok(())
    }

    fn add_body(&mut self, line: &str) {
        match &mut self.body {
            Body::Yaml(text) => {
                text.push('\n');
                text.push_str(line);
            }
            body => *body = Body::Yaml(line.to_owned()),
        }
    }
}

fn condition_of(text: &str) -> Result<Condition, String> {
    if let Ok(status) = text.parse() {
        return Ok(Condition::Status(status));
    }
    match text.split_once('=') {
        Some((path, value)) if path.starts_with('.') => {
            Ok(Condition::Field(path.to_owned(), value.to_owned()))
        }
        _ => Err(format!("not a condition: {text}")),
    }
}

fn keep_of(text: &str) -> Result<Keep, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [list, field, values] = words.as_slice() else {
        return Err("@keep LIST FIELD VALUES".to_owned());
    };
    Ok(Keep {
        list: (*list).to_owned(),
        field: (*field).to_owned(),
        values: values.split(',').map(str::to_owned).collect(),
    })
}
