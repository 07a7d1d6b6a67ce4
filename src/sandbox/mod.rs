//! A world in one process: a node that runs pods as processes or as models, modelled MySQL servers,
//! faults. It is for `demo` and the tests; nothing else knows it.

pub mod demo;
mod in_memory;
mod instance;
mod mysql;
mod node;

pub use in_memory::InMemory;
pub use instance::{InstanceSpec, ModelledInstance};
pub use mysql::{Acknowledged, Gtid, Mysqls, Pace, Row, Volume, Written};
pub use node::{Models, Node, NodeOptions, PodFacts, ProcessOptions, Processes, Runtime};
