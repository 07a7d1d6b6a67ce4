//! What happened, for people to read, and in a form that tells whether it happened again.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;

use tokio::time::Instant;

/// A run's record.
pub(crate) struct History {
    started: Instant,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    lines: Vec<String>,
    /// Faults by kind.
    faults: BTreeMap<&'static str, u64>,
    /// What must never be, and was.
    violations: Vec<String>,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            record: Mutex::default(),
        }
    }

    /// Something happened at `who`.
    pub(crate) fn note(&self, who: &str, what: impl AsRef<str>) {
        let at = self.started.elapsed().as_secs_f64();
        let line = format!("{at:9.3}  {who:<12} {}", what.as_ref());
        self.record.lock().unwrap().lines.push(line);
    }

    /// A fault was done on purpose.
    pub(crate) fn fault(&self, kind: &'static str, what: impl AsRef<str>) {
        self.note("-- fault --", format!("{kind}: {}", what.as_ref()));
        *self.record.lock().unwrap().faults.entry(kind).or_default() += 1;
    }

    /// What must never be. The same is told once.
    pub(crate) fn violation(&self, what: impl Into<String>) {
        let what = what.into();
        let known = self.record.lock().unwrap().violations.contains(&what);
        if !known {
            self.note("!! BROKEN !!", &what);
            self.record.lock().unwrap().violations.push(what);
        }
    }

    /// What must never be and was, so far.
    pub(crate) fn violations(&self) -> Vec<String> {
        self.record.lock().unwrap().violations.clone()
    }

    /// Faults by kind.
    pub(crate) fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.record.lock().unwrap().faults.clone()
    }

    /// All of it, a line each.
    pub(crate) fn text(&self) -> String {
        let record = self.record.lock().unwrap();
        record.lines.iter().fold(String::new(), |mut text, line| {
            let _ = writeln!(text, "{line}");
            text
        })
    }
}
