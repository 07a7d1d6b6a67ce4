use super::*;
use crate::client::Jitter;
use crate::runtime::election::testing::Server;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::time::sleep;

/// A way to the server that can be slow, cut, or cut behind the request.
#[derive(Clone, Default)]
struct Link {
    server: Arc<Mutex<Server>>,
    dead: Arc<AtomicBool>,
    answers_lost: Arc<AtomicBool>,
    delay_ms: Arc<AtomicU64>,
    /// The former version's lock, and how often it was looked at.
    legacy: Arc<Mutex<(Option<Value>, u32)>>,
    /// Who has ended.
    ended: Arc<Mutex<Vec<String>>>,
}

impl LeaseApi for Link {
    async fn send(&self, request: &Request) -> Result<Lease, Error> {
        if self.dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let answer = self.server.lock().unwrap().handle(request);
        sleep(Duration::from_millis(self.delay_ms.load(Ordering::Relaxed))).await;
        if self.answers_lost.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        answer
    }

    async fn legacy(&self, _: &LegacyLock) -> Result<Option<Value>, Error> {
        let mut legacy = self.legacy.lock().unwrap();
        legacy.1 += 1;
        Ok(legacy.0.clone())
    }

    async fn has_ended(&self, holder: &str) -> bool {
        if self.dead.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        self.ended.lock().unwrap().iter().any(|gone| gone == holder)
    }
}

struct Node {
    link: Link,
    watch: LeadershipWatch,
    fence: Fence,
    shutdown: Shutdown,
    status: Arc<Status>,
    task: tokio::task::JoinHandle<()>,
}

fn node(server: &Arc<Mutex<Server>>, identity: &str) -> Node {
    node_with(server, ElectionOptions::new("ns", "a", identity))
}

fn node_with(server: &Arc<Mutex<Server>>, options: ElectionOptions) -> Node {
    let link = Link {
        server: Arc::clone(server),
        ..Link::default()
    };
    let (desk, watch, fence) = Desk::new();
    let shutdown = Shutdown::new();
    let status = Arc::clone(&desk.status);
    let (api, stop) = (link.clone(), shutdown.clone());
    let task = tokio::spawn(async move {
        let machine = Machine::new(options.clone(), Jitter::seeded(1), Instant::now());
        let environment = Environment::system();
        run(&api, machine, &options, &environment, desk, &stop).await;
    });
    Node {
        link,
        watch,
        fence,
        shutdown,
        status,
        task,
    }
}

impl Node {
    fn leads(&self) -> bool {
        matches!(self.watch.current(), Leadership::Leader { .. })
    }

    fn may_write(&self) -> bool {
        self.fence.permits(Instant::now())
    }
}

/// Polls every 10 ms until `condition`; how long that took.
async fn until_true(limit: Duration, mut condition: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < limit, "not within {limit:?}");
        sleep(Duration::from_millis(10)).await;
    }
    begun.elapsed()
}

async fn two() -> (Node, Node) {
    let server = Arc::new(Mutex::new(Server::default()));
    let a = node(&server, "a");
    until_true(Duration::from_secs(1), || a.leads()).await;
    let b = node(&server, "b");
    let mut watch = b.watch.clone();
    assert_eq!(
        watch.changed().await,
        Leadership::Standby {
            holder: "a".to_owned()
        }
    );
    assert!(b.status.readiness().unwrap().contains("the lease names a"));
    (a, b)
}

