//! The options of `mainstay run`: limits, intervals, and where things are.
//!
//! Each is a flag, an environment variable and a key of the file of `--config`, in this order of
//! precedence, and a row of the table in `table.rs`, from which help, file and `--print-config` are
//! made. What is wrong is told all at once (`check.rs`), each with where it came from (`source.rs`).
//!
//! There is no kind of option for a secret: those come from files that other options name. So all of it
//! can be printed.

mod check;
mod file;
mod flags;
mod print;
mod rules;
mod source;
mod table;
mod value;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::client::{ClientOptions, ConfigSource};
use crate::operator::instances::Access;
use crate::operator::{Options, ProcessOptions, Tuning};
use crate::runtime::{ElectionOptions, EventLimits, LogFormat, WatchLimits};
pub(super) use flags::Given;
pub(super) use source::Problems;
use source::{Problem, Source};
use table::Entry;

use value::Raw;

/// Every option's value.
#[derive(Clone, Debug, PartialEq)]
struct Settings {
    kubeconfig: String,
    context: String,
    namespaces: Vec<String>,
    qps: f64,
    burst: u32,
    max_in_flight: u32,
    request_deadline: Duration,
    breaker_calls: u32,
    breaker_connections: u32,
    breaker_pause: Duration,
    breaker_pause_max: Duration,
    list_page_size: u32,
    watch_timeout: Duration,
    watch_patience: Duration,
    stale_after: Duration,
    workers: u32,
    reconcile_deadline: Duration,
    coalescing_window: Duration,
    stalled_after: Duration,
    backoff_initial: Duration,
    backoff_max: Duration,
    resync_interval: Duration,
    lease_namespace: String,
    lease_name: String,
    lease_duration: Duration,
    renew_deadline: Duration,
    renew_interval: Duration,
    leader_elect_migrate_from: String,
    instance_access: Access,
    operator_image: String,
    event_queue: u32,
    event_interval: Duration,
    event_window: Duration,
    event_burst: u32,
    event_refill: Duration,
    listen: SocketAddr,
    shutdown_grace: Duration,
    log: String,
    log_format: LogFormat,
    log_repeat_interval: Duration,
}

