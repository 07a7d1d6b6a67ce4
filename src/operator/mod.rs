//! Observe, plan, act: what keeps a MySQLCluster as its spec says.
//!
//! `process` is `mainstay run`; `service` starts the parts, `lead` opens the queue; `reconcile` runs one cluster's loop:
//! `observe` gathers plain values, `plan` decides purely, `act` and `children` write. `instances`
//! watches the MySQL servers.

mod act;
mod children;
pub mod instances;
pub mod kinds;
mod lead;
mod metric;
mod notes;
pub mod observe;
pub mod plan;
mod process;
mod reconcile;
pub mod resources;
mod service;
mod stores;
mod tuning;

pub use metric::OPERATOR_METRICS;
pub use process::{ProcessOptions, metrics, run};
pub use service::{Operator, Options, RunError};
pub use tuning::Tuning;
