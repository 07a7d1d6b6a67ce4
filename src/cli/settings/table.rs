//! The table of all options.

use std::time::Duration;

use super::rules::{any, image, label, legacy_lock, subdomain};
use super::value::Field;
use crate::operator::instances::Access;
use crate::runtime::{LogFormat, check_filter};

/// Stands for `--config`.
pub(super) const CONFIG_VARIABLE: &str = "MAINSTAY_CONFIG";

/// Options that are listed under one heading.
pub(super) struct Group {
    pub(super) heading: &'static str,
    pub(super) entries: &'static [Entry],
}

/// One option.
pub(super) struct Entry {
    /// The flag, without dashes.
    pub(super) name: &'static str,
    /// What stands for its value in help.
    pub(super) value: &'static str,
    pub(super) field: Field,
    /// What it is, in one line.
    pub(super) help: &'static str,
}

impl Entry {
    /// The environment variable: `lease-duration` is `MAINSTAY_LEASE_DURATION`.
    pub(super) fn variable(&self) -> String {
        let name = self.name.replace('-', "_").to_ascii_uppercase();
        format!("MAINSTAY_{name}")
    }

    /// The file's key: `lease-duration` is `leaseDuration`.
    pub(super) fn key(&self) -> String {
        let mut words = self.name.split('-');
        let mut key = words.next().unwrap_or_default().to_owned();
        for word in words {
            let (first, rest) = word.split_at(1);
            key.push_str(&first.to_ascii_uppercase());
            key.push_str(rest);
        }
        key
    }
}

/// All options, in the order in which they are listed.
pub(super) fn entries() -> impl Iterator<Item = &'static Entry> {
    GROUPS.iter().flat_map(|group| group.entries)
}

/// The option of that name.
pub(super) fn entry(name: &str) -> Option<&'static Entry> {
    entries().find(|entry| entry.name == name)
}

