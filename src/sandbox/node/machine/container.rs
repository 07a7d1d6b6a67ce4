//! One container: its runs, its restarts, its probes. Pure.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container as Spec;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::running::Running;
use super::{Action, ContainerRun, Facts, Now, ProbeKind};
use crate::runtime::EventType;

/// Exit code of a container that could not be started (containerd's).
const NOT_STARTED: i32 = 128;

/// One container of a pod, as long as the pod lives.
#[derive(Debug)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) is_init: bool,
    spec: Spec,
    /// The pod's grace period.
    grace: Duration,
    /// Number of the run that [`Life`] is about, or of the next one while it is idle.
    pub(super) run: u32,
    pub(super) life: Life,
    /// How the run before ended.
    pub(super) last: Option<Ended>,
    backoff: Backoff,
    /// The run whose back-off was told of.
    told: Option<u32>,
}

/// Where a container stands.
#[derive(Debug)]
pub(super) enum Life {
    /// It never ran, and nothing is known that keeps it from that.
    New,
    /// Nothing runs, and something keeps it from being started: one word and a sentence.
    Waiting(&'static str, String),
    /// A start was asked for.
    Starting,
    /// It runs.
    Running(Running),
    /// Its last run ended; it stays so, or is started again in time.
    Ended(Ended),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) run: u32,
    pub(super) code: i32,
    pub(super) reason: String,
    pub(super) message: Option<String>,
    pub(super) started: Option<Timestamp>,
    pub(super) finished: Timestamp,
    pub(super) at: Instant,
}

impl Container {
    /// A container that never ran.
    pub(super) fn new(spec: &Spec, is_init: bool, grace: Duration) -> Self {
        Self {
            name: spec.name.clone(),
            is_init,
            spec: spec.clone(),
            grace,
            run: 0,
            life: Life::New,
            last: None,
            backoff: Backoff::default(),
            told: None,
        }
    }

    pub(super) fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Its present run.
    pub(super) fn this_run(&self) -> ContainerRun {
        ContainerRun {
            container: self.name.clone(),
            run: self.run,
        }
    }

    /// Whether events of this run are about the present.
    pub(super) fn is_run(&self, run: u32) -> bool {
        self.run == run && matches!(self.life, Life::Starting | Life::Running(_))
    }

    /// Whether a run of it was ever begun.
    pub(super) fn has_begun(&self) -> bool {
        self.last.is_some() || !matches!(self.life, Life::New | Life::Waiting(..))
    }

    /// Whether it is being started for the first time.
    pub(super) fn is_first_start(&self) -> bool {
        self.last.is_none() && matches!(self.life, Life::Starting)
    }

    /// Whether its last run ended well.
    pub(super) fn has_succeeded(&self) -> bool {
        matches!(&self.life, Life::Ended(ended) if ended.code == 0)
    }

