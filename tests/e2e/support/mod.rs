//! What the scenarios share: `kubectl`, waiting, the cluster under test, and the writer's ledger.

mod command;
mod demo;
mod ledger;
mod metrics;
mod suite;
mod wait;

pub(crate) use command::nodes_script;
pub(crate) use demo::{Demo, OPERATOR, State, condition, name, text};
pub(crate) use metrics::Metrics;
pub(crate) use suite::demo;
pub(crate) use wait::{seconds, until};

/// Prints a line for the reader of a run, figures above all. The test runner captures what `print!`
/// and `eprint!` write, and shows it for failures only.
macro_rules! tell {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        // A line that can't be printed fails no test.
        let _ = writeln!(std::io::stderr(), "    {}", format_args!($($text)*));
    }};
}
pub(crate) use tell;
