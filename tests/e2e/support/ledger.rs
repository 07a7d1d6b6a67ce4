//! The writer (`tests/cluster/writer.yaml`) and its ledger of acknowledged rows.

use std::collections::BTreeMap;
use std::time::Duration;

use super::command::{Kubectl, repository};
use super::{seconds, tell, until};

/// A row's acknowledgement that is younger than this says that writes flow.
const FLOWING: Duration = Duration::from_secs(1);

/// The writer of the cluster under test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger {
    kubectl: Kubectl,
}

/// A moment on the writer's clock, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark(u64);

#[derive(Debug)]
struct Report(BTreeMap<String, String>);

impl Report {
    fn number(&self, name: &str) -> u64 {
        self.0
            .get(name)
            .and_then(|text| text.parse().ok())
            .unwrap_or_default()
    }

    fn time(&self, name: &str) -> Duration {
        Duration::from_micros(self.number(name))
    }
}

impl Ledger {
    /// Starts the writer, or finds it running.
    pub(super) fn start(kubectl: Kubectl) -> Self {
        let manifest = std::fs::read_to_string(repository("tests/cluster/writer.yaml"))
            .expect("it is in the repository");
        kubectl
            .apply(&manifest, &[])
            .expect("the writer's manifest is valid");
        let ledger = Self { kubectl };
        until("the writer has its first row", seconds(60), || {
            kubectl
                .run(&[
                    "wait",
                    "--for=condition=Ready",
                    "pod/writer",
                    "--timeout=5s",
                ])
                .map_err(|why| format!("{why}; the writer says: {}", ledger.complaint()))
        });
        ledger.flows(seconds(60));
        ledger
    }

    /// Now, on the writer's clock.
    pub(crate) fn mark(&self) -> Mark {
        Mark(
            self.report(Mark(0))
                .expect("the ledger can be read")
                .number("now"),
        )
    }

    /// Waits until rows are being acknowledged.
    #[track_caller]
    pub(crate) fn flows(&self, limit: Duration) {
        until("writes flow", limit, || {
            let report = self.report(Mark(0))?;
            let age = report.time("now").saturating_sub(report.time("last_at"));
            if age < FLOWING {
                Ok(())
            } else {
                Err(format!("none for {age:?}: {}", self.complaint()))
            }
        });
    }

    /// Prints how long no row was acknowledged since `mark`, and holds that to `limit`, and the
    /// rows that were acknowledged and are not there to none.
    #[track_caller]
    pub(crate) fn settle(&self, what: &str, mark: Mark, limit: Duration) {
        self.flows(seconds(60));
        let report = self.report(mark).expect("the ledger can be read");
        let (gap, missing) = (report.time("gap"), report.number("missing"));
        tell!(
            "{what}: {:.2} s without writes; of {} acknowledged rows {missing} are missing",
            gap.as_secs_f64(),
            report.number("acknowledged"),
        );
        assert_eq!(
            missing, 0,
            "acknowledged rows are lost, the first: {}",
            report.0["first_missing"]
        );
        assert!(report.number("acknowledged") > 0, "nothing was written");
        assert!(
            gap < limit,
            "{what}: no writes for {gap:?}, more than {limit:?}"
        );
    }

    /// Runs SQL as the application through one of the cluster's Services.
    pub(crate) fn sql(&self, service: &str, statements: &str) -> Result<String, String> {
        let client = format!(
            "--defaults-extra-file=/ledger/client.cnf --host={service} --batch --skip-column-names"
        );
        let command = format!("exec mysql {client} \"$database\" -e \"$0\"");
        self.kubectl
            .run(&["exec", "writer", "--", "bash", "-c", &command, statements])
    }

    fn report(&self, since: Mark) -> Result<Report, String> {
        // It exits with 1 where rows are missing, and has written its report; with 2 it has none.
        let command = "bash /writer/report \"$0\" || [ $? = 1 ]";
        let text = self.kubectl.run(&[
            "exec",
            "writer",
            "--",
            "bash",
            "-c",
            command,
            &since.0.to_string(),
        ])?;
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Ok(Report(
            lines
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
        ))
    }

    fn complaint(&self) -> String {
        self.kubectl
            .run(&["logs", "writer", "--tail=1"])
            .unwrap_or_default()
            .trim()
            .to_owned()
    }
}
