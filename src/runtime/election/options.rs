//! Settings of an election, checked together.

use std::time::Duration;

use super::LegacyLock;
use super::machine::JITTER;

/// Settings of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElectionOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who this process is in the Lease; unique, such as the pod's name and UID.
    pub identity: String,
    /// Whether a process that held the lease under this identity has certainly ended before this one
    /// began, as the first process of a pod's container has: then nobody need wait for it.
    pub succeeds_itself: bool,
    /// Namespace of the pods that identities `NAME_UID` name.
    pub pod_namespace: String,
    /// The lock of a former version, which nobody must hold when the Lease is taken. It is not looked at
    /// afterwards: replicas that use it must end, and not wait for their turn.
    pub migrate_from: Option<LegacyLock>,
    /// How long others wait after the last renewal that they saw. Whole seconds.
    pub lease_duration: Duration,
    /// A leader that could not renew for so long gives up.
    pub renew_deadline: Duration,
    /// How often a leader renews, and a standby looks.
    pub renew_interval: Duration,
}

impl ElectionOptions {
    /// Default of [`lease_duration`](Self::lease_duration), as client-go's.
    pub const LEASE_DURATION: Duration = Duration::from_secs(15);
    /// Default of [`renew_deadline`](Self::renew_deadline), as client-go's.
    pub const RENEW_DEADLINE: Duration = Duration::from_secs(10);
    /// Default of [`renew_interval`](Self::renew_interval): takeover of a released lease takes so
    /// long, and a renewal every second is no load.
    pub const RENEW_INTERVAL: Duration = Duration::from_secs(1);

    /// Settings with the default times.
    #[must_use]
    pub fn new(namespace: &str, name: &str, identity: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: identity.to_owned(),
            succeeds_itself: false,
            pod_namespace: namespace.to_owned(),
            migrate_from: None,
            lease_duration: Self::LEASE_DURATION,
            renew_deadline: Self::RENEW_DEADLINE,
            renew_interval: Self::RENEW_INTERVAL,
        }
    }

    /// Checks all settings; the error names every one that is wrong.
    pub(super) fn validate(&self) -> Result<(), String> {
        let wrong = self.problems();
        if wrong.is_empty() {
            return Ok(());
        }
        let wrong: Vec<_> = wrong.into_iter().map(|(_, problem)| problem).collect();
        Err(wrong.join("; "))
    }

    /// Everything that is wrong: which setting, and what. Nothing for settings that go together.
    #[must_use]
    pub fn problems(&self) -> Vec<(&'static str, String)> {
        let (duration, deadline, interval) = (
            self.lease_duration,
            self.renew_deadline,
            self.renew_interval,
        );
        let names = [
            ("lease-namespace", &self.namespace),
            ("lease-name", &self.name),
            ("identity", &self.identity),
        ];
        let mut wrong: Vec<(&'static str, String)> = names
            .into_iter()
            .filter(|(_, value)| value.is_empty())
            .map(|(field, _)| {
                (
                    field,
                    "the lease's ".to_owned() + field.trim_start_matches("lease-") + " is empty",
                )
            })
            .collect();
        let mut refuse = |option, problem| wrong.push((option, problem));
        if duration.as_secs() == 0 || duration.subsec_nanos() > 0 {
            refuse(
                "lease-duration",
                format!("lease duration {duration:?} is not a whole number of seconds"),
            );
        }
        if i32::try_from(duration.as_secs()).is_err() {
            refuse(
                "lease-duration",
                format!("lease duration {duration:?} is too long"),
            );
        }
        // The margin against clocks of different speed is half of the difference: 5 % of the
        // duration on each side must fit in.
        if deadline > duration.mul_f64(0.8) {
            refuse(
                "renew-deadline",
                format!(
                    "renew deadline {deadline:?} is more than 80 % of the lease duration {duration:?}"
                ),
            );
        }
        if interval.is_zero() || interval.mul_f64(2.0 * (1.0 + JITTER)) >= deadline {
            refuse(
                "renew-interval",
                format!(
                    "renew interval {interval:?} must be positive and fit twice in the renew deadline {deadline:?}"
                ),
            );
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_checked_together_and_all_faults_are_named() {
        let good = ElectionOptions::new("ns", "a", "me");
        assert_eq!(good.validate(), Ok(()));
        let client_go = ElectionOptions {
            renew_interval: Duration::from_secs(2),
            ..good.clone()
        };
        assert_eq!(client_go.validate(), Ok(()));
        let bad = ElectionOptions {
            identity: String::new(),
            lease_duration: Duration::from_millis(1500),
            renew_deadline: Duration::from_millis(1400),
            renew_interval: Duration::from_millis(900),
            ..good
        };
        let why = bad.validate().unwrap_err();
        for part in ["identity", "whole number", "80 %", "fit twice"] {
            assert!(why.contains(part), "{part} in {why}");
        }
    }
}
