//! Observe, plan, act: what keeps a MySQLCluster as its spec says.

pub mod kinds;
pub mod resources;
