//! A run of a container, and which of its probes are asked. Pure.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Probe as Spec};
use tokio::time::Instant;

use super::ProbeKind;
use super::probe::Probe;

/// A run.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) since: Timestamp,
    pub(super) begun: Instant,
    pub(super) startup: Option<Probe>,
    /// The other two begin once it has started.
    pub(super) readiness: Option<Probe>,
    pub(super) liveness: Option<Probe>,
    pub(super) started: bool,
    /// When it is killed: it was asked to stop.
    pub(super) kill_at: Option<Instant>,
    pub(super) killed: bool,
}

impl Running {
    /// A run that began at `begun`, probed from `now` on.
    pub(super) fn new(spec: &Container, since: Timestamp, begun: Instant, now: Instant) -> Self {
        let startup = spec.startup_probe.as_ref();
        let mut running = Self {
            since,
            begun,
            startup: startup.map(|spec| Probe::new(spec, begun, now)),
            readiness: None,
            liveness: None,
            started: false,
            kill_at: None,
            killed: false,
        };
        if startup.is_none() {
            running.has_started(spec, now);
        }
        running
    }

    /// Whether its readiness probe, if any, says that it may serve.
    pub(super) fn is_ready(&self) -> bool {
        let readiness = self.readiness.as_ref();
        self.started && readiness.is_none_or(|probe| probe.verdict() == Some(true))
    }

    /// When something is due next.
    pub(super) fn wake(&self) -> Option<Instant> {
        let probes = self.active().into_iter().filter_map(|kind| {
            let probe = match kind {
                ProbeKind::Startup => self.startup.as_ref(),
                ProbeKind::Readiness => self.readiness.as_ref(),
                ProbeKind::Liveness => self.liveness.as_ref(),
            };
            probe?.due()
        });
        let kill = self.kill_at.filter(|_| !self.killed);
        probes.chain(kill).min()
    }

    /// Its startup probe has passed, or there is none.
    pub(super) fn has_started(&mut self, spec: &Container, now: Instant) {
        self.started = true;
        let probe = |spec: &Spec| Probe::new(spec, self.begun, now);
        self.readiness = spec.readiness_probe.as_ref().map(probe);
        self.liveness = spec.liveness_probe.as_ref().map(probe);
    }

    pub(super) fn probe(&mut self, kind: ProbeKind) -> Option<&mut Probe> {
        match kind {
            ProbeKind::Startup => self.startup.as_mut(),
            ProbeKind::Readiness => self.readiness.as_mut(),
            ProbeKind::Liveness => self.liveness.as_mut(),
        }
    }

    /// The probes that are asked now. A run that stops is asked whether it still serves, no more.
    pub(super) fn active(&self) -> Vec<ProbeKind> {
        match (self.started, self.kill_at) {
            (false, None) => vec![ProbeKind::Startup],
            (false, Some(_)) => vec![],
            (true, None) => vec![ProbeKind::Readiness, ProbeKind::Liveness],
            (true, Some(_)) => vec![ProbeKind::Readiness],
        }
    }
}
