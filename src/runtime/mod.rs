//! The operator runtime: list-watch loops feed an indexed store and a keyed queue that a fixed pool
//! of workers serves, under a Lease of our own.
//!
//! It knows nothing of MySQL: another operator could be built on it. It promises, part by part:
//!
//! - [`ListWatch`] keeps a [`Store`] equal to the API server's objects and tells every change;
//! - [`Queue`] and [`Controller`] run a [`Reconciler`] for each key that changed, never twice at a time,
//!   and a [`Source`] adds keys that no watch tells of;
//! - [`Elector`] lets at most one process write at any time;
//! - [`Health`] and [`Telemetry`] say how all of it does, whatever hangs;
//! - [`EventRecorder`] tells people, [`Tasks`] owns what runs, and [`Shutdown`] stops everything.

mod backoff;
mod controller;
mod election;
mod events;
mod hash;
mod health;
mod logs;
mod metric;
mod object;
mod process;
mod queue;
mod server;
mod shutdown;
pub mod sources;
mod store;
mod tasks;
mod telemetry;
#[cfg(test)]
mod testing;
mod time;
mod watch;

pub use controller::{Controller, ControllerOptions, Outcome, ReconcileError, Reconciler};
pub use election::{ElectionOptions, Elector, Leadership, LeadershipWatch, LegacyLock};
pub use events::{EventLimits, EventRecorder, EventType, EventWriter, ObjectRef};
pub use health::{Check, Health};
pub use logs::{LogControl, LogFormat, check_filter, init_tracing, log_to_file};
pub use metric::RUNTIME_METRICS;
pub(crate) use object::kind;
pub use object::{
    Annotations, Kind, Meta, ObjectKey, OwnerReference, Pairs, PairsIter, Text, heap_bytes,
};
pub use process::PROCESS_METRICS;
pub use queue::{Finish, Item, Pause, Priority, Queue};
pub use shutdown::Shutdown;
pub use sources::Source;
pub use store::{IndexedBy, NotSynced, Objects, ObjectsIntoIter, Store};
pub use tasks::{Ended, Tasks};
pub use telemetry::Telemetry;
pub use watch::{Change, ListWatch, Scope, WatchLimits};
