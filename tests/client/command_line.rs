//! What `mainstay run` makes of its command line, and of requests while it runs.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use mainstay::apiserver::{ApiServer, ApiServerOptions};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

const LIMIT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn run_takes_the_context_and_the_namespace_that_it_is_told() {
    let server = ApiServer::new(ApiServerOptions::default());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, None, std::future::pending()).await });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config");
    let config = json!({
        "current-context": "elsewhere",
        "contexts": [
            {"name": "elsewhere", "context": {"cluster": "elsewhere"}},
            {"name": "here", "context": {"cluster": "here"}},
        ],
        "clusters": [
            {"name": "elsewhere", "cluster": {"server": "http://127.0.0.1:1"}},
            {"name": "here", "cluster": {"server": url}},
        ],
    });
    std::fs::write(&file, config.to_string()).unwrap();
    let run = |context: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
        command.arg("run").arg("--kubeconfig").arg(&file);
        command.args(["--context", context, "--namespace", "team"]);
        command.args(["--listen", "127.0.0.1:0"]);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .env("POD_NAME", "mainstay-5c9f")
            .env("POD_UID", "7f3e");
        command
    };

    let output = run("nowhere").output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{said}");
    let words = format!("{} has no context \"nowhere\"", file.display());
    assert!(
        said.contains(&words) && said.contains("elsewhere, here"),
        "{said}"
    );

    let operator = run("here").spawn().unwrap();
    let seen = async {
        loop {
            let audit = server.audit(0);
            let mut reads = audit
                .iter()
                .filter(|event| matches!(event.verb, "list" | "watch"));
            if reads.clone().any(|event| event.resource == "pods") {
                // Without tokens the server knows a client by its User-Agent. It is not the first
                // process of its container, and so has a name of its own.
                let me = format!(
                    "mainstay/{} (mainstay-5c9f_7f3e_{}_",
                    env!("CARGO_PKG_VERSION"),
                    operator.id().unwrap_or_default()
                );
                let other = reads.clone().find(|event| !event.client.starts_with(&me));
                assert!(other.is_none(), "{other:?}");
                let outside = reads.find(|event| event.namespace != "team");
                assert!(outside.is_none(), "{outside:?}");
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, seen)
        .await
        .expect("it reads pods");
}

/// `mainstay run` with an environment of its own.
fn mainstay() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mainstay"));
    command
        .arg("run")
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn output(command: &mut Command) -> (Option<i32>, String, String) {
    let ended = tokio::time::timeout(LIMIT, command.output()).await;
    let Output {
        status,
        stdout,
        stderr,
    } = ended.expect("it ends").unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

#[tokio::test]
async fn all_that_is_wrong_is_told_at_once_with_exit_code_2() {
    let mut command = mainstay();
    command
        .args(["--qps", "x", "--print-config"])
        .env("MAINSTAY_WORKERS", "0");
    let (code, printed, said) = output(&mut command).await;
    assert_eq!((code, printed.as_str()), (Some(2), ""), "{said}");
    for part in [
        "mainstay: 2 options",
        "--qps: \"x\"",
        "MAINSTAY_WORKERS (environment): \"0\"",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
}

#[tokio::test]
async fn the_configuration_is_printed_without_a_server_and_can_be_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.yaml");
    let (code, printed, said) =
        output(mainstay().args(["--lease-duration", "20", "--print-config"])).await;
    assert_eq!((code, said.as_str()), (Some(0), ""));
    assert!(
        printed.contains("\nleaseDuration: 20s # flag --lease-duration\n"),
        "{printed}"
    );
    std::fs::write(&file, &printed).unwrap();
    let (code, again, _) = output(
        mainstay()
            .env("MAINSTAY_CONFIG", &file)
            .arg("--print-config"),
    )
    .await;
    let line = printed
        .lines()
        .position(|line| line.starts_with("leaseDuration"))
        .unwrap()
        + 1;
    let expected = format!("\nleaseDuration: 20s # {}:{line}\n", file.display());
    assert!(code == Some(0) && again.contains(&expected), "{again}");
}

const TOKEN: &str = "a-token-that-nobody-may-see";

/// A server that wants the token, and a kubeconfig that has it.
async fn server(folder: &Path) -> ApiServer {
    let me = mainstay::apiserver::Client::admin("me");
    let server = ApiServer::new(ApiServerOptions {
        tokens: [(TOKEN.to_owned(), me)].into(),
        ..ApiServerOptions::default()
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = json!({
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": format!("http://{}", listener.local_addr().unwrap())}}],
        "users": [{"name": "me", "user": {"token": TOKEN}}],
    });
    std::fs::write(folder.join("kubeconfig"), config.to_string()).unwrap();
    let serving = server.clone();
    tokio::spawn(async move { serving.serve(listener, None, std::future::pending()).await });
    server
}

async fn put_log(address: SocketAddr, filter: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "PUT /debug/log HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{filter}",
        filter.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The lines up to one that holds all these words.
async fn until(lines: &mut UnboundedReceiver<String>, words: &[&str]) -> Vec<String> {
    let mut seen = Vec::new();
    let found = async {
        while let Some(line) = lines.recv().await {
            let found = words.iter().all(|word| line.contains(word));
            seen.push(line);
            if found {
                return;
            }
        }
        panic!("it ended");
    };
    let ended = tokio::time::timeout(LIMIT, found).await;
    assert!(ended.is_ok(), "{words:?} in {seen:#?}");
    seen
}

#[tokio::test]
async fn the_log_filter_changes_while_it_runs_and_no_line_holds_the_token() {
    let folder = tempfile::tempdir().unwrap();
    let _server = server(folder.path()).await;
    let file = folder.path().join("config.yaml");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let config = |log: &str| {
        let text = format!("listen: {address}\nlogFormat: json\nlog: {log}\n");
        std::fs::write(&file, text).unwrap();
    };
    config("info");
    let mut command = mainstay();
    command.arg("--config").arg(&file);
    command
        .arg("--kubeconfig")
        .arg(folder.path().join("kubeconfig"));
    let mut operator = command.spawn().unwrap();
    let process = i32::try_from(operator.id().unwrap()).unwrap();
    let hang_up = || {
        let process = nix::unistd::Pid::from_raw(process);
        nix::sys::signal::kill(process, nix::sys::signal::Signal::SIGHUP).unwrap();
    };
    let (sender, mut lines) = unbounded_channel();
    let mut stderr = BufReader::new(operator.stderr.take().unwrap()).lines();
    tokio::spawn(async move {
        while let Ok(Some(line)) = stderr.next_line().await {
            let _ = sender.send(line);
        }
    });

    let mut all = until(
        &mut lines,
        &["options that differ", "log-format=json", "config.yaml:2"],
    )
    .await;
    all.extend(until(&mut lines, &["\"started\""]).await);
    let answer = put_log(address, "trace").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\ntrace\n"),
        "{answer}"
    );
    all.extend(until(&mut lines, &["TRACE"]).await);
    let answer = put_log(address, "mainstay=loud").await;
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("is no log filter"),
        "{answer}"
    );

    config("mainstay=loud");
    hang_up();
    all.extend(
        until(
            &mut lines,
            &[
                "SIGHUP",
                "the log filter stays",
                "config.yaml:3",
                "mainstay=loud",
            ],
        )
        .await,
    );
    config("info,mainstay=debug");
    hang_up();
    all.extend(until(&mut lines, &["SIGHUP", "read again", "info,mainstay=debug"]).await);
    assert!(all.iter().all(|line| !line.contains(TOKEN)), "{all:#?}");
}
