//! Our elector and client-go's on one Lease: each waits for the other, and takes over from it.
//!
//! Runs where `MAINSTAY_TEST_CLIENT_GO` names the elector that `tests/election/client-go` builds.

use std::process::Stdio;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mainstay::apiserver::{Access, ApiServer, ApiServerOptions};
use mainstay::client::{Client, ClientOptions, Config, ConfigSource, LEASE};
use mainstay::runtime::{ElectionOptions, Elector, Leadership, LeadershipWatch, Shutdown};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::net::TcpListener;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

const NAMESPACE: &str = "default";
const NAME: &str = "shared";
const LEASE_DURATION: Duration = Duration::from_secs(3);
const RENEW_DEADLINE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(300);
/// Nobody may lead sooner after another was killed: its last renewal was no older than [`RETRY`], and
/// client-go's electors look at times by whole steps of it.
const SURELY: Duration = Duration::from_millis(2400);
/// Longest wait for anything here.
const LIMIT: Duration = Duration::from_secs(20);

/// When a leadership began and ended, in Unix time.
type Reign = (String, Duration, Option<Duration>);

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

struct Scene {
    client: Client,
    kubeconfig: tempfile::NamedTempFile,
    elector: String,
    reigns: Vec<Reign>,
}

/// client-go's, a process of its own.
struct Theirs {
    identity: String,
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Ours.
struct Ours {
    leadership: LeadershipWatch,
    stop: Shutdown,
    task: JoinHandle<()>,
}

impl Scene {
    async fn new(elector: String) -> Self {
        let server = ApiServer::new(ApiServerOptions::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let access =
            Access::plain("election").kubeconfig(listener.local_addr().unwrap(), "me", NAMESPACE);
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&kubeconfig, access).unwrap();
        tokio::spawn(async move { server.serve(listener, None, std::future::pending()).await });
        let source = ConfigSource {
            kubeconfig: Some(kubeconfig.path().to_owned()),
            context: None,
        };
        let config = Config::load(&source).await.unwrap();
        Self {
            client: Client::new(config, ClientOptions::default()).unwrap(),
            kubeconfig,
            elector,
            reigns: Vec::new(),
        }
    }

    fn theirs(&self, identity: &str) -> Theirs {
        let spelt = |duration: Duration| format!("{}ms", duration.as_millis());
        let mut process = Command::new(&self.elector)
            .arg(self.kubeconfig.path())
            .args([NAMESPACE, NAME, identity])
            .args([LEASE_DURATION, RENEW_DEADLINE, RETRY].map(spelt))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Theirs {
            identity: identity.to_owned(),
            process,
            lines,
        }
    }

    fn ours(&self, identity: &str) -> Ours {
        let options = ElectionOptions {
            lease_duration: LEASE_DURATION,
            renew_deadline: RENEW_DEADLINE,
            renew_interval: RETRY,
            ..ElectionOptions::new(NAMESPACE, NAME, identity)
        };
        let lane = self.client.election_lane();
        let (elector, leadership, _) = Elector::new(lane, options).unwrap();
        let stop = Shutdown::new();
        let task = tokio::spawn(elector.run(stop.clone()));
        Ours {
            leadership,
            stop,
            task,
        }
    }

    async fn lease(&self) -> Value {
        let lease = self.client.get(LEASE, Some(NAMESPACE), NAME).await;
        lease.unwrap()
    }

