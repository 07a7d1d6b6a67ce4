//! A local node.

mod kinds;
mod machine;
mod schedule;
