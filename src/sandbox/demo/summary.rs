//! What a script found, as a table.

use std::fmt;
use std::time::Duration;

use super::ledger::Rows;
use super::text::{count, seconds};

/// The outcome of a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    /// What stood for MySQL, in words.
    pub(super) mysql: String,
    /// From the start of the demo until all instances were ready; `None` if they never were.
    pub(super) ready: Option<Duration>,
    /// The actions, in order.
    pub(super) trials: Vec<Trial>,
    /// Rows that were acknowledged.
    pub(super) acknowledged: u64,
    /// What each instance lacked in the end.
    pub(super) copies: Vec<Copy>,
    /// Why the script failed; `None` if it did not.
    pub(super) failure: Option<String>,
}

/// What an action led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Trial {
    /// The action, as the script has it.
    pub(super) action: String,
    /// What it was done to.
    pub(super) subject: String,
    /// From the last row that was acknowledged before to the first one after; `None` where none was
    /// written.
    pub(super) pause: Option<Duration>,
    /// The primary before.
    pub(super) before: String,
    /// The primary after.
    pub(super) after: String,
    /// Until all was over and all instances were ready again; `None` if that was not waited for.
    pub(super) ready: Option<Duration>,
}

/// What one instance has of the acknowledged rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    /// Pod name.
    pub(super) pod: String,
    /// The rows that it lacks, or why that is not known.
    pub(super) missing: Result<Rows, String>,
}

impl Summary {
    /// Whether everything was as it must be: the script went through, and every instance was looked
    /// at and has every acknowledged row.
    #[must_use]
    pub(super) fn held(&self) -> bool {
        let whole = |copy: &Copy| copy.missing.as_ref().is_ok_and(Rows::is_empty);
        self.failure.is_none() && self.ready.is_some() && self.copies.iter().all(whole)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_dash = |time: Option<Duration>| time.map_or("-".to_owned(), seconds);
        writeln!(f, "MySQL             {}", self.mysql)?;
        let after = |ready| format!("{} after the start", seconds(ready));
        let ready = self.ready.map_or("never".to_owned(), after);
        writeln!(f, "ready             {ready}")?;
        if !self.trials.is_empty() {
            let headings = [
                "action",
                "done to",
                "no write for",
                "primary",
                "ready again after",
            ];
            let rows = self.trials.iter().map(|trial| {
                let primary = if trial.before == trial.after {
                    trial.before.clone()
                } else {
                    format!("{} → {}", trial.before, trial.after)
                };
                let (pause, ready) = (or_dash(trial.pause), or_dash(trial.ready));
                [
                    trial.action.clone(),
                    trial.subject.clone(),
                    pause,
                    primary,
                    ready,
                ]
            });
            writeln!(f)?;
            write_table(f, headings, &rows.collect::<Vec<_>>())?;
            writeln!(f)?;
        }
        writeln!(f, "acknowledged rows {}", count(self.acknowledged))?;
        for copy in &self.copies {
            let found = match &copy.missing {
                Ok(missing) if missing.is_empty() => "lost 0".to_owned(),
                Ok(missing) => format!("LOST {}: {missing}", count(missing.len())),
                Err(why) => format!("NOT CHECKED: {why}"),
            };
            writeln!(f, "  on {:<13} {found}", copy.pod)?;
        }
        match (&self.failure, self.held()) {
            (Some(failure), _) => write!(f, "FAILED: {failure}"),
            (None, true) => write!(f, "all held"),
            (None, false) => write!(f, "FAILED: not everything could be shown to hold"),
        }
    }
}

fn write_table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    headings: [&str; N],
    rows: &[[String; N]],
) -> fmt::Result {
    let headings = headings.map(str::to_owned);
    let width = |column: usize| {
        let cells = rows
            .iter()
            .chain([&headings])
            .map(|row| row[column].chars().count());
        cells.max().unwrap_or_default()
    };
    for row in [&headings].into_iter().chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let padding = width(column) - cell.chars().count() + 2;
            line.push_str(cell);
            line.push_str(&" ".repeat(padding));
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Summary {
        let trial = |action: &str, pause: Option<u64>, after: &str| Trial {
            action: action.into(),
            subject: "demo-0".into(),
            pause: pause.map(Duration::from_millis),
            before: "demo-0".into(),
            after: after.into(),
            ready: Some(Duration::from_millis(4100)),
        };
        Summary {
            mysql: "modelled".into(),
            ready: Some(Duration::from_millis(3210)),
            trials: vec![
                trial("kill primary", Some(1840), "demo-2"),
                trial("scale 5", None, "demo-0"),
            ],
            acknowledged: 12_345,
            copies: vec![Copy {
                pod: "demo-0".into(),
                missing: Ok(Rows::default()),
            }],
            failure: None,
        }
    }

    #[test]
    fn a_table_of_what_was_found() {
        assert_eq!(
            good().to_string(),
            "\
MySQL             modelled
ready             3.21 s after the start

action        done to  no write for  primary          ready again after
kill primary  demo-0   1.84 s        demo-0 → demo-2  4.10 s
scale 5       demo-0   -             demo-0           4.10 s

acknowledged rows 12,345
  on demo-0        lost 0
all held"
        );
        assert!(good().held());
    }

    #[test]
    fn what_is_lost_or_not_known_does_not_hold() {
        let mut lost = good();
        lost.copies[0].missing = Ok([7, 8].into_iter().collect());
        assert!(!lost.held());
        assert!(lost.to_string().contains("LOST 2: 7-8\nFAILED: "), "{lost}");
        let mut unknown = good();
        unknown.copies[0].missing = Err("it does not answer".into());
        assert!(!unknown.held());
        assert!(
            unknown
                .to_string()
                .contains("NOT CHECKED: it does not answer\nFAILED")
        );
        let mut failed = good();
        failed.failure = Some("tour:7: not ready".into());
        assert!(!failed.held());
        assert!(failed.to_string().ends_with("FAILED: tour:7: not ready"));
        let mut never = good();
        never.ready = None;
        assert!(!never.held());
    }
}
