//! Metrics in Prometheus' text format.

use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};

use super::metric::RUNTIME_METRICS;
use super::process;
use crate::client::CLIENT_METRICS;
use crate::metric::{self, Page};

/// Bounds of duration histograms: from a queue's wait (well under a millisecond) to a reconcile at
/// its deadline (two minutes).
const DURATION_BUCKETS: &[f64] = &[
    0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0,
    60.0, 120.0, 300.0,
];

/// Bounds of histograms of sizes: client-go's.
const SIZE_BUCKETS: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

/// The process's metrics. Clones share them.
#[derive(Clone)]
pub struct Telemetry {
    handle: PrometheusHandle,
}

impl Telemetry {
    /// Installs the metrics recorder (the one global there is) and describes the metrics of client
    /// and runtime. Comes first in a process: a queue or store made before it counts nothing.
    ///
    /// # Errors
    /// When a recorder is installed already.
    pub fn install() -> Result<Self, String> {
        let (telemetry, recorder) = Self::detached()?;
        metrics::set_global_recorder(recorder).map_err(|e| e.to_string())?;
        metric::describe(CLIENT_METRICS);
        metric::describe(RUNTIME_METRICS);
        Ok(telemetry)
    }

    /// A recorder that is not installed, and its reading side.
    pub(super) fn detached() -> Result<(Self, PrometheusRecorder), String> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), DURATION_BUCKETS)
            .and_then(|builder| {
                let sizes = Matcher::Suffix("_size_bytes".to_owned());
                builder.set_buckets_for_metric(sizes, SIZE_BUCKETS)
            })
            .map_err(|e| e.to_string())?
            .build_recorder();
        let telemetry = Self {
            handle: recorder.handle(),
        };
        Ok((telemetry, recorder))
    }

    /// All that was counted and what is known of the process, as Prometheus' text.
    #[must_use]
    pub fn render(&self) -> String {
        self.page().into_text()
    }

    /// The same, to go on with.
    pub(super) fn page(&self) -> Page {
        let mut page = Page::after(self.handle.render());
        process::render(&mut page);
        page
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
    use crate::runtime::metric::RECONCILE_DURATION;

    #[test]
    fn durations_are_histograms_with_buckets_and_process_metrics_are_there() {
        let (telemetry, recorder) = Telemetry::detached().unwrap();
        metrics::with_local_recorder(&recorder, || {
            metric::describe(RUNTIME_METRICS);
            metrics::histogram!(RECONCILE_DURATION, "controller" => "c").record(0.2);
            metrics::histogram!("answer_size_bytes").record(200.0);
        });
        telemetry.upkeep();
        let text = telemetry.render();
        assert!(text.contains(r#"reconcile_duration_seconds_bucket{controller="c",le="0.25"} 1"#));
        assert!(text.contains(r#"reconcile_duration_seconds_bucket{controller="c",le="0.1"} 0"#));
        assert!(text.contains(r#"answer_size_bytes_bucket{le="256"} 1"#));
        assert!(text.contains("# HELP reconcile_duration_seconds How long"));
        assert!(text.contains("# TYPE process_cpu_seconds_total counter"));
    }
}
