//! Metrics of requests, with client-go's names where they exist.

use std::time::Duration;

use http::StatusCode;
use metrics::{Counter, counter, gauge, histogram};
use tokio::time::Instant;

use super::BreakerState;
use crate::metric::{metric_table, start_at_zero};

metric_table! {
    /// Every metric of the client.
    pub CLIENT_METRICS;
    REQUESTS = Counter "rest_client_requests_total" ["verb": "get" "list" "watch" "create" "update" "patch" "delete", "resource", "code"]
        "Requests sent to the API server, retries included; code is <error> where there was no answer.";
    DURATION = Histogram "rest_client_request_duration_seconds" ["verb": "get" "list" "watch" "create" "update" "patch" "delete", "resource"]
        "Time from sending a request to its answer (of a watch: to the head).";
    RETRIES = Counter "rest_client_request_retries_total" ["verb": "get" "list" "watch" "create" "update" "patch" "delete", "code"]
        "Requests sent again, by the status code that was the reason, or <error>.";
    REQUEST_SIZE = Histogram "rest_client_request_size_bytes" ["verb": "get" "list" "watch" "create" "update" "patch" "delete"]
        "Size of request bodies.";
    RESPONSE_SIZE = Histogram "rest_client_response_size_bytes" ["verb": "get" "list" "create" "update" "patch" "delete"]
        "Size of response bodies that were read whole.";
    PLUGIN_CALLS = Counter "rest_client_exec_plugin_call_total" ["code", "call_status": "no_error" "plugin_execution_error" "plugin_not_found_error" "client_internal_error"]
        "Runs of the credential plugin, by exit code and what became of them; no series without a plugin.";
    PLUGIN_TTL = Gauge "rest_client_exec_plugin_ttl_seconds" []
        "Life that the credential plugin's last credential had left when it came; no series where it has no end.";
    LIMITER_WAIT = Histogram "mainstay_limiter_wait_seconds" []
        "Time that requests waited for the in-flight limit and the token bucket; the Lease's wait for nothing.";
    LIMITER_RATE = Gauge "mainstay_limiter_rate" []
        "Requests a second that are let out now: the limit, or less after the server answered 429.";
    IN_FLIGHT = Gauge "mainstay_requests_in_flight" []
        "Requests under way; watches count until their head has come.";
    BREAKER_STATE = Gauge "mainstay_breaker_state" []
        "Circuit breaker: 0 closed, 1 half-open, 2 open.";
    BREAKER_TRANSITIONS = Counter "mainstay_breaker_transitions_total" ["to": "closed" "half-open" "open"]
        "Transitions of the circuit breaker, by the state it went to.";
    WATCH_BYTES = Counter "mainstay_watch_bytes_total" ["kind"]
        "Bytes that watches brought, as they came out of TLS.";
}

/// Code of a request that got no answer, as client-go has it.
const NO_ANSWER: &str = "<error>";

/// A breaker begins.
pub(super) fn breaker_begun(state: BreakerState) {
    start_at_zero(CLIENT_METRICS, &[BREAKER_TRANSITIONS], &[]);
    breaker_state(state);
}

/// Counts what a watch of objects of that kind brings.
pub(super) fn watch_bytes(kind: &'static str) -> Counter {
    counter!(WATCH_BYTES, "kind" => kind)
}

pub(super) fn limiter_waited(time: Duration) {
    histogram!(LIMITER_WAIT).record(time);
}

pub(super) fn limiter_rate(per_second: f64) {
    gauge!(LIMITER_RATE).set(per_second);
}

pub(super) fn breaker_state(state: BreakerState) {
    gauge!(BREAKER_STATE).set(match state {
        BreakerState::Closed => 0.0,
        BreakerState::HalfOpen => 1.0,
        BreakerState::Open => 2.0,
    });
}

pub(super) fn breaker_transition(to: BreakerState) {
    counter!(BREAKER_TRANSITIONS, "to" => to.as_str()).increment(1);
}

/// A request is to be sent again; `code` is that of the answer, if there was one.
pub(super) fn retried(verb: &'static str, code: Option<StatusCode>) {
    counter!(RETRIES, "verb" => verb, "code" => code_label(code)).increment(1);
}

