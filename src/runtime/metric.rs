//! The runtime's metrics, one table: what is described at `/metrics` and documented.

/// What kind of series a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Distribution.
    Histogram,
}

/// One metric: a row of the documentation and its `# HELP` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name, with its unit as Prometheus wants it.
    pub name: &'static str,
    /// Kind of series.
    pub kind: MetricKind,
    /// Label names; their values are bounded sets (never object names).
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

macro_rules! metrics_table {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)*) => {
        $(pub(crate) const $constant: &str = $name;)*

        /// Every metric of the runtime.
        pub const RUNTIME_METRICS: &[Metric] = &[$(Metric {
            name: $name,
            kind: MetricKind::$kind,
            labels: &[$($label),*],
            help: $help,
        }),*];
    };
}

// The workqueue names and meanings are client-go's (component-base/metrics/prometheus/workqueue).
metrics_table! {
    WORKQUEUE_DEPTH = Gauge "workqueue_depth" ["name"]
        "Keys that are ready and wait for a worker.";
    WORKQUEUE_ADDS = Counter "workqueue_adds_total" ["name"]
        "Keys that became ready.";
    WORKQUEUE_QUEUE_DURATION = Histogram "workqueue_queue_duration_seconds" ["name"]
        "How long a key was ready before a worker took it.";
    WORKQUEUE_WORK_DURATION = Histogram "workqueue_work_duration_seconds" ["name"]
        "How long a worker held a key.";
    WORKQUEUE_RETRIES = Counter "workqueue_retries_total" ["name"]
        "Runs that failed and are tried again.";
    WORKQUEUE_UNFINISHED = Gauge "workqueue_unfinished_work_seconds" ["name"]
        "Seconds of work in progress, summed over the workers.";
    WORKQUEUE_LONGEST = Gauge "workqueue_longest_running_processor_seconds" ["name"]
        "How long the longest running worker has held its key.";
    RECONCILE_TOTAL = Counter "reconcile_total" ["controller", "result"]
        "Reconciles by result: done, requeue, transient, permanent, conflict, interrupted, timeout or panic.";
    RECONCILE_DURATION = Histogram "reconcile_duration_seconds" ["controller"]
        "How long a reconcile took.";
    WATCH_EVENTS = Counter "mainstay_watch_events_total" ["kind", "type"]
        "Watch frames by type: added, modified, deleted or bookmark.";
    WATCH_LISTS = Counter "mainstay_watch_lists_total" ["kind", "reason"]
        "Lists begun by reason: initial, expired, barren, retry, refused, stalled or broken.";
    WATCH_ENDS = Counter "mainstay_watch_ends_total" ["kind", "reason"]
        "Watches that ended by reason: closed, silent, expired or failed.";
    WATCH_DECODE_ERRORS = Counter "mainstay_watch_decode_errors_total" ["kind"]
        "Object versions that could not be decoded.";
    WATCH_QUARANTINED = Gauge "mainstay_watch_quarantined_objects" ["kind"]
        "Objects whose newest version could not be decoded.";
    WATCH_LAST_CONTACT = Gauge "mainstay_watch_last_contact_timestamp_seconds" ["kind"]
        "When the last page or frame came (unix time).";
    STORE_OBJECTS = Gauge "mainstay_store_objects" ["kind"]
        "Objects in the store.";
    STORE_BYTES = Gauge "mainstay_store_bytes" ["kind"]
        "Memory that the store's objects and tables take, about: their sizes, without what the allocator adds.";
    STORE_EXPECTATION_TIMEOUTS = Counter "mainstay_store_expectation_timeouts_total" ["kind"]
        "Own writes that the watch did not deliver in time.";
    LEADER = Gauge "mainstay_leader" []
        "1 while this replica leads, else 0.";
    LEADER_TERM = Gauge "mainstay_leader_term" []
        "Term of the lease that this replica holds; 0 on a standby.";
    LEASE_REQUESTS = Counter "mainstay_lease_requests_total" ["verb", "result"]
        "Requests for the lease by verb (get, create, update) and result (ok, error).";
    LEASE_REQUEST_DURATION = Histogram "mainstay_lease_request_duration_seconds" ["verb"]
        "How long requests for the lease took.";
    EVENTS_DROPPED = Counter "mainstay_events_dropped_total" ["reason"]
        "Events that were not written: full (the queue), breaker (open), failed (the API server), shutdown.";
    PROCESS_CPU = Counter "process_cpu_seconds_total" []
        "CPU time used, user and system.";
    PROCESS_MEMORY = Gauge "process_resident_memory_bytes" []
        "Resident memory.";
    PROCESS_FDS = Gauge "process_open_fds" []
        "Open file descriptors.";
    PROCESS_START = Gauge "process_start_time_seconds" []
        "Start of the process (unix time).";
}

/// Gives the metrics their `# HELP` text. For an operator's own metrics too.
pub fn describe(table: &[Metric]) {
    for metric in table {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_counters_are_named_as_such() {
        for (i, metric) in RUNTIME_METRICS.iter().enumerate() {
            assert!(RUNTIME_METRICS[..i].iter().all(|m| m.name != metric.name));
            let total = metric.name.ends_with("_total");
            assert_eq!(total, metric.kind == MetricKind::Counter, "{}", metric.name);
        }
    }
}
