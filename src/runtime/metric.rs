//! The runtime's metrics.

use metrics::Gauge;

use crate::metric::{metric_table, start_at_zero};

// The workqueue names and meanings are client-go's (component-base/metrics/prometheus/workqueue).
metric_table! {
    /// Every metric of the runtime.
    pub RUNTIME_METRICS;
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
    WORKQUEUE_OLDEST = Gauge "mainstay_workqueue_oldest_seconds" ["name"]
        "How long the key that waits longest for a worker has been ready; 0 while none is handed out (on a standby, or while the breaker is open).";
    RECONCILE_TOTAL = Counter "reconcile_total" ["controller", "result": "done" "requeue" "transient" "permanent" "conflict" "interrupted" "timeout" "panic"]
        "Reconciles by what came of them. Not counted as failures of their key: conflict (a lost write, tried again at once) and interrupted (the breaker opened, or leadership ended).";
    RECONCILE_DURATION = Histogram "reconcile_duration_seconds" ["controller"]
        "How long a reconcile took.";
    WATCH_EVENTS = Counter "mainstay_watch_events_total" ["kind", "type": "added" "modified" "deleted" "bookmark"]
        "Watch frames by type.";
    WATCH_LISTS = Counter "mainstay_watch_lists_total" ["kind", "reason": "initial" "expired" "barren" "retry" "refused" "stalled" "broken"]
        "Lists begun, by why: each gives all objects again.";
    WATCH_ENDS = Counter "mainstay_watch_ends_total" ["kind", "reason": "closed" "silent" "expired" "failed"]
        "Watches that ended, by how; closed is routine.";
    WATCH_DECODE_ERRORS = Counter "mainstay_watch_decode_errors_total" ["kind"]
        "Object versions that could not be decoded.";
    WATCH_QUARANTINED = Gauge "mainstay_watch_quarantined_objects" ["kind"]
        "Objects whose newest version could not be decoded.";
    WATCH_LAST_CONTACT = Gauge "mainstay_watch_last_contact_timestamp_seconds" ["kind"]
        "When the last page or frame came (unix time); 0 before the first.";
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
    LEADER_TRANSITIONS = Counter "mainstay_leader_transitions_total" []
        "Times that this replica became the leader or stopped being it, or saw another become it.";
    LEASE_REQUESTS = Counter "mainstay_lease_requests_total" ["verb": "get" "create" "update", "result": "ok" "error"]
        "Requests for the lease.";
    LEASE_REQUEST_DURATION = Histogram "mainstay_lease_request_duration_seconds" ["verb": "get" "create" "update"]
        "How long requests for the lease took; update is a renewal.";
    EVENTS_DROPPED = Counter "mainstay_events_dropped_total" ["reason": "full" "limited" "breaker" "failed" "shutdown"]
        "Events that were not written: the queue was full, the object had too many of them, the breaker was open, the API server refused, or time was up.";
    RUNTIME_TASKS = Gauge "mainstay_runtime_tasks" []
        "Tasks that the async runtime holds.";
}

/// Counters of a controller's reconciles.
pub(super) fn begin_controller(controller: &'static str) {
    let fixed = [("controller", controller)];
    start_at_zero(RUNTIME_METRICS, &[RECONCILE_TOTAL], &fixed);
}

/// Counters of a list-watch.
pub(super) fn begin_watch(kind: &'static str) {
    let names = [WATCH_EVENTS, WATCH_LISTS, WATCH_ENDS, WATCH_DECODE_ERRORS];
    start_at_zero(RUNTIME_METRICS, &names, &[("kind", kind)]);
}

/// Counters of an election.
pub(super) fn begin_election() {
    let names = [LEADER_TRANSITIONS, LEASE_REQUESTS];
    start_at_zero(RUNTIME_METRICS, &names, &[]);
}

/// This replica leads in `term` from now on, or with 0 does not.
pub(super) fn leadership_changed(leader: &Gauge, in_term: &Gauge, term: u64) {
    leader.set(if term > 0 { 1.0 } else { 0.0 });
    in_term.set(term as f64);
    metrics::counter!(LEADER_TRANSITIONS).increment(1);
}

/// Counters of a recorder of Events.
pub(super) fn begin_events() {
    start_at_zero(RUNTIME_METRICS, &[EVENTS_DROPPED], &[]);
}
