//! The operator, and its limits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client as Http;
use hyper_util::rt::TokioExecutor;
use tokio::process::{Child, Command};

use super::{KINDS, LIMIT, MAINSTAY, proc};

/// How long memory is left to settle.
pub(super) const SETTLE: Duration = Duration::from_secs(3);

/// A `mainstay run` that does not lead.
pub(super) struct Operator {
    child: Child,
    url: http::Uri,
}

impl Operator {
    pub(super) fn start(kubeconfig: &Path, group: Option<&ControlGroup>) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a port");
        let child = Command::new(MAINSTAY)
            .args(["run", "--listen", &port.to_string(), "--kubeconfig"])
            .arg(kubeconfig)
            .stderr(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("it starts");
        if let Some(group) = group {
            group.take(child.id().expect("it runs"));
        }
        let url = format!("http://{port}/metrics").parse().expect("a URL");
        Self { child, url }
    }

    /// Waits until it holds that many of each kind, and for its memory to settle; what is resident.
    pub(super) async fn settled(&self, counts: &BTreeMap<&'static str, usize>) -> usize {
        let mut look = tokio::time::interval(Duration::from_millis(100));
        loop {
            look.tick().await;
            assert!(
                Path::new(&format!("/proc/{}/status", self.id())).exists(),
                "the operator is gone"
            );
            let Some(metrics) = self.metrics().await else {
                continue;
            };
            let holds = |(kind, count): (&&str, &usize)| {
                metrics.contains(&format!(
                    "mainstay_store_objects{{kind=\"{kind}\"}} {count}\n"
                ))
            };
            let lists = metrics.matches("mainstay_watch_lists_total{").count();
            if counts.iter().all(holds) && lists >= KINDS.len() {
                break;
            }
        }
        tokio::time::sleep(SETTLE).await;
        self.status("VmRSS")
    }

    async fn metrics(&self) -> Option<String> {
        let http: Http<_, Empty<Bytes>> = Http::builder(TokioExecutor::new()).build_http();
        let answer = http.get(self.url.clone()).await.ok()?;
        let body = answer.into_body().collect().await.ok()?;
        String::from_utf8(body.to_bytes().to_vec()).ok()
    }

    fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// A line of its status that is in kB, in bytes.
    pub(super) fn status(&self, name: &str) -> usize {
        proc::status(&self.id().to_string(), name)
    }

    /// Its CPU so far, in seconds.
    pub(super) fn cpu(&self) -> f64 {
        proc::cpu(&self.id().to_string())
    }
}

/// The Deployment's limits: one CPU, 512 MiB.
pub(super) struct ControlGroup {
    /// Where processes are put in.
    doors: Vec<PathBuf>,
}

impl ControlGroup {
    /// Of the second version, or of the first.
    pub(super) fn make() -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let limit = LIMIT.to_string();
        let unified: &[(&str, &[(&str, &str)])] =
            &[("", &[("memory.max", &limit), ("cpu.max", "100000 100000")])];
        let separate: &[(&str, &[(&str, &str)])] = &[
            ("memory", &[("memory.limit_in_bytes", &limit)]),
            (
                "cpu",
                &[
                    ("cpu.cfs_period_us", "100000"),
                    ("cpu.cfs_quota_us", "100000"),
                ],
            ),
        ];
        let hierarchies = if root.join("cgroup.controllers").exists() {
            unified
        } else {
            separate
        };
        let mut doors = Vec::new();
        for (hierarchy, limits) in hierarchies {
            let group = root.join(hierarchy).join("mainstay-capacity");
            std::fs::create_dir_all(&group).ok()?;
            for (file, value) in *limits {
                std::fs::write(group.join(file), value).ok()?;
            }
            doors.push(group.join("cgroup.procs"));
        }
        Some(Self { doors })
    }

    fn take(&self, process: u32) {
        for door in &self.doors {
            std::fs::write(door, process.to_string()).expect("it joins the group");
        }
    }
}