#[tokio::test(start_paused = true)]
async fn nobody_leads_while_replicas_of_a_former_version_hold_their_lock() {
    let server = Arc::new(Mutex::new(Server::default()));
    let options = ElectionOptions {
        migrate_from: Some("configmaps/mainstay".parse().unwrap()),
        ..ElectionOptions::new("ns", "a", "new")
    };
    let record = |renewed: u32| {
        let record = format!(
            r#"{{"holderIdentity": "old", "leaseDurationSeconds": 15, "renewTime": "{renewed}"}}"#
        );
        json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": record}}})
    };
    let node = node_with(&server, options);
    // Before its first look.
    node.link.legacy.lock().unwrap().0 = Some(record(0));
    for renewed in 1..60 {
        sleep(Duration::from_secs(1)).await;
        assert!(!node.leads(), "after {renewed} s");
        node.link.legacy.lock().unwrap().0 = Some(record(renewed));
    }
    let why = node.status.debug()["error"].to_string();
    assert!(why.contains("configmaps/mainstay: old"), "{why}");
    // It ends.
    let took = until_true(Duration::from_secs(20), || node.leads()).await;
    assert!((14..17).contains(&took.as_secs()), "{took:?}");
    // From then on it is not asked for.
    let looks = node.link.legacy.lock().unwrap().1;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(node.link.legacy.lock().unwrap().1, looks);
    assert_eq!(node.watch.current(), Leadership::Leader { term: 1 });
    node.shutdown.trigger();
    node.task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_pod_is_seen_to_have_ended_is_replaced_at_once() {
    for seen in [true, false] {
        let (a, b) = two().await;
        a.task.abort();
        if seen {
            b.link.ended.lock().unwrap().push("a".to_owned());
        }
        let took = until_true(Duration::from_secs(20), || b.leads()).await;
        let expected = if seen { 2..5 } else { 14..17 };
        assert!(expected.contains(&took.as_secs()), "{seen}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_stops_hands_over_within_one_look() {
    let (a, b) = two().await;
    a.shutdown.trigger();
    a.task.await.unwrap();
    assert!(!a.fence.permits(Instant::now()));
    let took = until_true(Duration::from_secs(3), || b.leads()).await;
    assert!(took <= Duration::from_millis(1300), "{took:?}");
    assert_eq!(b.watch.current(), Leadership::Leader { term: 2 });
}

#[tokio::test(start_paused = true)]
async fn cr_2719_a_standby_that_stops_never_leads_and_leaves_the_lease_alone() {
    let (a, mut b) = two().await;
    let before = a.link.server.lock().unwrap().lease.clone().unwrap().spec;
    b.shutdown.trigger();
    (&mut b.task).await.unwrap();
    assert!(!b.leads() && !b.may_write());
    assert_eq!(
        a.link.server.lock().unwrap().lease.clone().unwrap().spec,
        before
    );
}

#[tokio::test(start_paused = true)]
async fn k8s_125530_a_leader_on_a_dead_link_stops_before_another_starts() {
    let (a, b) = two().await;
    a.link.dead.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    let stopped = until_true(Duration::from_secs(20), || !a.leads()).await;
    assert!(
        stopped <= Duration::from_millis(10_100),
        "the renew deadline: {stopped:?}"
    );
    until_true(Duration::from_secs(20), || !a.may_write()).await;
    let fenced = begun.elapsed();
    assert!(fenced <= Duration::from_millis(12_600), "{fenced:?}");
    until_true(Duration::from_secs(20), || b.may_write()).await;
    let taken = begun.elapsed();
    assert!(taken > fenced + Duration::from_secs(1));
    assert!(
        taken <= Duration::from_millis(16_300),
        "expiry and one look: {taken:?}"
    );
    // The link heals: the old leader sees the new one and stands by.
    a.link.dead.store(false, Ordering::Relaxed);
    sleep(Duration::from_secs(10)).await;
    assert_eq!(
        a.watch.current(),
        Leadership::Standby {
            holder: "b".to_owned()
        }
    );
    assert!(b.leads() && !a.may_write());
}

#[tokio::test(start_paused = true)]
async fn linkerd2_15506_an_api_outage_ends_no_elector() {
    let (a, b) = two().await;
    for node in [&a, &b] {
        node.link.dead.store(true, Ordering::Relaxed);
    }
    sleep(Duration::from_hours(1)).await;
    assert!(!a.leads() && !b.leads() && !a.may_write() && !b.may_write());
    assert!(a.status.liveness().is_ok(), "it tries");
    assert!(a.status.readiness().unwrap().contains("no answer within"));
    for node in [&a, &b] {
        node.link.dead.store(false, Ordering::Relaxed);
    }
    until_true(Duration::from_secs(25), || a.leads() || b.leads()).await;
    assert!(!a.task.is_finished() && !b.task.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_release_follows_a_renewal_whose_answer_is_out() {
    let (a, b) = two().await;
    a.link.answers_lost.store(true, Ordering::Relaxed);
    // A renewal is on the server, its answer is not here: the release must read first.
    sleep(Duration::from_millis(1500)).await;
    a.link.answers_lost.store(false, Ordering::Relaxed);
    a.shutdown.trigger();
    a.task.await.unwrap();
    until_true(Duration::from_millis(1300), || b.leads()).await;
}

#[tokio::test(start_paused = true)]
async fn a_stop_without_a_server_is_bounded() {
    let (a, _b) = two().await;
    a.link.dead.store(true, Ordering::Relaxed);
    let begun = Instant::now();
    a.shutdown.trigger();
    a.task.await.unwrap();
    assert!(begun.elapsed() <= REQUEST_LIMIT);
}

#[tokio::test(start_paused = true)]
async fn renewals_are_no_change_and_a_raised_term_is() {
    let (a, _b) = two().await;
    let mut watch = a.watch.clone();
    watch.changed().await;
    assert!(
        timeout(Duration::from_mins(1), watch.changed())
            .await
            .is_err()
    );
    a.watch.raise_term(7);
    let changed = timeout(Duration::from_millis(1), watch.changed())
        .await
        .unwrap();
    assert_eq!(changed, Leadership::Leader { term: 7 });
    let spec = a.link.server.lock().unwrap().lease.clone().unwrap().spec;
    assert_eq!(spec.transitions(), 6);
}

#[tokio::test(start_paused = true)]
async fn slow_answers_within_the_deadline_keep_the_lead() {
    let (a, b) = two().await;
    a.link.delay_ms.store(4500, Ordering::Relaxed);
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        assert!(a.leads() && !b.may_write());
    }
}
