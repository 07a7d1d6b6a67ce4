//! `mainstay metrics`: prints the documentation of the operator's metrics.

use std::io::{self, Write as _};

use crate::metric::markdown;
use crate::operator;

const HEAD: &str = "\
# Metrics of the operator

Printed by `mainstay metrics`, from the tables that the code makes them of; a test compares. `just metrics` writes it anew.

Each replica serves them at `/metrics`, those of clusters only the one that leads. A label's values are listed where they are the code's own; else they are kinds, verbs and status codes, or the namespace and name of a MySQLCluster, whose series end with it. Counters whose labels are known exist at 0 from the start. Durations are in seconds, sizes in bytes.

There are none of backups yet, as there are no backups, and the instance managers inside MySQL pods have none of their own.
";

/// Prints it as Markdown.
pub(super) fn run() -> io::Result<()> {
    let text = format!("{HEAD}{}", markdown(&operator::metrics()));
    io::stdout().lock().write_all(text.as_bytes())
}
