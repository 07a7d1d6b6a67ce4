//! The documentation of metrics.

use std::fmt::Write as _;

use super::{Label, Metric};

/// A table for each of `parts`, which are a title and its metrics.
#[must_use]
pub fn markdown(parts: &[(&str, &[Metric])]) -> String {
    let mut text = String::new();
    // Writing to a String can't fail.
    for (title, metrics) in parts {
        let _ = write!(
            text,
            "\n## {title}\n\n| name | type | labels | meaning |\n|---|---|---|---|\n"
        );
        for metric in *metrics {
            let labels: Vec<String> = metric.labels.iter().map(label).collect();
            let _ = writeln!(
                text,
                "| `{}` | {} | {} | {} |",
                metric.name,
                metric.kind.as_str(),
                labels.join("; "),
                metric.help.replace('|', "\\|"),
            );
        }
    }
    text
}

fn label(label: &Label) -> String {
    let name = label.name;
    if label.values.is_empty() {
        format!("`{name}`")
    } else {
        format!("`{name}`: {}", label.values.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::metric_table;

    metric_table! {
        TABLE;
        ENDS = Counter "ends_total" ["kind", "how": "well" "badly"] "Ends, well|badly.";
    }

    #[test]
    fn a_metric_is_a_row() {
        assert_eq!(
            markdown(&[("Ends", TABLE)]),
            "\n## Ends\n\n| name | type | labels | meaning |\n|---|---|---|---|\n\
             | `ends_total` | counter | `kind`; `how`: well, badly | Ends, well\\|badly. |\n"
        );
        assert_eq!(ENDS, TABLE[0].name);
    }
}