const fn option(
    name: &'static str,
    value: &'static str,
    field: Field,
    help: &'static str,
) -> Entry {
    Entry {
        name,
        value,
        field,
        help,
    }
}

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// The options. A limit that no user can set better than we do is none of them; what belongs to one
/// database cluster is in its MySQLCluster.
pub(super) const GROUPS: &[Group] = &[
    Group {
        heading: "API server",
        entries: &[
            option(
                "kubeconfig",
                "FILE",
                Field::Text(|s| &mut s.kubeconfig, any),
                "Kubeconfig file; without one KUBECONFIG, the pod's service account, or ~/.kube/config",
            ),
            option(
                "context",
                "NAME",
                Field::Text(|s| &mut s.context, any),
                "Context of the kubeconfig; without one its current context",
            ),
            option(
                "namespace",
                "NAMES",
                Field::List(|s| &mut s.namespaces, label),
                "Work in these namespaces only; without one in all",
            ),
            option(
                "qps",
                "N",
                Field::Rate(|s| &mut s.qps),
                "API requests a second, in the long run",
            ),
            option(
                "burst",
                "N",
                Field::Count(|s| &mut s.burst, 1, 1_000_000),
                "API requests at once, after a quiet time",
            ),
            option(
                "max-in-flight",
                "N",
                Field::Count(|s| &mut s.max_in_flight, 1, 65_535),
                "API requests under way at a time, watches aside",
            ),
            option(
                "request-deadline",
                "TIME",
                Field::Time(|s| &mut s.request_deadline, SECOND, HOUR),
                "How long an API request may take, waiting and repeats included",
            ),
            option(
                "breaker-calls",
                "N",
                Field::Count(|s| &mut s.breaker_calls, 1, 1_000_000),
                "The circuit breaker opens when half of at least so many calls in 10 s fail",
            ),
            option(
                "breaker-connections",
                "N",
                Field::Count(|s| &mut s.breaker_connections, 1, 1000),
                "It opens as well when so many connections in a row can't be made",
            ),
            option(
                "breaker-pause",
                "TIME",
                Field::Time(|s| &mut s.breaker_pause, MS, HOUR),
                "For how long it opens at first",
            ),
            option(
                "breaker-pause-max",
                "TIME",
                Field::Time(|s| &mut s.breaker_pause_max, MS, HOUR),
                "What that grows to",
            ),
        ],
    },
    Group {
        heading: "Caches",
        entries: &[
            option(
                "list-page-size",
                "N",
                Field::Count(|s| &mut s.list_page_size, 1, 100_000),
                "Objects in a page, where they are listed",
            ),
            option(
                "watch-timeout",
                "TIME",
                Field::Time(
                    |s| &mut s.watch_timeout,
                    Duration::from_secs(10),
                    Duration::from_mins(7),
                ),
                "After this a watch is begun anew, ± 20 %; shorter than what a proxy allows",
            ),
            option(
                "watch-patience",
                "TIME",
                Field::Time(|s| &mut s.watch_patience, SECOND, HOUR),
                "A watch that gives nothing for so long at its beginning is replaced by a list",
            ),
            option(
                "stale-after",
                "TIME",
                Field::Time(|s| &mut s.stale_after, SECOND, HOUR),
                "A cache that the API server did not feed for so long makes /readyz fail",
            ),
        ],
    },
    Group {
        heading: "Work",
        entries: &[
            option(
                "workers",
                "N",
                Field::Count(|s| &mut s.workers, 1, 256),
                "Clusters reconciled at a time",
            ),
            option(
                "reconcile-deadline",
                "TIME",
                Field::Time(|s| &mut s.reconcile_deadline, SECOND, HOUR),
                "How long a reconcile may take",
            ),
            option(
                "stalled-after",
                "TIME",
                Field::Time(|s| &mut s.stalled_after, SECOND, DAY),
                "A cluster says that it is stalled when all its reconciles have failed for so long",
            ),
            option(
                "coalescing-window",
                "TIME",
                Field::Time(|s| &mut s.coalescing_window, Duration::ZERO, HOUR),
                "Changes of children within this time of a reconcile are taken together; it delays a failover",
            ),
            option(
                "backoff-initial",
                "TIME",
                Field::Time(|s| &mut s.backoff_initial, MS, HOUR),
                "Wait before a reconcile that failed is repeated, at first",
            ),
            option(
                "backoff-max",
                "TIME",
                Field::Time(|s| &mut s.backoff_max, MS, DAY),
                "What that grows to",
            ),
            option(
                "resync-interval",
                "TIME",
                Field::Time(|s| &mut s.resync_interval, Duration::ZERO, DAY),
                "How often each cluster is reconciled though nothing has changed; 0 for never",
            ),
            option(
                "instance-access",
                "WAY",
                ACCESS,
                "How MySQL pods are reached: at their address (direct), through the API server (proxy), or what works (auto)",
            ),
            option(
                "operator-image",
                "IMAGE",
                Field::Text(|s| &mut s.operator_image, image),
                "Image that brings this binary into MySQL pods",
            ),
        ],
    },
    Group {
        heading: "Leader election",
        entries: &[
            option(
                "lease-namespace",
                "NAME",
                Field::Text(|s| &mut s.lease_namespace, label),
                "Namespace of the Lease that elects the leader",
            ),
            option(
                "lease-name",
                "NAME",
                Field::Text(|s| &mut s.lease_name, subdomain),
                "Name of the Lease",
            ),
            option(
                "lease-duration",
                "TIME",
                Field::Time(|s| &mut s.lease_duration, SECOND, DAY),
                "A leader that does not renew is replaced after this; whole seconds",
            ),
            option(
                "renew-deadline",
                "TIME",
                Field::Time(|s| &mut s.renew_deadline, MS, DAY),
                "A leader that can't renew gives up after this",
            ),
            option(
                "renew-interval",
                "TIME",
                Field::Time(|s| &mut s.renew_interval, MS, DAY),
                "Time between renewals",
            ),
            option(
                "leader-elect-migrate-from",
                "LOCK",
                Field::Text(|s| &mut s.leader_elect_migrate_from, legacy_lock),
                "Lock of a former version, configmaps/NAME or endpoints/NAME: nobody leads while it is held",
            ),
        ],
    },
    Group {
        heading: "Events",
        entries: &[
            option(
                "event-queue",
                "N",
                Field::Count(|s| &mut s.event_queue, 1, 1_000_000),
                "Events that may wait to be written; more are dropped and counted",
            ),
            option(
                "event-interval",
                "TIME",
                Field::Time(|s| &mut s.event_interval, MS, HOUR),
                "The count of an Event that repeats is written this often",
            ),
            option(
                "event-window",
                "TIME",
                Field::Time(|s| &mut s.event_window, MS, DAY),
                "An Event that repeats within this time is counted; later it is a new one",
            ),
            option(
                "event-burst",
                "N",
                Field::Count(|s| &mut s.event_burst, 1, 10_000),
                "New Events of one object and reason at once, after a quiet time; more are dropped and counted",
            ),
            option(
                "event-refill",
                "TIME",
                Field::Time(|s| &mut s.event_refill, Duration::ZERO, DAY),
                "After this time there may be one more; 0 for no limit",
            ),
        ],
    },
    Group {
        heading: "Process",
        entries: &[
            option(
                "listen",
                "ADDRESS",
                Field::Address(|s| &mut s.listen),
                "Address of /livez, /readyz, /leaderz, /metrics and /debug/log",
            ),
            option(
                "shutdown-grace",
                "TIME",
                Field::Time(|s| &mut s.shutdown_grace, MS, HOUR),
                "How long running reconciles may go on after SIGTERM; the pod needs 10 s more than that",
            ),
            option(
                "log-format",
                "FORMAT",
                FORMAT,
                "Log lines for people (text) or for machines (json)",
            ),
            option(
                "log",
                "FILTER",
                Field::Text(|s| &mut s.log, check_filter),
                "What is logged, such as info or info,mainstay=debug; SIGHUP reads it from the file again",
            ),
            option(
                "log-repeat-interval",
                "TIME",
                Field::Time(|s| &mut s.log_repeat_interval, Duration::ZERO, HOUR),
                "A warning or error that repeats is written once in this time, then counted; 0 for all of them",
            ),
        ],
    },
];

const ACCESS: Field = Field::Choice(
    &["auto", "direct", "proxy"],
    |s| match s.instance_access {
        Access::Auto => "auto",
        Access::Direct => "direct",
        Access::Proxy => "proxy",
    },
    |s, word| {
        s.instance_access = match word {
            "direct" => Access::Direct,
            "proxy" => Access::Proxy,
            _ => Access::Auto,
        }
    },
);

const FORMAT: Field = Field::Choice(
    &["text", "json"],
    |s| match s.log_format {
        LogFormat::Text => "text",
        LogFormat::Json => "json",
    },
    |s, word| {
        s.log_format = match word {
            "json" => LogFormat::Json,
            _ => LogFormat::Text,
        }
    },
);
