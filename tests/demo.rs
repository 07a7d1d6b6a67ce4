//! `mainstay demo` as a machine runs it: without a terminal. MySQL is modelled, so that it runs
//! wherever `cargo test` does.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use mainstay::client::{Client, ClientOptions, Config, ConfigSource};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A folder for everything that a demo could leave behind.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(place.temporary()).unwrap();
        place
    }

    /// The demo's folder for temporary files.
    fn temporary(&self) -> PathBuf {
        self.0.path().join("tmp")
    }

    fn script(&self, text: &str) -> PathBuf {
        let path = self.0.path().join("script.demo");
        std::fs::write(&path, text).unwrap();
        path
    }

    fn demo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        command
            .arg("demo")
            .args(arguments)
            .env("TMPDIR", self.temporary());
        // None is needed, and none is written to.
        command.env_remove("HOME");
        command
    }

    /// Plays a script to its end.
    fn play(&self, text: &str) -> Output {
        let script = self.script(text);
        let arguments = ["--once", "--modelled", "--script", script.to_str().unwrap()];
        self.demo(&arguments).output().unwrap()
    }

    fn assert_clean(&self) {
        let entries = std::fs::read_dir(self.temporary()).unwrap();
        let left: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn a_script_that_holds_ends_with_0_and_leaves_nothing_behind() {
    let place = Place::new();
    let output = place.play(
        "wait ready 3  # the sample\nload on\nsleep 500ms\nkill primary\nwait ready 3\n\
         expect pause under 30s\nexpect lost 0\n",
    );
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    for part in [
        "MySQL is modelled in memory (as asked for)",
        "cluster demo: Running 3/3, primary demo-0",
        "» kill primary: demo-0",
        "FailoverCompleted",
        "on demo-0        lost 0",
        "on demo-1        lost 0",
        "on demo-2        lost 0",
        "all held",
    ] {
        assert!(out.contains(part), "no {part:?} in\n{out}");
    }
    assert!(!out.contains('\u{1b}'), "no terminal, no escape codes");
    assert_eq!(err, "");
    place.assert_clean();
}

#[test]
fn a_step_that_fails_is_named_and_ends_with_1() {
    let place = Place::new();
    let output = place.play("\nwait ready 4 within 1ms\nload on\n");
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{out}");
    assert!(
        out.contains("script.demo:2: wait ready 4 within 1ms: not within"),
        "{out}"
    );
    assert!(!out.contains("writes: on"), "{out}");
    place.assert_clean();
}

#[test]
fn what_can_not_begin_says_why_and_starts_nothing() {
    let place = Place::new();
    let wrong = place.play("load on\nkill everything\n");
    let err = text(&wrong.stderr);
    assert!(
        err.contains("script.demo:2: \"kill everything\" is no step; steps are: "),
        "{err}"
    );

    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap().to_string();
    let taken = place
        .demo(&["--modelled", "--listen", &address])
        .output()
        .unwrap();
    let err = text(&taken.stderr);
    assert!(
        err.contains(&format!("can't listen on {address}: ")),
        "{err}"
    );

    let full = place.0.path().to_str().unwrap();
    let used = place.demo(&["--modelled", "--dir", full]).output().unwrap();
    let err = text(&used.stderr);
    assert!(err.contains("is not empty"), "{err}");

    for output in [wrong, taken, used] {
        assert_eq!(output.status.code(), Some(1));
    }
    place.assert_clean();
}

/// A demo that runs until it is told to end.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    kubeconfig: PathBuf,
    operators: Vec<Pid>,
}

impl Running {
    /// Begins one and reads what it prints until all operators were started.
    fn begin(place: &Place) -> Self {
        let mut command = place.demo(&["--modelled"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (mut kubeconfig, mut operators) = (None, Vec::new());
        while operators.len() < 3 {
            let line = lines.next().expect("it goes on").unwrap();
            if let Some(rest) = line.strip_prefix("kubectl --kubeconfig ") {
                kubeconfig = rest.split_whitespace().next().map(PathBuf::from);
            }
            if line.contains("operator mainstay-")
                && let Some((_, pid)) = line.split_once("process ")
            {
                let pid = Pid::from_raw(pid.parse().unwrap());
                if !operators.contains(&pid) {
                    operators.push(pid);
                }
            }
        }
        Self {
            child,
            lines,
            kubeconfig: kubeconfig.expect("printed first"),
            operators,
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().try_into().unwrap());
        kill(pid, signal).unwrap();
    }
}

#[tokio::test]
async fn its_kubeconfig_works_and_sigterm_leaves_no_process_and_no_file() {
    let place = Place::new();
    let mut demo = Running::begin(&place);
    assert!(demo.kubeconfig.starts_with(place.temporary()));
    let source = ConfigSource {
        kubeconfig: Some(demo.kubeconfig.clone()),
        context: None,
    };
    let config = Config::load(&source).await.unwrap();
    let client = Client::new(config, ClientOptions::default()).unwrap();
    assert!(client.server_version().await.unwrap().starts_with("v1."));
    assert!(demo.operators.iter().all(|pid| runs(*pid)));

    demo.signal(Signal::SIGTERM);
    let rest = demo.lines.by_ref().map(Result::unwrap).count();
    let status = demo.child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "after {rest} more lines");
    assert!(demo.operators.iter().all(|pid| !runs(*pid)));
    place.assert_clean();
}

#[test]
fn a_demo_that_is_killed_takes_its_operators_along() {
    let place = Place::new();
    let mut demo = Running::begin(&place);
    demo.signal(Signal::SIGKILL);
    demo.child.wait().unwrap();
    // Only a hang would make this wait for long: they see at once that their pipe is closed.
    while demo.operators.iter().any(|pid| runs(*pid)) {
        std::thread::yield_now();
    }
}

/// Whether there is such a process, and it has not ended (its parent may not look after it).
fn runs(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    match stat {
        Ok(stat) => !stat.contains(") Z "),
        // Where there is no /proc, whoever can be signalled runs.
        Err(_) if Path::new("/proc/self").exists() => false,
        Err(_) => kill(pid, None).is_ok(),
    }
}
