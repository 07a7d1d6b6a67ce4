//! `mainstay run --context … --namespace …` speaks to that server, about that namespace.

use std::process::Stdio;
use std::time::Duration;

use mainstay::apiserver::{ApiServer, ApiServerOptions};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;

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
            .kill_on_drop(true);
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

    let _operator = run("here").spawn().unwrap();
    let seen = async {
        loop {
            let audit = server.audit(0);
            let mut reads = audit
                .iter()
                .filter(|event| matches!(event.verb, "list" | "watch"));
            if reads.clone().any(|event| event.resource == "pods") {
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
