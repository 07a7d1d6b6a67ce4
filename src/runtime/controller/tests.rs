use super::*;
use crate::client::testing::{FakeServer, Reply};
use crate::runtime::queue::Priority;
use crate::runtime::telemetry::Telemetry;
use std::sync::Mutex;
use tokio::sync::Notify;

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("ns", name)
}

/// Behaves as the key's name says and notes its runs.
#[derive(Default)]
struct Scripted {
    runs: Mutex<Vec<(String, Instant)>>,
    stalls: Mutex<Vec<(String, String, Instant)>>,
    hang: Notify,
}

impl Scripted {
    fn runs(&self, name: &str) -> Vec<Instant> {
        let runs = self.runs.lock().unwrap();
        runs.iter()
            .filter(|(run, _)| run == name)
            .map(|(_, at)| *at)
            .collect()
    }
}

impl Reconciler for Scripted {
    async fn reconcile(&self, key: &ObjectKey) -> Result<Outcome, ReconcileError> {
        let name = key.name.to_string();
        self.runs
            .lock()
            .unwrap()
            .push((name.clone(), Instant::now()));
        match name.as_str() {
            "requeue" => Ok(Outcome::RequeueAfter(Duration::from_secs(10))),
            "transient" => Err(ReconcileError::Transient("not now".to_owned())),
            "permanent" => Err(ReconcileError::Permanent("never".to_owned())),
            "panic" => panic!("seen in a test"),
            "slow" => {
                tokio::time::sleep(Duration::from_secs(8)).await;
                Ok(Outcome::Done)
            }
            "hang" => {
                self.hang.notified().await;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }

    async fn stalled(&self, key: &ObjectKey, why: &str) {
        let stall = (key.name.to_string(), why.to_owned(), Instant::now());
        self.stalls.lock().unwrap().push(stall);
        assert!(&*key.name != "panic", "contained as well");
    }
}

struct Fixture {
    queue: Queue,
    reconciler: Arc<Scripted>,
    shutdown: Shutdown,
    health: Health,
    run: tokio::task::JoinHandle<usize>,
}

fn start(workers: usize, grace: Duration) -> Fixture {
    let queue = Queue::new("test", &Environment::system());
    let reconciler = Arc::new(Scripted::default());
    let (shutdown, health) = (Shutdown::new(), Health::new());
    let options = ControllerOptions {
        workers,
        deadline: Duration::from_secs(30),
        ..ControllerOptions::default()
    };
    let controller = Controller::new("test", queue.clone(), Arc::clone(&reconciler), options);
    let run = tokio::spawn(controller.with_health(&health).run(shutdown.clone(), grace));
    Fixture {
        queue,
        reconciler,
        shutdown,
        health,
        run,
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_a_failure_and_a_requeue_concern_their_key_only() {
    let test = start(2, Duration::from_secs(1));
    for name in ["panic", "transient", "permanent", "requeue", "fine"] {
        test.queue.add(key(name), Priority::Normal);
    }
    tokio::time::sleep(Duration::from_secs(25)).await;
    assert_eq!(test.reconciler.runs("fine").len(), 1);
    assert_eq!(test.reconciler.runs("permanent").len(), 1);
    assert_eq!(
        test.reconciler.runs("requeue").len(),
        3,
        "at 0, 10 and 20 s"
    );
    // 5 ms · 2ⁿ, full jitter: the sum of the longest passes 25 s with the 13th.
    for failing in ["panic", "transient"] {
        let runs = test.reconciler.runs(failing).len();
        assert!(runs >= 12, "{failing}: {runs}");
    }
    test.shutdown.trigger();
    test.run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_runs_go_on_failing_is_told_and_tried_now_and_then() {
    let test = start(4, Duration::from_secs(1));
    let begun = Instant::now();
    for name in ["panic", "transient", "permanent", "hang", "fine"] {
        test.queue.add(key(name), Priority::Normal);
    }
    tokio::time::sleep(Duration::from_hours(3)).await;
    let stalls = |of: &str| -> Vec<(String, Duration)> {
        let stalls = test.reconciler.stalls.lock().unwrap();
        let of = stalls.iter().filter(|(name, ..)| name == of);
        of.map(|(_, why, at)| (why.clone(), *at - begun)).collect()
    };
    for (failing, why) in [
        ("transient", ": not now"),
        ("panic", ": a reconcile panicked: seen in a test"),
        ("hang", ": a reconcile took longer than 30s"),
    ] {
        let stalls = stalls(failing);
        let (said, first) = &stalls[0];
        assert!(said.ends_with(why), "{said}");
        assert!(
            (10..27).contains(&(first.as_secs() / 60)),
            "{failing}: {first:?}"
        );
        // Ten minutes of backoff, then none is longer than 16 min.
        let runs = test.reconciler.runs(failing);
        let gap = |runs: &[Instant]| runs[1] - runs[0];
        let longest = runs.windows(2).map(gap).max().unwrap();
        assert!(longest < Duration::from_mins(17), "{failing}: {longest:?}");
        assert!(
            stalls.len() >= 9 && runs.len() < 60,
            "{failing}: {}",
            runs.len()
        );
    }
    assert_eq!(stalls("permanent").len(), 1, "at once, and once");
    assert!(stalls("permanent")[0].1 < Duration::from_secs(1));
    assert!(stalls("fine").is_empty());

    // What is stalled wakes on a change.
    let runs = test.reconciler.runs("transient").len();
    test.queue.add(key("transient"), Priority::Normal);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(test.reconciler.runs("transient").len(), runs + 1);
    assert_eq!(test.queue.failing_for(&key("fine")), None);
    test.shutdown.trigger();
    test.run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_run_ends_at_its_deadline_and_is_tried_again() {
    let test = start(1, Duration::from_secs(1));
    test.queue.add(key("hang"), Priority::Normal);
    test.queue.add(key("fine"), Priority::Normal);
    let begun = Instant::now();
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert_eq!(test.reconciler.runs("hang").len(), 2);
    assert_eq!((test.reconciler.runs("fine")[0] - begun).as_secs(), 30);
    assert!(test.health.live().healthy);
    test.shutdown.trigger();
    test.run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_running_reconciles_finish_and_takes_no_new_key() {
    let test = start(1, Duration::from_secs(20));
    test.queue.add(key("slow"), Priority::High);
    test.queue.add(key("fine"), Priority::Low);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    test.shutdown.trigger();
    assert_eq!(test.run.await.unwrap(), 1, "the key that was not begun");
    assert_eq!(begun.elapsed().as_secs(), 7);
    assert!(test.reconciler.runs("fine").is_empty());
}

#[tokio::test(start_paused = true)]
async fn cilium_42920_a_run_that_does_not_end_does_not_hold_up_shutdown() {
    let test = start(2, Duration::from_secs(5));
    test.queue.add(key("hang"), Priority::High);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();
    test.shutdown.trigger();
    assert_eq!(test.run.await.unwrap(), 1);
    assert_eq!(begun.elapsed().as_secs(), 5);
}

#[tokio::test(start_paused = true)]
async fn results_are_counted() {
    let (telemetry, recorder) = Telemetry::detached().unwrap();
    let guard = metrics::set_default_local_recorder(&recorder);
    let test = start(1, Duration::from_secs(1));
    for name in ["panic", "permanent", "requeue", "fine"] {
        test.queue.add(key(name), Priority::Normal);
    }
    // The panicking key runs again within its first backoff of 5 ms; not at the same instant.
    while test.reconciler.runs("fine").is_empty() {
        tokio::task::yield_now().await;
    }
    test.shutdown.trigger();
    test.run.await.unwrap();
    drop(guard);
    let rendered = telemetry.render();
    for result in ["panic", "permanent", "requeue", "done"] {
        let line = format!(r#"reconcile_total{{controller="test",result="{result}"}} 1"#);
        assert!(rendered.contains(&line), "{line} in {rendered}");
    }
    assert!(rendered.contains(r#"reconcile_duration_seconds_count{controller="test"} 4"#));
}

#[test]
fn errors_of_the_client_decide_when_to_try_again() {
    let what = || "PATCH x".to_owned();
    let conflict = client::Error::Conflict {
        what: what(),
        message: String::new(),
    };
    assert!(matches!(conflict.into(), ReconcileError::Conflict(_)));
    let invalid = client::Error::Invalid {
        what: what(),
        code: 422,
        message: String::new(),
    };
    assert!(matches!(invalid.into(), ReconcileError::Permanent(_)));
    let fenced = client::Error::Fenced { what: what() };
    assert!(matches!(fenced.into(), ReconcileError::Interrupted(_)));
    let open = client::Error::BreakerOpen { what: what() };
    assert!(matches!(open.into(), ReconcileError::Interrupted(_)));
}

#[tokio::test(start_paused = true)]
async fn no_reconcile_starts_while_the_breaker_is_open_and_keys_go_on_coalescing() {
    let server = FakeServer::new(|_| Reply::json("{}"));
    server.refuse(usize::MAX);
    let client = server.client();
    let queue = Queue::new("test", client.environment());
    let reconciler = Arc::new(Scripted::default());
    let options = ControllerOptions {
        workers: 4,
        deadline: Duration::from_mins(2),
        environment: client.environment().clone(),
        ..ControllerOptions::default()
    };
    let controller = Controller::new("test", queue.clone(), Arc::clone(&reconciler), options)
        .with_breaker(client.breaker());
    let shutdown = Shutdown::new();
    let run = tokio::spawn(controller.run(shutdown.clone(), Duration::ZERO));
    let mut breaker = client.breaker().unwrap();
    tokio::select! {
        _ = client.get::<serde_json::Value>(client::POD, Some("ns"), "a") => panic!("answered"),
        state = breaker.changed_from(BreakerState::Closed) => assert_eq!(state, BreakerState::Open),
    }
    tokio::task::yield_now().await;
    let opened = Instant::now();
    for _ in 0..10 {
        queue.add(key("a"), Priority::High);
    }
    breaker.not_open().await;
    while reconciler.runs("a").is_empty() {
        tokio::task::yield_now().await;
    }
    let pause = reconciler.runs("a")[0] - opened;
    assert!(
        pause > Duration::from_millis(900) && pause < Duration::from_millis(1300),
        "when it may try again: {pause:?}"
    );
    shutdown.trigger();
    run.await.unwrap();
    assert_eq!(reconciler.runs("a").len(), 1, "once");
}

#[tokio::test(start_paused = true)]
async fn changes_within_the_window_run_once_at_its_end_and_the_spec_waits_for_none() {
    let queue = Queue::new("test", &Environment::system());
    let reconciler = Arc::new(Scripted::default());
    let options = ControllerOptions {
        window: Duration::from_secs(5),
        ..ControllerOptions::default()
    };
    let controller = Controller::new("test", queue.clone(), Arc::clone(&reconciler), options);
    let shutdown = Shutdown::new();
    let run = tokio::spawn(controller.run(shutdown.clone(), Duration::ZERO));
    let begun = Instant::now();
    for tenth in 0..120_u64 {
        let priority = if tenth == 80 {
            Priority::High
        } else {
            Priority::Normal
        };
        queue.add(key("a"), priority);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    let runs = reconciler.runs("a").into_iter();
    let runs: Vec<_> = runs.map(|at| (at - begun).as_secs()).collect();
    assert_eq!(runs, [0, 5, 8, 13]);
    shutdown.trigger();
    run.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_failing_key_backs_off_within_the_bounds_that_are_asked_for() {
    let queue = Queue::new("test", &Environment::system());
    let reconciler = Arc::new(Scripted::default());
    let options = ControllerOptions {
        backoff_initial: Duration::from_millis(5),
        backoff_max: Duration::from_millis(20),
        ..ControllerOptions::default()
    };
    let controller = Controller::new("test", queue.clone(), Arc::clone(&reconciler), options);
    let shutdown = Shutdown::new();
    let run = tokio::spawn(controller.run(shutdown.clone(), Duration::ZERO));
    queue.add(key("transient"), Priority::Normal);
    tokio::time::sleep(Duration::from_secs(10)).await;
    shutdown.trigger();
    run.await.unwrap();
    let runs = reconciler.runs("transient").len();
    assert!(runs >= 400, "{runs} in 10 s, at most 21 ms apart");
}
