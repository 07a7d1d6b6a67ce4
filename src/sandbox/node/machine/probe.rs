//! One probe of one container: when it is asked, and what its answers mean. Pure.

use std::time::Duration;

use k8s_openapi::api::core::v1::Probe as Spec;
use tokio::time::Instant;

/// Which of a container's probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProbeKind {
    /// The others wait until it has passed once.
    Startup,
    /// Whether it may serve.
    Readiness,
    /// Whether it must be restarted.
    Liveness,
}

impl ProbeKind {
    /// As events name it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Readiness => "Readiness",
            Self::Liveness => "Liveness",
        }
    }
}

/// A probe of a running container.
#[derive(Clone, Debug)]
pub(super) struct Probe {
    period: Duration,
    success_threshold: u32,
    failure_threshold: u32,
    due: Instant,
    asked: bool,
    /// The last answer and how many times in a row it came.
    row: Option<(bool, u32)>,
    /// What it says, once a threshold was reached.
    verdict: Option<bool>,
}

/// The API server's defaults for what a probe leaves out.
const PERIOD: u32 = 10;
const SUCCESSES: u32 = 1;
const FAILURES: u32 = 3;

impl Probe {
    /// A probe of a container that began to run at `begun`, asked from `now` on.
    pub(super) fn new(spec: &Spec, begun: Instant, now: Instant) -> Self {
        let number = |value: Option<i32>, default| {
            let value = value.and_then(|value| u32::try_from(value).ok());
            value.filter(|value| *value > 0).unwrap_or(default)
        };
        let delay = number(spec.initial_delay_seconds, 0);
        Self {
            period: Duration::from_secs(number(spec.period_seconds, PERIOD).into()),
            success_threshold: number(spec.success_threshold, SUCCESSES),
            failure_threshold: number(spec.failure_threshold, FAILURES),
            due: now.max(begun + Duration::from_secs(delay.into())),
            asked: false,
            row: None,
            verdict: None,
        }
    }

    /// Whether it is to be asked now; if so it counts as asked.
    pub(super) fn ask(&mut self, now: Instant) -> bool {
        if self.asked || self.due > now {
            return false;
        }
        self.asked = true;
        // By the clock, not by the answers: a slow answer does not stretch the period.
        self.due = now + self.period;
        true
    }

    /// When it is to be asked next; `None` while an answer is awaited.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.asked).then_some(self.due)
    }

    /// Takes in an answer.
    pub(super) fn answered(&mut self, passed: bool) {
        self.asked = false;
        let count = match self.row {
            Some((last, count)) if last == passed => count.saturating_add(1),
            _ => 1,
        };
        self.row = Some((passed, count));
        let threshold = if passed {
            self.success_threshold
        } else {
            self.failure_threshold
        };
        if count >= threshold {
            self.verdict = Some(passed);
        }
    }

    /// What it said to another kubelet.
    pub(super) fn assume(&mut self, passed: bool) {
        self.verdict = Some(passed);
    }

    /// What it says; `None` before a threshold was reached.
    pub(super) fn verdict(&self) -> Option<bool> {
        self.verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_probe_is_asked_by_the_clock_and_judged_by_answers_in_a_row() {
        let begun = Instant::now();
        let spec = Spec {
            initial_delay_seconds: Some(5),
            period_seconds: Some(2),
            failure_threshold: Some(2),
            ..Spec::default()
        };
        let mut probe = Probe::new(&spec, begun, begun);
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert!(!probe.ask(at(4)));
        assert!(probe.ask(at(5)));
        assert!(!probe.ask(at(9)), "one at a time");
        assert_eq!(probe.due(), None);
        probe.answered(true);
        assert_eq!((probe.verdict(), probe.due()), (Some(true), Some(at(7))));
        probe.answered(false);
        assert_eq!(probe.verdict(), Some(true), "one failure is not two");
        probe.answered(true);
        probe.answered(false);
        assert_eq!(probe.verdict(), Some(true), "not in a row");
        probe.answered(false);
        assert_eq!(probe.verdict(), Some(false));
    }
}
