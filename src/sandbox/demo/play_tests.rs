use std::sync::{Mutex, MutexGuard};

use super::super::script::parse;
use super::super::snapshot::{ClusterView, Rates};
use super::*;

/// A stage where an action takes effect two seconds after it was done.
struct Slow {
    begun: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    snapshot: Snapshot,
    /// When the primary becomes another.
    moves_at: Option<Instant>,
    copies: Vec<Copy>,
    acted: Vec<Action>,
}

impl Slow {
    fn new() -> Self {
        let snapshot = Snapshot {
            mysql: "modelled".into(),
            cluster: ClusterView {
                name: "demo".into(),
                phase: "Running".into(),
                ready: "3/3".into(),
                wanted: 3,
                primary: "demo-0".into(),
                version: "9.7.4".into(),
                ..ClusterView::default()
            },
            rates: Rates {
                writing: true,
                acknowledged: 77,
                pause: Some(Duration::from_millis(5)),
                ..Rates::default()
            },
            ..Snapshot::default()
        };
        let inner = Inner {
            snapshot,
            copies: vec![Copy {
                pod: "demo-0".into(),
                missing: Ok([].into_iter().collect()),
            }],
            ..Inner::default()
        };
        Self {
            begun: Instant::now(),
            inner: Mutex::new(inner),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap()
    }
}

impl Stage for Slow {
    fn snapshot(&self) -> Snapshot {
        let mut inner = self.lock();
        inner.snapshot.age = self.begun.elapsed();
        if inner.moves_at.is_some_and(|at| at <= Instant::now()) {
            inner.snapshot.cluster.primary = "demo-1".into();
        }
        inner.snapshot.clone()
    }

    async fn act(&self, action: &Action) -> Result<Acted, String> {
        let mut inner = self.lock();
        inner.acted.push(action.clone());
        if *action == Action::KillLeader {
            return Err("nobody leads".into());
        }
        inner.moves_at = Some(Instant::now() + Duration::from_secs(2));
        Ok(Acted {
            subject: "demo-0".into(),
            until: Some(Until::AnotherPrimary {
                than: "demo-0".into(),
            }),
        })
    }

    fn mark(&self) {}

    fn pause(&self) -> Option<Duration> {
        Some(Duration::from_millis(1840))
    }

    async fn copies(&self) -> Vec<Copy> {
        self.lock().copies.clone()
    }
}

async fn played(text: &str, stage: &Slow) -> Summary {
    play(&parse("f", text).unwrap(), stage).await
}

#[tokio::test(start_paused = true)]
async fn an_action_is_measured_until_all_is_well_after_it() {
    let stage = Slow::new();
    let script = "sleep 1s\nwait ready 3\nswitchover\nwait ready\nexpect primary moved\nexpect lost 0\nexpect pause under 2s";
    let summary = played(script, &stage).await;
    assert!(summary.held(), "{summary}");
    assert_eq!(summary.ready, Some(Duration::from_secs(1)));
    assert_eq!(
        (summary.acknowledged, summary.mysql.as_str()),
        (77, "9.7.4 modelled")
    );
    let [trial] = summary.trials.as_slice() else {
        panic!("{summary}")
    };
    assert_eq!(
        (trial.before.as_str(), trial.after.as_str()),
        ("demo-0", "demo-1")
    );
    assert_eq!(trial.pause, Some(Duration::from_millis(1840)));
    let took = trial.ready.unwrap();
    assert!(
        took >= Duration::from_secs(2) && took < Duration::from_millis(2100),
        "{took:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_ends_the_script_and_is_named() {
    for (script, failure) in [
        ("\nkill leader\nload on", "f:2: kill leader: nobody leads"),
        (
            "switchover\nwait ready within 1s",
            "f:2: wait ready within 1s: not within 1.00 s: waiting for another primary",
        ),
        (
            "wait ready 5 within 1s",
            "f:1: wait ready 5 within 1s: not within 1.00 s: the spec asks for 3 instances",
        ),
        (
            "switchover\nexpect primary moved",
            "f:2: expect primary moved: the primary is still demo-0",
        ),
        (
            "expect pause under 1s",
            "f:1: expect pause under 1s: no row was acknowledged for 1.84 s",
        ),
    ] {
        let stage = Slow::new();
        let summary = played(script, &stage).await;
        assert_eq!(summary.failure.as_deref(), Some(failure));
        assert!(!summary.held());
        assert!(!stage.lock().acted.contains(&Action::Load(true)));
        assert!(
            !summary.copies.is_empty(),
            "rows are looked for all the same"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_well_while_writes_are_stuck_or_rows_are_missing() {
    let stage = Slow::new();
    stage.lock().snapshot.rates.pause = Some(Duration::from_secs(3));
    let stuck = played("wait ready within 1s", &stage)
        .await
        .failure
        .unwrap();
    assert!(
        stuck.ends_with("no row was acknowledged for 3.00 s"),
        "{stuck}"
    );

    let stage = Slow::new();
    stage.lock().copies[0].missing = Ok([9].into_iter().collect());
    let lost = played("wait ready\nexpect lost 0", &stage)
        .await
        .failure
        .unwrap();
    assert_eq!(lost, "f:2: expect lost 0: demo-0 lacks 1 rows: 9");
    stage.lock().copies[0].missing = Err("no server".into());
    let unknown = played("wait ready\nexpect lost 0", &stage)
        .await
        .failure
        .unwrap();
    assert!(
        unknown.ends_with("what demo-0 lacks is not known: no server"),
        "{unknown}"
    );
}
