//! Metrics that are read when somebody asks.

use std::fmt::Write as _;

use super::Metric;

/// A page of samples in Prometheus' text format. What is written here is as it is at this moment, and
/// what is gone (a cluster that was deleted) is not written: there is nothing to forget.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

/// The samples of one metric.
#[derive(Debug)]
pub struct Family<'a> {
    page: &'a mut Page,
    metric: &'static Metric,
    begun: bool,
}

impl Page {
    /// Goes on after what is there.
    #[must_use]
    pub fn after(text: String) -> Self {
        Self { text }
    }

    /// The samples of a metric of this table, all of them together as the format wants it.
    ///
    /// # Panics
    /// If the table has no such metric.
    pub fn family(&mut self, table: &'static [Metric], name: &str) -> Family<'_> {
        let metric = table.iter().find(|metric| metric.name == name);
        Family {
            page: self,
            metric: metric.expect("a metric that is written is in its table"),
            begun: false,
        }
    }

    /// A metric that has one sample, or none where the value is not known.
    pub fn one(&mut self, table: &'static [Metric], name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.family(table, name).sample(&[], value);
        }
    }

    /// The whole.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

impl Family<'_> {
    /// Writes a sample. `values` are those of the metric's labels, in the table's order.
    pub fn sample(&mut self, values: &[&str], value: f64) {
        let Metric {
            name,
            kind,
            labels,
            help,
        } = self.metric;
        debug_assert_eq!(labels.len(), values.len(), "labels of {name}");
        let text = &mut self.page.text;
        // Writing to a String can't fail.
        if !self.begun {
            self.begun = true;
            let kind = kind.as_str();
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        }
        text.push_str(name);
        let mut before = '{';
        for (label, value) in labels.iter().zip(values) {
            text.push(before);
            before = ',';
            text.push_str(label.name);
            text.push_str("=\"");
            escaped(text, value);
            text.push('"');
        }
        if before == ',' {
            text.push('}');
        }
        let _ = writeln!(text, " {value}");
    }
}

fn escaped(text: &mut String, value: &str) {
    for letter in value.chars() {
        match letter {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            other => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::metric_table;

    metric_table! {
        TABLE;
        READY = Gauge "ready" ["namespace", "name"] "Whether it is.";
        LAG = Gauge "lag_seconds" [] "How far.";
    }

    #[test]
    fn families_have_a_head_and_their_samples_and_what_is_not_known_is_left_out() {
        let mut page = Page::after("before 1\n".into());
        let mut ready = page.family(TABLE, READY);
        ready.sample(&["a", "b"], 1.0);
        ready.sample(&["a", "quo\"te\\\n"], 0.5);
        page.one(TABLE, LAG, None);
        let _no_samples = page.family(TABLE, LAG);
        assert_eq!(
            page.into_text(),
            "before 1\n# HELP ready Whether it is.\n# TYPE ready gauge\n\
             ready{namespace=\"a\",name=\"b\"} 1\nready{namespace=\"a\",name=\"quo\\\"te\\\\\\n\"} 0.5\n"
        );
    }
}
