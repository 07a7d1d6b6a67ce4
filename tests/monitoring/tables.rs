//! The tables, as alerts and scrapes see them.

use mainstay::metric::{Metric, MetricKind};
use mainstay::operator::metrics;

/// Labels that a scrape adds to each series.
pub(crate) const TARGET: &[&str] = &[
    "namespace",
    "pod",
    "job",
    "instance",
    "container",
    "endpoint",
];

/// All metrics.
pub(crate) fn all() -> impl Iterator<Item = &'static Metric> {
    metrics().into_iter().flat_map(|(_, table)| table)
}

/// The metric that a series of this name is of, and whether it has the label `le`.
pub(crate) fn of_series(series: &str) -> Option<(&'static Metric, bool)> {
    if let Some(metric) = all().find(|metric| metric.name == series) {
        // A distribution has no series of its own name.
        return (metric.kind != MetricKind::Histogram).then_some((metric, false));
    }
    ["_bucket", "_sum", "_count"]
        .into_iter()
        .find_map(|suffix| {
            let base = series.strip_suffix(suffix)?;
            let metric = all().find(|metric| metric.name == base)?;
            let histogram = metric.kind == MetricKind::Histogram;
            histogram.then_some((metric, suffix == "_bucket"))
        })
}

#[test]
fn names_are_unique_and_of_the_standard() {
    let mut seen = std::collections::BTreeSet::new();
    for metric in all() {
        let name = metric.name;
        assert!(seen.insert(name), "{name} twice");
        let total = name.ends_with("_total");
        assert_eq!(total, metric.kind == MetricKind::Counter, "{name}");
        let ours = name.starts_with("mainstay_");
        let known = [
            "workqueue_",
            "reconcile_",
            "rest_client_",
            "process_",
            "leader_election_",
        ];
        assert!(
            ours || known.iter().any(|prefix| name.starts_with(prefix)),
            "{name}"
        );
        assert!(metric.help.ends_with('.'), "{name}: {}", metric.help);
    }
}
