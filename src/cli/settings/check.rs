//! What options must be to each other. Pure.

use std::time::Duration;

use super::source::Problem;
use super::value::show_time;
use super::{Loaded, Replica, Settings, table};

/// Shortest resync: each one looks at every cluster.
const RESYNC_MIN: Duration = Duration::from_secs(10);

/// What is wrong: with which option, together with which others, and what.
type Found = (&'static str, &'static [&'static str], String);

impl Loaded {
    /// What is wrong with the options together. Those that have a problem of their own, among `known`,
    /// are left out: what they would be is not known.
    pub(super) fn check(&self, known: &[Problem]) -> Vec<Problem> {
        let broken = |name: &str| known.iter().any(|problem| problem.option == Some(name));
        found(&self.settings)
            .into_iter()
            .filter(|(name, with, _)| !broken(name) && !with.iter().any(|name| broken(name)))
            .filter_map(|(name, with, what)| {
                let entry = table::entry(name)?;
                let others: Vec<_> = with.iter().filter_map(|name| self.told(name)).collect();
                let what = if others.is_empty() {
                    what
                } else {
                    format!("{what} ({})", others.join(", "))
                };
                Some(Problem::new(entry, self.source(name), what))
            })
            .collect()
    }

    /// Another option's value, and where that is from.
    fn told(&self, name: &str) -> Option<String> {
        let entry = table::entry(name)?;
        let value = entry.field.show(&self.settings);
        Some(format!(
            "{name} is {value}: {}",
            self.source(name).of(entry)
        ))
    }
}

fn found(settings: &Settings) -> Vec<Found> {
    let mut found = parts(settings);
    found.extend(election(settings));
    let mut refuse = |name, with, what: String| found.push((name, with, what));
    // Tokens that come due within one tick of the timer, with room for a busy machine.
    let least = settings.qps / 100.0;
    if f64::from(settings.burst) < least {
        refuse(
            "burst",
            &["qps"],
            format!("must be at least {least:.0}, or the rate could never be reached"),
        );
    }
    if settings.workers > settings.max_in_flight {
        refuse(
            "workers",
            &["max-in-flight"],
            "must be no more than max-in-flight: each has a request under way most of the time"
                .to_owned(),
        );
    }
    if !settings.resync_interval.is_zero() && settings.resync_interval < RESYNC_MIN {
        let least = show_time(RESYNC_MIN);
        refuse(
            "resync-interval",
            &[],
            format!("must be 0 for none, or at least {least}: each one looks at every cluster"),
        );
    }
    found.extend(orders(settings));
    found
}

/// What the client says of its options. What it says of two of them is said below.
fn parts(settings: &Settings) -> Vec<Found> {
    let problems = settings.client().problems().into_iter();
    problems
        .filter(|(name, _)| *name != "breaker-pause")
        .map(|(name, what)| match name {
            "deadline" => ("request-deadline", what),
            name => (name, what),
        })
        .map(|(name, what)| (name, &[][..], what))
        .collect()
}

fn election(settings: &Settings) -> Vec<Found> {
    let others = |name| -> &'static [&'static str] {
        match name {
            "renew-deadline" => &["lease-duration"],
            "renew-interval" => &["renew-deadline"],
            _ => &[],
        }
    };
    let any = Replica {
        identity: "any".to_owned(),
        ..Replica::default()
    };
    let problems = settings.election(&any).problems().into_iter();
    problems
        .map(|(name, what)| (name, others(name), what))
        .collect()
}

/// Which times must be shorter than which.
fn orders(settings: &Settings) -> Vec<Found> {
    let mut found = Vec::new();
    let mut refuse = |ok: bool, name, with, what: &str| {
        if !ok {
            found.push((name, with, what.to_owned()));
        }
    };
    refuse(
        settings.request_deadline < settings.reconcile_deadline,
        "request-deadline",
        &["reconcile-deadline"][..],
        "must be shorter than reconcile-deadline: a reconcile waits for requests",
    );
    refuse(
        settings.coalescing_window < settings.reconcile_deadline,
        "coalescing-window",
        &["reconcile-deadline"],
        "must be shorter than reconcile-deadline: changes would wait longer than the work on them takes",
    );
    refuse(
        settings.backoff_initial <= settings.backoff_max,
        "backoff-initial",
        &["backoff-max"],
        "must be no longer than backoff-max",
    );
    refuse(
        settings.breaker_pause <= settings.breaker_pause_max,
        "breaker-pause",
        &["breaker-pause-max"],
        "must be no longer than breaker-pause-max",
    );
    refuse(
        settings.event_interval < settings.event_window,
        "event-interval",
        &["event-window"],
        "must be shorter than event-window, or a repeat is never counted",
    );
    refuse(
        settings.watch_patience < settings.watch_timeout,
        "watch-patience",
        &["watch-timeout"],
        "must be shorter than watch-timeout: the server ends the watch before",
    );
    found
}