    /// Waits until the Lease was renewed so often.
    async fn renewed(&self, times: usize) {
        let mut seen = Vec::new();
        let begun = Instant::now();
        while seen.len() <= times {
            assert!(begun.elapsed() < LIMIT, "it is not renewed");
            let renewed = self.lease().await["spec"]["renewTime"].clone();
            if seen.last() != Some(&renewed) {
                seen.push(renewed);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn leads(&mut self, who: &str, since: Duration) {
        self.reigns.push((who.to_owned(), since, None));
    }

    fn ended(&mut self, who: &str, at: Duration) {
        let reign = self.reigns.last_mut().unwrap();
        assert_eq!(reign.0, who);
        reign.2 = Some(at);
    }

    async fn transitions(&self) -> i64 {
        let lease = self.lease().await;
        lease["spec"]["leaseTransitions"].as_i64().unwrap_or(0)
    }
}

impl Theirs {
    /// Waits for this to be said; when it was.
    async fn says(&mut self, what: &str) -> Duration {
        let wait = async {
            loop {
                let line = self.lines.next_line().await.unwrap().expect("it has ended");
                let (nanos, said) = line.split_once(' ').unwrap();
                if said == what {
                    return Duration::from_nanos(nanos.parse().unwrap());
                }
            }
        };
        let said = timeout(LIMIT, wait).await;
        said.unwrap_or_else(|_| panic!("{} never says {what}", self.identity))
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.process.id().unwrap()).unwrap();
        kill(Pid::from_raw(id), signal).unwrap();
    }
}

impl Ours {
    async fn until(&mut self, wanted: impl Fn(&Leadership) -> bool) -> Duration {
        let wait = async {
            let mut state = self.leadership.current();
            while !wanted(&state) {
                state = self.leadership.changed().await;
            }
            now()
        };
        timeout(LIMIT, wait).await.expect("it never comes")
    }

    async fn leads(&mut self) -> Duration {
        self.until(|state| matches!(state, Leadership::Leader { .. }))
            .await
    }

    async fn follows(&mut self, whom: &str) {
        let standby = Leadership::Standby {
            holder: whom.to_owned(),
        };
        self.until(|state| *state == standby).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn client_gos_elector_and_ours_take_turns_on_one_lease() {
    let Ok(elector) = std::env::var("MAINSTAY_TEST_CLIENT_GO") else {
        println!("not run: MAINSTAY_TEST_CLIENT_GO names no elector (see tests/election)");
        return;
    };
    let mut scene = Scene::new(elector).await;

    // A live one is not disturbed.
    let mut first = scene.theirs("go-1");
    let since = first.says("leading").await;
    scene.leads("go-1", since);
    let mut ours = scene.ours("ours-1");
    ours.follows("go-1").await;
    scene.renewed(12).await;
    ours.follows("go-1").await;

    // Killed, it is waited for: the Lease's time from the last renewal on.
    first.signal(Signal::SIGKILL);
    let killed = now();
    scene.ended("go-1", killed);
    let since = ours.leads().await;
    println!(
        "took over from a killed client-go after {:?}",
        since.saturating_sub(killed)
    );
    assert!(
        since.saturating_sub(killed) > SURELY,
        "{:?}",
        since.saturating_sub(killed)
    );
    scene.leads("ours-1", since);
    assert_eq!(scene.transitions().await, 1);

    // Ours is not disturbed, and hands over when it stops.
    let mut second = scene.theirs("go-2");
    second.says("leader ours-1").await;
    scene.renewed(12).await;
    ours.leads().await;
    scene.ended("ours-1", now());
    ours.stop.trigger();
    let stopped = now();
    ours.task.await.unwrap();
    let since = second.says("leading").await;
    println!(
        "client-go took over from ours that stopped after {:?}",
        since.saturating_sub(stopped)
    );
    assert!(
        since.saturating_sub(stopped) < LEASE_DURATION / 2,
        "{:?}",
        since.saturating_sub(stopped)
    );
    scene.leads("go-2", since);

    // So does client-go's.
    let mut ours = scene.ours("ours-2");
    ours.follows("go-2").await;
    second.signal(Signal::SIGTERM);
    let stopped = now();
    let since = ours.leads().await;
    let lost = second.says("lost").await;
    println!(
        "took over from client-go that stopped after {:?}",
        since.saturating_sub(stopped)
    );
    assert!(
        since.saturating_sub(stopped) < LEASE_DURATION / 2,
        "{:?}",
        since.saturating_sub(stopped)
    );
    // It releases the Lease and then says so, which may cross with ours: what it did ended before.
    scene.ended("go-2", lost.min(since));
    scene.leads("ours-2", since);

    // Ours dies; client-go's waits for it.
    let mut third = scene.theirs("go-3");
    third.says("leader ours-2").await;
    ours.task.abort();
    let killed = now();
    scene.ended("ours-2", killed);
    let since = third.says("leading").await;
    println!(
        "client-go took over from ours that died after {:?}",
        since.saturating_sub(killed)
    );
    assert!(
        since.saturating_sub(killed) > SURELY,
        "{:?}",
        since.saturating_sub(killed)
    );
    scene.leads("go-3", since);
    assert_eq!(scene.transitions().await, 4, "each counted, by both");

    for pair in scene.reigns.windows(2) {
        assert!(pair[0].2.unwrap() <= pair[1].1, "two led: {pair:?}");
    }
}
