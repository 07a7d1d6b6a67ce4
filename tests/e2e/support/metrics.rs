//! The operator's own metrics.

use std::collections::BTreeMap;

use super::demo::{OPERATOR, name};

/// Samples of all operator pods, by pod and series.
#[derive(Debug)]
pub(crate) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads them through the API server.
    pub(crate) fn read() -> Self {
        let mut samples = BTreeMap::new();
        let pods = OPERATOR
            .list("pods", "app.kubernetes.io/name=mainstay")
            .expect("pods can be listed");
        for pod in &pods {
            let pod = name(pod);
            let path = format!("/api/v1/namespaces/mainstay-system/pods/{pod}:8080/proxy/metrics");
            for line in OPERATOR
                .must(&["get", "--raw", &path])
                .lines()
                .filter(|line| !line.starts_with('#'))
            {
                if let Some((series, value)) = line.rsplit_once(' ') {
                    samples.insert(format!("{pod} {series}"), value.parse().unwrap_or_default());
                }
            }
        }
        Self(samples)
    }

    /// What the counter of that name rose by since `before`: `(pod and series, rise)`, zeros left out.
    pub(crate) fn rises(&self, name: &str, before: &Self) -> Vec<(String, f64)> {
        self.named(name)
            .map(|(series, value)| (series.clone(), value - before.0.get(series).unwrap_or(&0.0)))
            .filter(|(_, rise)| *rise > 0.0)
            .collect()
    }

    /// The series of that name.
    pub(crate) fn named(&self, name: &str) -> impl Iterator<Item = (&String, &f64)> {
        self.0.iter().filter(move |(series, _)| {
            let (_, series) = series.split_once(' ').unwrap_or_default();
            series.split('{').next() == Some(name)
        })
    }
}
