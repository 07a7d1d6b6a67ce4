//! Metrics in Prometheus' text format.

use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use super::metric::{self, RUNTIME_METRICS};
use super::process;

/// Bounds of duration histograms: from a queue's wait (well under a millisecond) to a reconcile at
/// its deadline (two minutes).
const DURATION_BUCKETS: &[f64] = &[
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0, 300.0,
];

/// The process's metrics. Clones share them.
#[derive(Clone)]
pub struct Telemetry {
    handle: PrometheusHandle,
}

impl Telemetry {
    /// Installs the metrics recorder (the one global there is) and describes the runtime's metrics.
    /// Comes first in a process: a queue or store made before it counts nothing.
    ///
    /// # Errors
    /// When a recorder is installed already.
    pub fn install() -> Result<Self, String> {
        let (telemetry, recorder) = Self::detached()?;
        metrics::set_global_recorder(recorder).map_err(|e| e.to_string())?;
        metric::describe(RUNTIME_METRICS);
        Ok(telemetry)
    }

    /// A recorder that is not installed, and its reading side.
    pub(super) fn detached() -> Result<(Self, PrometheusRecorder), String> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), DURATION_BUCKETS)
            .map_err(|e| e.to_string())?
            .build_recorder();
        let telemetry = Self {
            handle: recorder.handle(),
        };
        Ok((telemetry, recorder))
    }

    /// All metrics as Prometheus' text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut out = self.handle.render();
        process::render(&mut out);
        out
    }

    /// Folds recorded samples into their histograms, which otherwise wait in memory for the next
    /// render. The health server calls it every few seconds.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_histograms_with_buckets_and_process_metrics_are_there() {
        let (telemetry, recorder) = Telemetry::detached().unwrap();
        metrics::with_local_recorder(&recorder, || {
            metric::describe(RUNTIME_METRICS);
            metrics::histogram!(metric::RECONCILE_DURATION, "controller" => "c").record(0.2);
        });
        telemetry.upkeep();
        let text = telemetry.render();
        assert!(text.contains(r#"reconcile_duration_seconds_bucket{controller="c",le="0.25"} 1"#));
        assert!(text.contains(r#"reconcile_duration_seconds_bucket{controller="c",le="0.1"} 0"#));
        assert!(text.contains("# HELP reconcile_duration_seconds How long"));
        assert!(text.contains("# TYPE process_cpu_seconds_total counter"));
    }
}