impl Default for Settings {
    /// What the parts have by themselves; here is only what is the process's own.
    fn default() -> Self {
        let client = ClientOptions::default();
        let tuning = Tuning::default();
        Self {
            kubeconfig: String::new(),
            context: String::new(),
            namespaces: Vec::new(),
            qps: client.qps,
            burst: client.burst,
            max_in_flight: count(client.max_in_flight),
            request_deadline: client.deadline,
            breaker_calls: client.breaker.calls,
            breaker_connections: client.breaker.connections,
            breaker_pause: client.breaker.pause,
            breaker_pause_max: client.breaker.pause_max,
            list_page_size: tuning.watch.page_size,
            watch_timeout: tuning.watch.timeout,
            watch_patience: tuning.watch.patience,
            stale_after: tuning.watch.stale_after,
            workers: 8,
            reconcile_deadline: tuning.reconcile_deadline,
            coalescing_window: tuning.window,
            stalled_after: tuning.stalled_after,
            backoff_initial: tuning.backoff_initial,
            backoff_max: tuning.backoff_max,
            resync_interval: tuning.resync.unwrap_or_default(),
            lease_namespace: "mainstay-system".to_owned(),
            lease_name: "mainstay".to_owned(),
            lease_duration: ElectionOptions::LEASE_DURATION,
            renew_deadline: ElectionOptions::RENEW_DEADLINE,
            renew_interval: ElectionOptions::RENEW_INTERVAL,
            leader_elect_migrate_from: String::new(),
            instance_access: Access::default(),
            operator_image: "docker.io/library/mainstay:dev".to_owned(),
            event_queue: count(tuning.events.queue),
            event_interval: tuning.events.interval,
            event_window: tuning.events.window,
            event_burst: tuning.events.burst,
            event_refill: tuning.events.refill,
            listen: SocketAddr::from(([0, 0, 0, 0], 8080)),
            shutdown_grace: Duration::from_secs(25),
            log: "info".to_owned(),
            log_format: LogFormat::default(),
            log_repeat_interval: Duration::from_mins(1),
        }
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// What stands for itself when it is empty.
fn some(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

impl Settings {
    /// The election as `replica` takes part in it.
    fn election(&self, replica: &Replica) -> ElectionOptions {
        let pods = replica.pod_namespace.as_ref();
        ElectionOptions {
            succeeds_itself: replica.succeeds_itself,
            pod_namespace: pods.unwrap_or(&self.lease_namespace).clone(),
            // A rule of the table has read it before.
            migrate_from: self.leader_elect_migrate_from.parse().ok(),
            lease_duration: self.lease_duration,
            renew_deadline: self.renew_deadline,
            renew_interval: self.renew_interval,
            ..ElectionOptions::new(&self.lease_namespace, &self.lease_name, &replica.identity)
        }
    }

    fn client(&self) -> ClientOptions {
        let mut client = ClientOptions {
            qps: self.qps,
            burst: self.burst,
            max_in_flight: size(self.max_in_flight),
            deadline: self.request_deadline,
            ..ClientOptions::default()
        };
        client.breaker.calls = self.breaker_calls;
        client.breaker.connections = self.breaker_connections;
        client.breaker.pause = self.breaker_pause;
        client.breaker.pause_max = self.breaker_pause_max;
        client
    }

    fn tuning(&self) -> Tuning {
        Tuning {
            reconcile_deadline: self.reconcile_deadline,
            window: self.coalescing_window,
            stalled_after: self.stalled_after,
            backoff_initial: self.backoff_initial,
            backoff_max: self.backoff_max,
            resync: Some(self.resync_interval).filter(|period| !period.is_zero()),
            watch: WatchLimits {
                page_size: self.list_page_size,
                timeout: self.watch_timeout,
                patience: self.watch_patience,
                stale_after: self.stale_after,
            },
            events: EventLimits {
                queue: size(self.event_queue),
                interval: self.event_interval,
                window: self.event_window,
                burst: self.event_burst,
                refill: self.event_refill,
            },
        }
    }
}

/// Which of the replicas this process is.
#[derive(Clone, Debug, Default)]
pub(super) struct Replica {
    /// Its name in the Lease.
    pub(super) identity: String,
    /// See [`ElectionOptions::succeeds_itself`].
    pub(super) succeeds_itself: bool,
    /// Where its pod is, in a cluster.
    pub(super) pod_namespace: Option<String>,
}

/// Settings that go together, and where each came from.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    settings: Settings,
    /// By flag.
    sources: BTreeMap<&'static str, Source>,
}

impl Loaded {
    /// Reads flags, environment and `config`.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub(super) fn load(
        given: &Given,
        config: Option<PathBuf>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problems> {
        let mut loaded = Self {
            settings: Settings::default(),
            sources: BTreeMap::new(),
        };
        let mut problems = Vec::new();
        // An empty variable is one that is not set, as in a shell's `${NAME:-}`.
        let variable = |name: &str| environment(name).filter(|value| !value.is_empty());
        let config = config.or_else(|| variable(table::CONFIG_VARIABLE).map(PathBuf::from));
        if let Some(path) = &config {
            match file::read(path) {
                Ok(items) => loaded.take_file(path, items, &mut problems),
                Err(problem) => problems.push(problem),
            }
        }
        for entry in table::entries() {
            if let Some(value) = variable(&entry.variable()) {
                let raw = value
                    .into_string()
                    .map(Raw::Word)
                    .map_err(|_| "is not UTF-8 text");
                loaded.take(entry, Source::Variable, raw, &mut problems);
            }
            if let Some(words) = given.words(entry.name) {
                let raw = Ok(Raw::Words(words.to_vec()));
                loaded.take(entry, Source::Flag, raw, &mut problems);
            }
        }
        problems.extend(loaded.check(&problems));
        if problems.is_empty() {
            Ok(loaded)
        } else {
            Err(Problems(problems))
        }
    }

    fn take_file(
        &mut self,
        path: &std::path::Path,
        items: Vec<file::Item>,
        problems: &mut Vec<Problem>,
    ) {
        let mut seen: BTreeMap<&'static str, Option<usize>> = BTreeMap::new();
        for item in items {
            let source = Source::File {
                path: path.to_owned(),
                line: item.line,
            };
            let Some(entry) = table::entries().find(|entry| entry.key() == item.key) else {
                let what = file::unknown(&item.key);
                problems.push(Problem::of_key(&item.key, &source, what));
                continue;
            };
            if let Some(first) = seen.insert(entry.name, item.line) {
                let at = first.map_or_else(String::new, |line| format!(" in line {line}"));
                let what = format!("is there already{at}; keep one of the two");
                problems.push(Problem::new(entry, &source, what));
                continue;
            }
            self.take(entry, source, Ok(Raw::Yaml(item.value)), problems);
        }
    }

    /// Sets what an option is given; what goes before it comes later.
    fn take(
        &mut self,
        entry: &'static Entry,
        source: Source,
        raw: Result<Raw, &str>,
        problems: &mut Vec<Problem>,
    ) {
        let taken = raw
            .map_err(str::to_owned)
            .and_then(|raw| entry.field.assign(&mut self.settings, &raw));
        if let Err(what) = taken {
            problems.push(Problem::new(entry, &source, what));
        }
        self.sources.insert(entry.name, source);
    }

    fn source(&self, name: &str) -> &Source {
        self.sources.get(name).unwrap_or(&Source::Default)
    }

    /// What the process is run with, as `replica`.
    pub(super) fn options(&self, replica: &Replica) -> ProcessOptions {
        let settings = &self.settings;
        ProcessOptions {
            source: ConfigSource {
                kubeconfig: some(&settings.kubeconfig).map(PathBuf::from),
                context: some(&settings.context).map(str::to_owned),
            },
            listen: settings.listen,
            client: ClientOptions {
                user_agent: user_agent(&replica.identity),
                ..settings.client()
            },
            operator: Options {
                namespaces: settings.namespaces.iter().cloned().collect(),
                workers: size(settings.workers),
                election: settings.election(replica),
                shutdown_grace: settings.shutdown_grace,
                instance_access: settings.instance_access,
                operator_image: settings.operator_image.clone(),
                tuning: settings.tuning(),
            },
        }
    }

    /// How and what to log.
    pub(super) fn log(&self) -> (LogFormat, &str, Duration) {
        let settings = &self.settings;
        (
            settings.log_format,
            &settings.log,
            settings.log_repeat_interval,
        )
    }

    /// Where the log's filter is to be changed, unless it is the file.
    pub(super) fn log_fixed_by(&self) -> Option<String> {
        match self.source("log") {
            Source::Flag => Some("--log".to_owned()),
            Source::Variable => Some("MAINSTAY_LOG".to_owned()),
            Source::File { .. } | Source::Default => None,
        }
    }
}

/// Version and replica, as `mainstay/1.2.3 (mainstay-5c9f-x2x4z_UID)`: what an API server's audit log
/// has of a request.
fn user_agent(identity: &str) -> String {
    // What would end the comment, or no header can carry, is of no use in an identity either.
    let plain = |c: char| {
        if c.is_ascii_graphic() && !"()\\".contains(c) {
            c
        } else {
            '-'
        }
    };
    let identity: String = identity.chars().map(plain).collect();
    format!("mainstay/{} ({identity})", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod whole_tests;