pub(super) fn response_size(verb: &'static str, bytes: usize) {
    histogram!(RESPONSE_SIZE, "verb" => verb).record(bytes as f64);
}

/// A credential plugin has run: its exit code, and one of client-go's words for how it went.
pub(super) fn plugin_ran(code: i32, status: &'static str) {
    counter!(PLUGIN_CALLS, "code" => code.to_string(), "call_status" => status).increment(1);
}

pub(super) fn plugin_ttl(ttl: Duration) {
    gauge!(PLUGIN_TTL).set(ttl.as_secs_f64());
}

fn code_label(code: Option<StatusCode>) -> String {
    code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.as_u16().to_string())
}

/// One request on the wire. Counted when dropped, so that a cancelled one counts too.
pub(super) struct Sent {
    verb: &'static str,
    resource: &'static str,
    start: Instant,
    code: Option<StatusCode>,
}

impl Sent {
    pub(super) fn start(verb: &'static str, resource: &'static str, bytes: usize) -> Self {
        histogram!(REQUEST_SIZE, "verb" => verb).record(bytes as f64);
        gauge!(IN_FLIGHT).increment(1.0);
        Self {
            verb,
            resource,
            start: Instant::now(),
            code: None,
        }
    }

    pub(super) fn answered(&mut self, code: StatusCode) {
        self.code = Some(code);
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        let (verb, resource) = (self.verb, self.resource);
        let code = code_label(self.code);
        gauge!(IN_FLIGHT).decrement(1.0);
        counter!(REQUESTS, "verb" => verb, "resource" => resource, "code" => code).increment(1);
        histogram!(DURATION, "verb" => verb, "resource" => resource).record(self.start.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use crate::client::testing::{FakeServer, Reply};
    use crate::client::{ClientOptions, LEASE, POD, WatchOptions};
    use metrics_exporter_prometheus::PrometheusBuilder;
    use serde_json::Value;

    #[tokio::test(start_paused = true)]
    async fn requests_are_counted_by_verb_resource_and_code_also_when_abandoned() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let server = FakeServer::replying([
            Reply::status(404, ""),
            Reply::Endless(bytes::Bytes::new()),
            Reply::Hang,
        ]);
        let client = server.limited_client(ClientOptions {
            qps: 1.0,
            burst: 1,
            ..ClientOptions::default()
        });
        let missing = client.election_lane();
        assert!(missing.get::<Value>(LEASE, Some("ns"), "l").await.is_err());
        let watch = client
            .watch(POD, None, &WatchOptions::default())
            .await
            .unwrap();
        assert!(client.get::<Value>(POD, Some("ns"), "a").await.is_err());
        drop(watch);

        let text = recorder.handle().render();
        for line in [
            "rest_client_requests_total{verb=\"get\",resource=\"leases\",code=\"404\"} 1",
            "rest_client_requests_total{verb=\"watch\",resource=\"pods\",code=\"200\"} 1",
            "rest_client_requests_total{verb=\"get\",resource=\"pods\",code=\"<error>\"} 1",
            "rest_client_request_duration_seconds_count{verb=\"get\",resource=\"pods\"} 1",
            "rest_client_request_size_bytes_count{verb=\"get\"} 2",
            "mainstay_requests_in_flight 0",
            "mainstay_limiter_wait_seconds_count 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        let waited = text
            .lines()
            .find(|line| line.starts_with("mainstay_limiter_wait_seconds_sum"));
        let waited: f64 = waited.unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        assert!(
            (waited - 1.0).abs() < 0.1,
            "{waited} s for the second token"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn retries_and_what_was_read_are_counted() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let _guard = metrics::set_default_local_recorder(&recorder);
        let server =
            FakeServer::replying([Reply::status(503, ""), Reply::Close, Reply::json("{}")]);
        let _: Value = server.client().get(POD, Some("ns"), "a").await.unwrap();
        let text = recorder.handle().render();
        for line in [
            "rest_client_request_retries_total{verb=\"get\",code=\"503\"} 1",
            "rest_client_request_retries_total{verb=\"get\",code=\"<error>\"} 1",
            "rest_client_response_size_bytes_sum{verb=\"get\"} 2",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