    /// Whether nothing of it runs or is about to.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.life, Life::New | Life::Waiting(..) | Life::Ended(_))
    }

    /// It runs, and its probes say that it may serve.
    pub(super) fn is_ready(&self) -> bool {
        match &self.life {
            Life::Running(running) => running.is_ready(),
            // An init container is ready once it is done.
            Life::Ended(ended) => self.is_init && ended.code == 0,
            Life::New | Life::Waiting(..) | Life::Starting => false,
        }
    }

    /// Whether it is to run once more after its last run, by the pod's restart policy.
    pub(super) fn restarts(&self, ended: &Ended, policy: &str) -> bool {
        match policy {
            "Never" => false,
            "OnFailure" => ended.code != 0,
            _ => !self.is_init || ended.code != 0,
        }
    }

    /// While it waits for its restart: from when on it may be started.
    pub(super) fn restart_at(&self, ended: &Ended) -> Instant {
        self.backoff.until(ended.at)
    }

    /// The wait before its next start, as people are told of it.
    pub(super) fn backoff_delay(&self) -> Duration {
        self.backoff.delay
    }

    /// Starts it, first or again, if it is time and nothing keeps it from that.
    pub(super) fn progress(
        &mut self,
        policy: &str,
        facts: &Facts,
        now: Now,
        actions: &mut Vec<Action>,
    ) {
        let ended = match &self.life {
            Life::Starting | Life::Running(_) => return,
            Life::Ended(ended) if !self.restarts(ended, policy) => return,
            Life::Ended(ended) => Some(ended.clone()),
            Life::New | Life::Waiting(..) => None,
        };
        if let Some(ended) = &ended
            && self.restart_at(ended) > now.instant
        {
            if self.told.replace(ended.run) != Some(ended.run) {
                let note = format!("Back-off restarting failed container {}", self.name);
                actions.push(Action::Tell(EventType::Warning, "BackOff", note));
            }
            return;
        }
        let problem = (facts.image.get(&self.name))
            .map(|why| ("ErrImagePull", "Failed", why))
            .or_else(|| {
                let why = facts.config.get(&self.name)?;
                Some(("CreateContainerConfigError", "Failed", why))
            });
        if let Some((reason, event, why)) = problem {
            let told =
                matches!(&self.life, Life::Waiting(known, text) if *known == reason && text == why);
            if !told {
                actions.push(Action::Tell(
                    EventType::Warning,
                    event,
                    format!("Error: {why}"),
                ));
            }
            if let Some(ended) = ended {
                self.next_run(ended);
            }
            self.life = Life::Waiting(reason, why.clone());
            return;
        }
        if let Some(ended) = ended {
            self.backoff.restarted(ended.at, now.instant);
            self.next_run(ended);
        }
        self.life = Life::Starting;
        actions.push(Action::Start(self.this_run()));
    }

    fn next_run(&mut self, ended: Ended) {
        self.run = ended.run + 1;
        self.last = Some(ended);
    }

    /// The answer to a start.
    pub(super) fn started(&mut self, result: &Result<(), String>, now: Now) -> Vec<Action> {
        match result {
            Ok(()) => {
                self.runs_since(now.wall, now.instant, now.instant);
                let note = format!("Started container {}", self.name);
                vec![Action::Tell(EventType::Normal, "Started", note)]
            }
            Err(why) => {
                self.life = Life::Ended(Ended {
                    run: self.run,
                    code: NOT_STARTED,
                    reason: "StartError".to_owned(),
                    message: Some(why.clone()),
                    started: None,
                    finished: now.wall,
                    at: now.instant,
                });
                let note = format!("Error: {why}");
                vec![Action::Tell(EventType::Warning, "Failed", note)]
            }
        }
    }

    /// It runs, since then; it is probed from now on.
    pub(super) fn runs_since(&mut self, since: Timestamp, begun: Instant, now: Instant) {
        let running = Running::new(&self.spec, since, begun, now);
        self.life = Life::Running(running);
    }

    /// It runs, as another kubelet has seen it before.
    pub(super) fn take_up(&mut self, since: Timestamp, started: bool, ready: bool, now: Now) {
        self.runs_since(since, now.instant, now.instant);
        if let Life::Running(running) = &mut self.life
            && started
        {
            running.has_started(&self.spec, now.instant);
            if let Some(readiness) = &mut running.readiness {
                readiness.assume(ready);
            }
        }
    }

    /// It ended.
    pub(super) fn exited(&mut self, code: i32, now: Now) {
        let started = match &self.life {
            Life::Running(running) => Some(running.since),
            _ => None,
        };
        self.life = Life::Ended(Ended {
            run: self.run,
            code,
            reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
            message: None,
            started,
            finished: now.wall,
            at: now.instant,
        });
    }

    /// One of its probes was answered.
    pub(super) fn probed(
        &mut self,
        kind: ProbeKind,
        result: &Result<(), String>,
        now: Now,
    ) -> Vec<Action> {
        let Life::Running(running) = &mut self.life else {
            return Vec::new();
        };
        let Some(probe) = running.probe(kind) else {
            return Vec::new();
        };
        probe.answered(result.is_ok());
        let verdict = probe.verdict();
        let mut actions = Vec::new();
        if let Err(why) = result
            && running.kill_at.is_none()
        {
            let note = format!("{} probe failed: {why}", kind.name());
            actions.push(Action::Tell(EventType::Warning, "Unhealthy", note));
        }
        match (kind, verdict) {
            (ProbeKind::Startup, Some(true)) if !running.started => {
                running.has_started(&self.spec, now.instant);
            }
            (ProbeKind::Startup | ProbeKind::Liveness, Some(false)) => {
                let why = format!(
                    "failed {} probe, will be restarted",
                    kind.name().to_lowercase()
                );
                let grace = self.grace(kind);
                self.stop(&why, now.instant + grace, &mut actions);
            }
            _ => {}
        }
        actions
    }

    /// How long a run that failed this probe gets to stop.
    fn grace(&self, kind: ProbeKind) -> Duration {
        let probe = match kind {
            ProbeKind::Startup => &self.spec.startup_probe,
            ProbeKind::Readiness => &self.spec.readiness_probe,
            ProbeKind::Liveness => &self.spec.liveness_probe,
        };
        let own = probe
            .as_ref()
            .and_then(|probe| probe.termination_grace_period_seconds);
        own.and_then(|seconds| u64::try_from(seconds).ok())
            .map_or(self.grace, Duration::from_secs)
    }

    /// Asks a run to stop, and has it killed at that time. Once is enough; a later, earlier time
    /// counts.
    pub(super) fn stop(&mut self, why: &str, kill_at: Instant, actions: &mut Vec<Action>) {
        let this_run = self.this_run();
        let Life::Running(running) = &mut self.life else {
            return;
        };
        if let Some(known) = running.kill_at {
            running.kill_at = Some(known.min(kill_at));
            return;
        }
        running.kill_at = Some(kill_at);
        let note = match why.strip_prefix("failed") {
            Some(rest) => format!("Container {} failed{rest}", self.name),
            None => format!("{why} {}", self.name),
        };
        actions.push(Action::Tell(EventType::Normal, "Killing", note));
        actions.push(Action::Terminate(this_run));
    }

    /// Kills a run whose time to stop is over.
    pub(super) fn kill_if_due(&mut self, now: Now, actions: &mut Vec<Action>) {
        let this_run = self.this_run();
        if let Life::Running(running) = &mut self.life
            && !running.killed
            && running.kill_at.is_some_and(|at| at <= now.instant)
        {
            running.killed = true;
            actions.push(Action::Kill(this_run));
        }
    }

    /// Asks the probes that are due.
    pub(super) fn probes_due(&mut self, now: Now, actions: &mut Vec<Action>) {
        let this_run = self.this_run();
        let Life::Running(running) = &mut self.life else {
            return;
        };
        for kind in running.active() {
            if running
                .probe(kind)
                .is_some_and(|probe| probe.ask(now.instant))
            {
                actions.push(Action::Probe(this_run.clone(), kind));
            }
        }
    }

    /// When something is due next.
    pub(super) fn wake(&self) -> Option<Instant> {
        match &self.life {
            Life::Running(running) => running.wake(),
            Life::Ended(ended) => Some(self.restart_at(ended)),
            Life::New | Life::Waiting(..) | Life::Starting => None,
        }
    }
}
