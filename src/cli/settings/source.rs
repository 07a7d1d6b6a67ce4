//! Where a value came from, and what is wrong with it.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use super::table::Entry;

/// Where an option's value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// Nobody set it.
    Default,
    /// The file of `--config`.
    File {
        /// The file.
        path: PathBuf,
        /// The key's line, where it is known.
        line: Option<usize>,
    },
    /// The environment.
    Variable,
    /// The command line.
    Flag,
}

impl Source {
    /// For a person: what to change for another value of `entry`.
    pub(super) fn of(&self, entry: &Entry) -> String {
        match self {
            Self::Default => "default".to_owned(),
            Self::File { path, line } => at(path, *line),
            Self::Variable => entry.variable(),
            Self::Flag => format!("flag --{}", entry.name),
        }
    }
}

fn at(path: &Path, line: Option<usize>) -> String {
    match line {
        Some(line) => format!("{}:{line}", path.display()),
        None => path.display().to_string(),
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Problem {
    /// The option it is about, by its flag; none for a file or a key that is no option.
    pub(super) option: Option<&'static str>,
    place: String,
    what: String,
}

impl Problem {
    /// Of the value that `source` gives `entry`.
    pub(super) fn new(entry: &Entry, source: &Source, what: String) -> Self {
        let place = match source {
            Source::Default => format!("--{} (default)", entry.name),
            Source::File { path, line } => format!("{} ({})", entry.key(), at(path, *line)),
            Source::Variable => format!("{} (environment)", entry.variable()),
            Source::Flag => format!("--{}", entry.name),
        };
        Self {
            option: Some(entry.name),
            place,
            what,
        }
    }

    /// Of a key that is no option.
    pub(super) fn of_key(key: &str, source: &Source, what: String) -> Self {
        let place = match source {
            Source::File { path, line } => format!("{key} ({})", at(path, *line)),
            _ => key.to_owned(),
        };
        Self {
            option: None,
            place,
            what,
        }
    }

    /// Of the whole file.
    pub(super) fn of_file(path: &Path, what: String) -> Self {
        Self {
            option: None,
            place: format!("--config {}", path.display()),
            what,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Everything that is wrong with the options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct Problems(pub(super) Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "{one}"),
            several => {
                write!(f, "{} options can't be used:", several.len())?;
                several.iter().try_for_each(|one| write!(f, "\n  {one}"))
            }
        }
    }
}

impl Error for Problems {}
