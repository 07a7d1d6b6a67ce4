//! What replicas say of themselves, by and by.

use serde::Serialize;

/// What one replica said at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Reading {
    /// Whether it led.
    pub(crate) leads: bool,
    /// Bytes.
    pub(crate) resident: f64,
    pub(crate) fds: f64,
    pub(crate) tasks: f64,
    /// Keys that were ready.
    pub(crate) depth: f64,
    /// Bytes of the caches.
    pub(crate) caches: f64,
    /// Seconds since its start.
    pub(crate) cpu: f64,
    /// Since its start.
    pub(crate) reconciles: f64,
    /// Times that it became the leader, stopped being it, or saw another become it.
    pub(crate) transitions: f64,
    /// Events that were not written, since its start.
    pub(crate) dropped: f64,
    /// Instances that it hears.
    pub(crate) heard: f64,
}

impl Reading {
    /// Out of a page of metrics; `None` where it is none.
    pub(crate) fn of(page: &str) -> Option<Self> {
        Some(Self {
            leads: sum(page, "mainstay_leader")? > 0.0,
            resident: sum(page, "process_resident_memory_bytes")?,
            fds: sum(page, "process_open_fds")?,
            tasks: sum(page, "mainstay_runtime_tasks")?,
            depth: sum(page, "workqueue_depth")?,
            caches: sum(page, "mainstay_store_bytes")?,
            cpu: sum(page, "process_cpu_seconds_total")?,
            reconciles: sum(page, "reconcile_total")?,
            transitions: sum(page, "mainstay_leader_transitions_total")?,
            dropped: sum(page, "mainstay_events_dropped_total")?,
            // Of a leader only.
            heard: sum(page, "mainstay_cluster_instances_heard").unwrap_or(0.0),
        })
    }
}

/// The sum of all series of that name; `None` where there is none.
fn sum(page: &str, name: &str) -> Option<f64> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?;
        let of = rest.starts_with(['{', ' ']);
        of.then(|| rest.rsplit(' ').next()?.parse::<f64>().ok())?
    };
    let mut values = page.lines().filter_map(value).peekable();
    values.peek()?;
    Some(values.sum())
}

/// All replicas at one time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Sample {
    /// Seconds since the beginning.
    pub(crate) at: f64,
    /// What was wrong then.
    pub(crate) trouble: Option<&'static str>,
    /// `None` for one that did not answer.
    pub(crate) replicas: Vec<Option<Reading>>,
}

/// What was wrong, from when to when.
pub(crate) fn troubles(samples: &[Sample]) -> Vec<(&'static str, f64, f64)> {
    let mut spans: Vec<(&'static str, f64, f64)> = Vec::new();
    let mut before = None;
    for sample in samples {
        if let Some(trouble) = sample.trouble {
            match spans.last_mut() {
                Some(span) if before == Some(trouble) => span.2 = sample.at,
                _ => spans.push((trouble, sample.at, sample.at)),
            }
        }
        before = sample.trouble;
    }
    spans
}

/// What is drawn and judged.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) of: fn(&Reading) -> f64,
    /// Whether it depends on who leads, so that leaders and standbys are judged apart. Memory that a
    /// replica needed to lead it does not give back: it is judged by replica.
    pub(crate) by_role: bool,
    /// How much it may rise from the second quarter of the time to the last; `None` where only its
    /// bounds are of interest.
    pub(crate) rise: Option<f64>,
}

pub(crate) const MEASURES: [Measure; 4] = [
    Measure {
        name: "resident MiB",
        of: |it| it.resident / f64::from(1 << 20),
        by_role: false,
        rise: Some(3.0),
    },
    Measure {
        name: "file descriptors",
        of: |it| it.fds,
        by_role: true,
        rise: Some(3.0),
    },
    Measure {
        name: "tasks",
        of: |it| it.tasks,
        by_role: true,
        rise: Some(6.0),
    },
    Measure {
        name: "keys that wait",
        of: |it| it.depth,
        by_role: true,
        rise: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_of_a_name_are_added_and_those_of_longer_names_are_not() {
        let page = "# TYPE a gauge\na{x=\"1\"} 2\na{x=\"b c\"} 3.5\nab 100\n";
        assert_eq!(sum(page, "a"), Some(5.5));
        assert_eq!(sum(page, "ab"), Some(100.0));
        assert_eq!(sum(page, "b"), None);
        assert_eq!(Reading::of(page), None);
    }
}
