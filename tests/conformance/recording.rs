//! The answers of a real server, kept: a file a script, one answer a line.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Answers by the name of their case.
pub(crate) type Answers = BTreeMap<String, Vec<Value>>;

/// A folder of recordings.
#[derive(Debug)]
pub(crate) struct Recordings {
    folder: PathBuf,
}

impl Recordings {
    pub(crate) fn new(folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
        }
    }

    /// What was recorded of a script; nothing where there is no file.
    pub(crate) fn read(&self, script: &str) -> Result<Answers, String> {
        let file = self.file(script);
        let text = match fs::read_to_string(&file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Answers::new());
            }
            Err(error) => return Err(format!("{}: {error}", file.display())),
        };
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Replaces what was recorded of a script.
    pub(crate) fn write(&self, script: &str, answers: &Answers) -> Result<(), String> {
        let cases: Vec<String> = answers
            .iter()
            .map(|(case, answers)| {
                let lines: Vec<String> = answers.iter().map(Value::to_string).collect();
                format!(
                    "{}: [\n{}\n]",
                    Value::from(case.as_str()),
                    lines.join(",\n")
                )
            })
            .collect();
        let file = self.file(script);
        fs::write(&file, format!("{{\n{}\n}}\n", cases.join(",\n")))
            .map_err(|error| format!("{}: {error}", file.display()))
    }

    /// The version of Kubernetes that it is of.
    pub(crate) fn version(&self) -> String {
        let text = fs::read_to_string(self.folder.join("version")).unwrap_or_default();
        text.trim().to_owned()
    }

    pub(crate) fn write_version(&self, version: &str) -> Result<(), String> {
        let file = self.folder.join("version");
        fs::write(&file, format!("{version}\n"))
            .map_err(|error| format!("{}: {error}", file.display()))
    }

    fn file(&self, script: &str) -> PathBuf {
        self.folder.join(format!("{script}.json"))
    }
}
