//! One instance manager: a process, what it answers, its mysqld.

use std::{
    path::{Path, PathBuf},
    process::Child,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use mainstay::{
    instance::{Command, CommandError, Follow, InstancePhase, InstanceStatus, TERM_HEADER},
    mysql::ServerState,
};
use mysql_async::{Conn, OptsBuilder, prelude::Queryable as _};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::harness::{APP, Cluster, LIMIT, MANAGER_PORT, MYSQL_PORT, TOKEN, until};

/// The command to follow `source`.
pub(crate) fn follow(source: &Instance) -> Command {
    Command::Follow(Follow {
        source_host: source.host.clone(),
        acknowledge: true,
    })
}

/// A session over the network.
pub(crate) async fn connect(host: &str, user: &str, password: &str) -> mysql_async::Result<Conn> {
    let options = OptsBuilder::default()
        .ip_or_hostname(host)
        .tcp_port(MYSQL_PORT)
        .prefer_socket(false)
        .user(Some(user))
        .pass(Some(password));
    Conn::new(options).await
}

/// A manager process.
pub(crate) struct Instance {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) host: String,
    pub(crate) run: PathBuf,
    pub(crate) volume: PathBuf,
    pub(crate) process: Child,
}

impl Instance {
    fn request(&self, path: &str) -> http::request::Builder {
        Request::builder()
            .uri(format!("https://{}:{MANAGER_PORT}{path}", self.host))
            .header(header::AUTHORIZATION, format!("Bearer {TOKEN}"))
    }

    /// Code and body of a request; `None` where there is no answer.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>) -> Option<(StatusCode, Bytes)> {
        let answer = self.cluster.http.request(request).await.ok()?;
        let code = answer.status();
        Some((code, answer.into_body().collect().await.ok()?.to_bytes()))
    }

    pub(crate) async fn get(&self, path: &str) -> Option<(StatusCode, Bytes)> {
        self.send(self.request(path).body(Full::default()).unwrap())
            .await
    }

    pub(crate) async fn get_without_token(&self, path: &str) -> Option<(StatusCode, Bytes)> {
        let url = format!("https://{}:{MANAGER_PORT}{path}", self.host);
        self.send(Request::get(url).body(Full::default()).unwrap())
            .await
    }

    /// Begins to watch.
    pub(crate) async fn watch(&self) -> Watch {
        let request = self.request("/v1/watch").body(Full::default()).unwrap();
        let answer = self.cluster.http.request(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        Watch {
            body: answer.into_body(),
            read: Vec::new(),
        }
    }

    /// How many file descriptors the manager has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.process.id()))
            .unwrap()
            .count()
    }

    pub(crate) async fn status(&self) -> Option<InstanceStatus> {
        let (_, body) = self.get("/v1/status").await?;
        serde_json::from_slice(&body).ok()
    }

    /// Waits for a status that satisfies `is`.
    pub(crate) async fn status_when(
        &self,
        what: &str,
        is: impl Fn(&InstanceStatus) -> bool,
    ) -> InstanceStatus {
        until(&format!("{}: {what}", self.host), || async {
            self.status().await.filter(|status| is(status))
        })
        .await
    }

    pub(crate) async fn running(&self) -> InstanceStatus {
        self.status_when("running", |status| {
            status.phase == InstancePhase::Running && status.server.is_some()
        })
        .await
    }

    pub(crate) async fn server(&self) -> ServerState {
        self.running().await.server.unwrap()
    }

    pub(crate) async fn command(
        &self,
        term: u64,
        command: &Command,
    ) -> Result<InstanceStatus, CommandError> {
        let body = Full::from(serde_json::to_vec(command).unwrap());
        let request = self
            .request("/v1/command")
            .method("POST")
            .header(TERM_HEADER, term)
            .body(body);
        let (code, body) = self.send(request.unwrap()).await.expect("an answer");
        if code == StatusCode::OK {
            return Ok(serde_json::from_slice(&body).unwrap());
        }
        Err(serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{code}: {body:?}")))
    }

    pub(crate) async fn obey(&self, term: u64, command: Command) -> InstanceStatus {
        match self.command(term, &command).await {
            Ok(status) => status,
            Err(error) => panic!("{}: {command:?}: {error:?}", self.host),
        }
    }

    /// Waits until it has executed `set`, by the server's own judgement.
    pub(crate) async fn executed(&self, set: &str) {
        let mut root = self.root().await;
        let query = format!(
            "SELECT WAIT_FOR_EXECUTED_GTID_SET('{set}', {})",
            LIMIT.as_secs()
        );
        let reached: Option<u8> = root.query_first(query).await.unwrap();
        assert_eq!(reached, Some(0), "{} executes {set}", self.host);
        root.disconnect().await.unwrap();
    }

    pub(crate) async fn app(&self) -> mysql_async::Result<Conn> {
        connect(&self.host, "app", APP).await
    }

    /// A session as root over the socket.
    pub(crate) async fn root(&self) -> Conn {
        let socket = self.run.join("mysqld.sock");
        let options = OptsBuilder::default()
            .socket(socket.to_str())
            .user(Some("root"))
            .pass(Some("root-pw"));
        Conn::new(options).await.unwrap()
    }

    fn mysqld_pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.run.join("mysqld.pid")).ok()?;
        text.trim().parse().ok().map(Pid::from_raw)
    }

    pub(crate) fn signal_mysqld(&self, signal: Signal) {
        kill(self.mysqld_pid().expect("mysqld runs"), signal).unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().try_into().unwrap()), signal).unwrap();
    }

    /// Waits for the manager's end; its exit code.
    pub(crate) async fn ended(&mut self) -> Option<i32> {
        let process = std::sync::Mutex::new(&mut self.process);
        until("the manager ends", || async {
            process.lock().unwrap().try_wait().unwrap()
        })
        .await
        .code()
    }
}

/// A stream of statuses.
pub(crate) struct Watch {
    body: hyper::body::Incoming,
    read: Vec<u8>,
}

impl Watch {
    pub(crate) async fn next(&mut self) -> InstanceStatus {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).unwrap();
            }
            let frame = self
                .body
                .frame()
                .await
                .expect("a watch does not end")
                .unwrap();
            self.read.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    pub(crate) async fn next_where(
        &mut self,
        is: impl Fn(&InstanceStatus) -> bool,
    ) -> InstanceStatus {
        loop {
            let status = self.next().await;
            if is(&status) {
                return status;
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // As in a container, where the end of PID 1 is the end of all.
        let pid = self.mysqld_pid();
        let _ = self.process.kill();
        let _ = self.process.wait();
        if let Some(pid) = pid {
            let _ = kill(pid, Signal::SIGKILL);
            while Path::new(&format!("/proc/{pid}")).exists() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }
}
