//! What the probes ask: named checks that the parts of a process register.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::election::LeadershipWatch;
use super::logs::LogControl;
use super::server;
use super::shutdown::Shutdown;
use super::telemetry::Telemetry;
use crate::metric::Page;

/// One check of a probe. A closure is one.
pub trait Check: Send + Sync + 'static {
    /// `Ok` with a detail, or `Err` with why not. It reads what its part last noted and does nothing
    /// that takes time.
    fn check(&self) -> Result<String, String>;

    /// After how long a check that does not return counts as failed: something holds the lock that
    /// it waits for. The other checks are not held up by it.
    fn deadline(&self) -> Duration {
        Duration::from_millis(500)
    }
}

impl<F: Fn() -> Result<String, String> + Send + Sync + 'static> Check for F {
    fn check(&self) -> Result<String, String> {
        self()
    }
}

type Collector = dyn Fn() + Send + Sync;
type Exporter = dyn Fn(&mut Page) + Send + Sync;
type State = dyn Fn() -> Value + Send + Sync;

/// A check and its name.
#[derive(Clone)]
pub(super) struct Named {
    name: String,
    check: Arc<dyn Check>,
    /// Whether a thread is in it.
    busy: Arc<AtomicBool>,
}

/// The registered checks. Clones share them; a name that is registered again replaces the former.
#[derive(Clone, Default)]
pub struct Health {
    registry: Arc<Mutex<Registry>>,
}

#[derive(Default)]
struct Registry {
    readiness: Vec<Named>,
    liveness: Vec<Named>,
    states: BTreeMap<String, Arc<State>>,
    collectors: Vec<Arc<Collector>>,
    exporters: Vec<Arc<Exporter>>,
    log: Option<LogControl>,
}

/// The outcome of all checks of one probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// Whether every check passed.
    pub(super) healthy: bool,
    /// One line a check, in the form of kube-apiserver's `?verbose`.
    pub(super) lines: String,
    /// The lines of the failed checks.
    pub(super) failed: String,
}

impl Health {
    /// No checks: alive and ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a check of `/readyz`.
    pub fn readiness(&self, name: String, check: impl Check) {
        put(&mut self.lock().readiness, name, Arc::new(check));
    }

    /// Registers a check of `/livez`. It fails only for what a restart of the process heals.
    pub fn liveness(&self, name: String, check: impl Check) {
        put(&mut self.lock().liveness, name, Arc::new(check));
    }

    /// Registers a part of `/debug/state`: what is so at the moment, for people who look for a fault.
    /// It holds no secret.
    pub fn debug(&self, name: String, state: impl Fn() -> Value + Send + Sync + 'static) {
        self.lock().states.insert(name, Arc::new(state));
    }

    /// Registers what is run before metrics are rendered: for gauges that nothing else updates.
    pub fn collector(&self, collect: impl Fn() + Send + Sync + 'static) {
        self.lock().collectors.push(Arc::new(collect));
    }

    /// Registers what writes samples of its own on each page of metrics: of what comes and goes (the
    /// objects that an operator works on), so that what is gone is not written any more. As a check, it
    /// must not block, nor hold a lock for long that the work needs.
    pub fn exporter(&self, export: impl Fn(&mut Page) + Send + Sync + 'static) {
        self.lock().exporters.push(Arc::new(export));
    }

    /// Serves the log's filter under `/debug/log`, to read and to change, for who is in the pod.
    pub fn log_control(&self, log: LogControl) {
        self.lock().log = Some(log);
    }

    pub(super) fn log(&self) -> Option<LogControl> {
        self.lock().log.clone()
    }

    /// Serves `/livez`, `/readyz`, `/leaderz`, `/metrics`, `/debug/state` and `/debug/log` until shutdown; `?verbose` lists each
    /// check. Requests are answered by a thread of their own, so they are while every worker of the
    /// runtime is stuck; `/livez` then says that.
    ///
    /// `/leaderz` is 200 on the leader only, and always where there is no election (`None`).
    pub async fn serve(
        self,
        listener: TcpListener,
        metrics: Telemetry,
        leadership: Option<LeadershipWatch>,
        shutdown: Shutdown,
    ) {
        server::serve(self, listener, metrics, leadership, shutdown).await;
    }

    pub(super) fn readiness_checks(&self) -> Vec<Named> {
        self.lock().readiness.clone()
    }

    pub(super) fn liveness_checks(&self) -> Vec<Named> {
        self.lock().liveness.clone()
    }

    #[cfg(test)]
    pub(super) fn ready(&self) -> Report {
        at_once(&self.readiness_checks())
    }

    #[cfg(test)]
    pub(super) fn live(&self) -> Report {
        at_once(&self.liveness_checks())
    }

    /// `/debug/state`.
    pub(super) fn state(&self) -> Value {
        let states = self.lock().states.clone();
        let states = states.into_iter().map(|(name, state)| (name, state()));
        Value::Object(states.collect())
    }

    pub(super) fn collect(&self) {
        let collectors = self.lock().collectors.clone();
        for collect in collectors {
            collect();
        }
    }

