//! Processes with a deadline, `kubectl` above all.

use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

/// Longer than anything that is asked of `kubectl` here takes, deletions of namespaces apart.
const LIMIT: Duration = Duration::from_mins(1);

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// `kubectl` in a namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kubectl {
    pub(crate) namespace: &'static str,
}

impl Kubectl {
    /// Its standard output, or its standard error where it failed.
    pub(crate) fn run(&self, arguments: &[&str]) -> Result<String, String> {
        self.run_within(LIMIT, arguments, "")
    }

    /// As [`Self::run`], where a failure is a failure of the scenario.
    #[track_caller]
    pub(crate) fn must(&self, arguments: &[&str]) -> String {
        self.run(arguments)
            .unwrap_or_else(|why| panic!("kubectl {}: {why}", arguments.join(" ")))
    }

    /// Applies what `manifest` says, with further arguments.
    pub(crate) fn apply(&self, manifest: &str, arguments: &[&str]) -> Result<String, String> {
        self.run_within(
            LIMIT,
            &[&["apply", "-f", "-"], arguments].concat(),
            manifest,
        )
    }

    /// The object, or `None` where there is none.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Result<Option<Value>, String> {
        let text = self.run(&["get", kind, name, "-o", "json", "--ignore-not-found"])?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| error.to_string())
    }

    /// The objects with these labels.
    pub(crate) fn list(&self, kind: &str, selector: &str) -> Result<Vec<Value>, String> {
        let text = self.run(&["get", kind, "-l", selector, "-o", "json"])?;
        let mut list: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            other => Err(format!("a list of {kind} has the items {other}")),
        }
    }

    pub(crate) fn run_within(
        &self,
        limit: Duration,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, String> {
        run(
            "kubectl",
            &[&["-n", self.namespace], arguments].concat(),
            input,
            limit,
        )
    }
}

/// The script that runs the nodes, where the cluster under test is its cluster: only then can a node
/// be cut off the network.
pub(crate) fn nodes_script() -> Option<impl Fn(&[&str]) -> String> {
    let script = repository("tests/cluster/cluster")
        .to_string_lossy()
        .into_owned();
    let ours = run(&script, &["env"], "", LIMIT).ok()?;
    let theirs = std::env::var("KUBECONFIG").ok()?;
    ours.lines()
        .any(|line| line.strip_prefix("export KUBECONFIG=") == Some(&theirs))
        .then_some(move |arguments: &[&str]| {
            run(&script, arguments, "", LIMIT)
                .unwrap_or_else(|why| panic!("cluster {arguments:?}: {why}"))
        })
}

/// Runs a program to its end: its output, or why there is none.
fn run(program: &str, arguments: &[&str], input: &str, limit: Duration) -> Result<String, String> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{program} can't be run: {error}"))?;
    let mut stdin = child.stdin.take().expect("it is piped");
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    let (output, errors) = (
        thread::spawn(|| read(output)),
        thread::spawn(|| read(errors)),
    );
    // A program that reads no input may have closed it.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);

    let start = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) => break status,
            None if start.elapsed() > limit => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no end after {} s", limit.as_secs()));
            }
            None => thread::sleep(Duration::from_millis(5)),
        }
    };
    let output = output.join().unwrap_or_default();
    let errors = errors.join().unwrap_or_default();
    if status.success() {
        Ok(output)
    } else {
        Err(format!("{}{}", output, errors.trim_end()))
    }
}

fn read(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        // What was read before an error is worth showing.
        let _ = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
