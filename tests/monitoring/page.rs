//! A page of metrics, read.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use super::tables;

/// One series.
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// What a replica answers for `/metrics`.
pub(crate) struct Page {
    pub(crate) series: Vec<Series>,
    /// Kind and help by name.
    heads: BTreeMap<String, (String, String)>,
}

impl Page {
    /// Asks for it; `None` where nobody answers.
    pub(crate) fn of(address: SocketAddr) -> Option<Self> {
        let mut stream = TcpStream::connect(address).ok()?;
        let request = "GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        Some(Self::read(body))
    }

    fn read(body: &str) -> Self {
        let (mut series, mut heads) = (Vec::new(), BTreeMap::new());
        for line in body.lines().filter(|line| !line.is_empty()) {
            if let Some(head) = line.strip_prefix("# ") {
                let (what, rest) = head.split_once(' ').unwrap();
                let (name, text) = rest.split_once(' ').unwrap();
                let head: &mut (String, String) = heads.entry(name.to_owned()).or_default();
                match what {
                    "TYPE" => text.clone_into(&mut head.0),
                    "HELP" => text.clone_into(&mut head.1),
                    other => panic!("{other} in {line}"),
                }
                continue;
            }
            let (what, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = what.split_once('{').unwrap_or((what, "}"));
            // No value of ours holds a comma or a quote.
            let labels = labels.strip_suffix('}').unwrap().split(',');
            let labels = labels.filter(|label| !label.is_empty()).map(|label| {
                let (label, value) = label.split_once("=\"").unwrap();
                (
                    label.to_owned(),
                    value.strip_suffix('"').unwrap().to_owned(),
                )
            });
            series.push(Series {
                name: name.to_owned(),
                labels: labels.collect(),
                value: value.parse().unwrap(),
            });
        }
        Self { series, heads }
    }

    /// The value of the one series of this name.
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        let mut of = self.series.iter().filter(|series| series.name == name);
        let first = of.next()?.value;
        of.next().is_none().then_some(first)
    }

    /// Names of series of clusters.
    pub(crate) fn of_clusters(&self) -> Vec<&str> {
        let names = self.series.iter().map(|series| series.name.as_str());
        names
            .filter(|name| name.starts_with("mainstay_cluster_"))
            .collect()
    }

    /// Holds every series to the tables: it is in them, of that kind, with that help and exactly those
    /// labels, whose values are among those that are said. Returns the metrics that are there.
    pub(crate) fn check(&self) -> BTreeSet<&'static str> {
        let mut there = BTreeSet::new();
        for Series { name, labels, .. } in &self.series {
            let (metric, bucket) =
                tables::of_series(name).unwrap_or_else(|| panic!("{name} is in no table"));
            let (kind, help) = &self.heads[metric.name];
            assert_eq!(kind, metric.kind.as_str(), "{name}");
            assert_eq!(help, metric.help, "{name}");
            let mut expected: BTreeSet<&str> =
                metric.labels.iter().map(|label| label.name).collect();
            expected.extend(bucket.then_some("le"));
            let found: BTreeSet<&str> = labels.keys().map(String::as_str).collect();
            assert_eq!(found, expected, "labels of {name}");
            for label in metric
                .labels
                .iter()
                .filter(|label| !label.values.is_empty())
            {
                let value = labels[label.name].as_str();
                assert!(
                    label.values.contains(&value),
                    "{name}: {} is {value}",
                    label.name
                );
            }
            there.insert(metric.name);
        }
        there
    }
}