    pub(super) fn export(&self, page: &mut Page) {
        let exporters = self.lock().exporters.clone();
        for export in exporters {
            export(page);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(checks: &mut Vec<Named>, name: String, check: Arc<dyn Check>) {
    checks.retain(|taken| taken.name != name);
    let busy = Arc::default();
    checks.push(Named { name, check, busy });
}

impl Named {
    /// Runs it, unless another probe still waits for it.
    fn run(&self) -> Result<String, String> {
        if self.busy.swap(true, Ordering::AcqRel) {
            return Err("it has not answered an earlier probe yet".to_owned());
        }
        let verdict = self.check.check();
        self.busy.store(false, Ordering::Release);
        verdict
    }
}

/// Runs the checks outside the registry's lock and the caller's thread, each within its deadline. One
/// that does not return keeps a thread, and no other probe gives it a second one.
pub(super) async fn report(checks: Vec<Named>) -> Report {
    let mut verdicts: Vec<Result<String, String>> = Vec::new();
    while verdicts.len() < checks.len() {
        let (tell, mut told) = mpsc::unbounded_channel();
        let rest = checks[verdicts.len()..].to_vec();
        tokio::task::spawn_blocking(move || {
            // Nobody listens any more once one of them was late.
            let _ = rest.iter().try_for_each(|each| tell.send(each.run()));
        });
        while let Some(next) = checks.get(verdicts.len()) {
            let deadline = next.check.deadline();
            match timeout(deadline, told.recv()).await {
                Ok(Some(verdict)) => verdicts.push(verdict),
                Ok(None) => {
                    verdicts.push(Err("the check itself panicked".to_owned()));
                    break;
                }
                Err(_) => {
                    verdicts.push(Err(format!("no answer within {deadline:?}")));
                    break;
                }
            }
        }
    }
    summary(&checks, verdicts)
}

#[cfg(test)]
fn at_once(checks: &[Named]) -> Report {
    summary(checks, checks.iter().map(Named::run).collect())
}

fn summary(checks: &[Named], verdicts: Vec<Result<String, String>>) -> Report {
    let mut report = Report {
        healthy: true,
        lines: String::new(),
        failed: String::new(),
    };
    for (Named { name, .. }, verdict) in checks.iter().zip(verdicts) {
        // Writing to a String can't fail.
        match verdict {
            Ok(detail) => {
                let _ = writeln!(report.lines, "[+]{name} ok: {detail}");
            }
            Err(why) => {
                report.healthy = false;
                let _ = writeln!(report.lines, "[-]{name} failed: {why}");
                let _ = writeln!(report.failed, "[-]{name} failed: {why}");
            }
        }
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failed_check_is_named_and_decides() {
        let health = Health::new();
        assert!(health.ready().healthy && health.live().healthy);
        health.readiness("a".to_owned(), || Ok("fine".to_owned()));
        health.readiness("b".to_owned(), || Err("not yet".to_owned()));
        let report = health.ready();
        assert!(!report.healthy);
        assert_eq!(report.lines, "[+]a ok: fine\n[-]b failed: not yet\n");
        assert_eq!(report.failed, "[-]b failed: not yet\n");
        assert!(health.live().healthy, "readiness is not liveness");
        health.readiness("b".to_owned(), || Ok(String::new()));
        assert!(health.ready().healthy, "registered again replaces");
    }

    /// Waits as for a lock that somebody holds: until the other end is dropped.
    struct Stuck(Mutex<std::sync::mpsc::Receiver<()>>);

    impl Check for Stuck {
        fn check(&self) -> Result<String, String> {
            let _ = self.0.lock().unwrap().recv();
            Ok(String::new())
        }

        fn deadline(&self) -> Duration {
            Duration::from_millis(20)
        }
    }

    #[tokio::test]
    async fn a_check_that_is_stuck_is_named_and_holds_up_no_other() {
        let health = Health::new();
        let (held, waits) = std::sync::mpsc::channel();
        health.liveness("a".to_owned(), || Ok("fine".to_owned()));
        health.liveness("stuck".to_owned(), Stuck(Mutex::new(waits)));
        health.liveness("panics".to_owned(), || panic!("seen in a test"));
        health.liveness("b".to_owned(), || Ok("fine".to_owned()));
        for said in [
            "no answer within 20ms",
            "it has not answered an earlier probe yet",
        ] {
            let report = report(health.liveness_checks()).await;
            assert!(!report.healthy);
            let lines: Vec<_> = report.lines.lines().collect();
            assert_eq!(lines[0], "[+]a ok: fine");
            assert_eq!(lines[1], format!("[-]stuck failed: {said}"));
            assert!(lines[2].starts_with("[-]panics failed: "), "{}", lines[2]);
            assert_eq!(lines[3], "[+]b ok: fine");
        }
        drop(held);
        // The thread that waited for it is free again, sooner or later.
        loop {
            let report = report(health.liveness_checks()).await;
            if report.lines.contains("[+]stuck ok") {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
}
