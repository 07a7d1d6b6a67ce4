//! What a metric is: rows of tables, of which everything else is made.
//!
//! Each part of the process has one table ([`metric_table!`]). From it come the names in the code, the
//! `# HELP` lines, the counters that exist at zero, the page in the manifests ([`markdown`]), and the
//! check that alerts and dashboard use nothing else. What is sampled when it is asked for, and not
//! counted as it happens, is written on a [`Page`].

mod markdown;
mod page;

pub use markdown::markdown;
pub use page::{Family, Page};

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

impl MetricKind {
    /// As a `# TYPE` line has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// All values that it can have; empty where these are not the code's: a bounded set of another
    /// kind (kinds, verbs, status codes), or namespace and name of a cluster.
    pub values: &'static [&'static str],
}

/// One metric: a row of the documentation and its `# HELP` line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name, with its unit as Prometheus wants it.
    pub name: &'static str,
    /// Kind of series.
    pub kind: MetricKind,
    /// Its labels. Values are bounded sets; of objects only a cluster's namespace and name are.
    pub labels: &'static [Label],
    /// One sentence.
    pub help: &'static str,
}

/// A table of metrics, and a constant for each name: `NAME = Kind "name" ["label", "other": "a" "b"] "help";`.
macro_rules! metric_table {
    (
        $(#[$doc:meta])* $vis:vis $table:ident;
        $($constant:ident = $kind:ident $name:literal [$($label:literal $(: $($value:literal)+)?),*] $help:literal;)*
    ) => {
        $(pub(crate) const $constant: &str = $name;)*

        $(#[$doc])*
        $vis const $table: &[$crate::metric::Metric] = &[$($crate::metric::Metric {
            name: $name,
            kind: $crate::metric::MetricKind::$kind,
            labels: &[$($crate::metric::Label {
                name: $label,
                values: &[$($($value),+)?],
            }),*],
            help: $help,
        }),*];
    };
}
pub(crate) use metric_table;

/// Gives the metrics their `# HELP` text.
pub fn describe(table: &[Metric]) {
    for metric in table {
        match metric.kind {
            MetricKind::Counter => metrics::describe_counter!(metric.name, metric.help),
            MetricKind::Gauge => metrics::describe_gauge!(metric.name, metric.help),
            MetricKind::Histogram => metrics::describe_histogram!(metric.name, metric.help),
        }
    }
}

/// Has the counters of `names` exist at zero, for `fixed` labels and every value of the others: the
/// first of a thing that seldom happens is then a growth, which `rate()` sees, and not a new series.
pub fn start_at_zero(table: &[Metric], names: &[&str], fixed: &[(&str, &'static str)]) {
    for metric in table.iter().filter(|metric| names.contains(&metric.name)) {
        let mut series = vec![Vec::new()];
        for label in metric.labels {
            let given = fixed.iter().find(|(name, _)| *name == label.name);
            let given = given.map(|(_, value)| *value);
            let values = given.as_ref().map_or(label.values, std::slice::from_ref);
            series = longer(&series, label.name, values);
        }
        for labels in series {
            let _ = metrics::counter!(metric.name, labels);
        }
    }
}

/// Each of these series with each of these values.
fn longer(
    series: &[Vec<metrics::Label>],
    name: &'static str,
    values: &[&'static str],
) -> Vec<Vec<metrics::Label>> {
    let with = |before: &Vec<metrics::Label>, value| {
        let mut labels = before.clone();
        labels.push(metrics::Label::new(name, value));
        labels
    };
    series
        .iter()
        .flat_map(|before| values.iter().map(move |value| with(before, *value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;

    metric_table! {
        TABLE;
        ENDS = Counter "ends_total" ["kind", "how": "well" "badly"] "Ends.";
        AGE = Gauge "age_seconds" [] "Age.";
    }

    #[test]
    fn a_table_has_names_kinds_labels_and_what_values_they_have() {
        assert_eq!((ENDS, AGE), ("ends_total", "age_seconds"));
        assert_eq!(TABLE[0].labels[0].values, &[] as &[&str]);
        assert_eq!(TABLE[0].labels[1].values, ["well", "badly"]);
        assert_eq!(TABLE[1].kind, MetricKind::Gauge);
    }

    #[test]
    fn a_counter_starts_at_zero_for_each_value_that_it_can_have() {
        let recorder = PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || {
            describe(TABLE);
            start_at_zero(TABLE, &[ENDS], &[("kind", "pods")]);
        });
        let text = recorder.handle().render();
        for line in [
            "# HELP ends_total Ends.\n",
            "ends_total{kind=\"pods\",how=\"well\"} 0\n",
            "ends_total{kind=\"pods\",how=\"badly\"} 0\n",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert!(!text.contains(AGE), "only what was named: {text}");
    }
}
