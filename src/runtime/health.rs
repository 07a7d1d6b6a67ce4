//! What the probes ask: named checks that the parts of a process register.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::net::TcpListener;

use super::election::LeadershipWatch;
use super::logs::LogControl;
use super::server;
use super::shutdown::Shutdown;
use super::telemetry::Telemetry;

/// A check: `Ok` with a detail or `Err` with why not. It must not block: it reads what its part
/// last noted.
type Check = dyn Fn() -> Result<String, String> + Send + Sync;
type Collector = dyn Fn() + Send + Sync;

/// The registered checks. Clones share them; a name that is registered again replaces the former.
#[derive(Clone, Default)]
pub struct Health {
    registry: Arc<Mutex<Registry>>,
}

#[derive(Default)]
struct Registry {
    readiness: Vec<(String, Arc<Check>)>,
    liveness: Vec<(String, Arc<Check>)>,
    collectors: Vec<Arc<Collector>>,
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

    /// Registers a check of `/readyz`: `Ok(detail)` or `Err(why not)`.
    pub fn readiness(
        &self,
        name: String,
        check: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) {
        put(&mut self.lock().readiness, name, Arc::new(check));
    }

    /// Registers a check of `/livez`. It fails only for what a restart of the process heals.
    pub fn liveness(
        &self,
        name: String,
        check: impl Fn() -> Result<String, String> + Send + Sync + 'static,
    ) {
        put(&mut self.lock().liveness, name, Arc::new(check));
    }

    /// Registers what is run before metrics are rendered: for gauges that nothing else updates.
    pub fn collector(&self, collect: impl Fn() + Send + Sync + 'static) {
        self.lock().collectors.push(Arc::new(collect));
    }

    /// Serves the log's filter under `/debug/log`, to read and to change, for who is in the pod.
    pub fn log_control(&self, log: LogControl) {
        self.lock().log = Some(log);
    }

    pub(super) fn log(&self) -> Option<LogControl> {
        self.lock().log.clone()
    }

    /// Serves `/livez`, `/readyz`, `/leaderz`, `/metrics` and `/debug/log` until shutdown; `?verbose` lists each
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

    pub(super) fn ready(&self) -> Report {
        let checks = self.lock().readiness.clone();
        report(&checks)
    }

    pub(super) fn live(&self) -> Report {
        let checks = self.lock().liveness.clone();
        report(&checks)
    }

    pub(super) fn collect(&self) {
        let collectors = self.lock().collectors.clone();
        for collect in collectors {
            collect();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(checks: &mut Vec<(String, Arc<Check>)>, name: String, check: Arc<Check>) {
    checks.retain(|(taken, _)| *taken != name);
    checks.push((name, check));
}

/// Runs the checks outside the registry's lock.
fn report(checks: &[(String, Arc<Check>)]) -> Report {
    let mut report = Report {
        healthy: true,
        lines: String::new(),
        failed: String::new(),
    };
    for (name, check) in checks {
        // Writing to a String can't fail.
        match check() {
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
}
