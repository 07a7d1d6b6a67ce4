//! What pods and nodes are, at a glance.

use std::net::IpAddr;

use tokio::time::Instant;

/// What a pod is, at a glance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// Its address.
    pub ip: IpAddr,
    /// Its DNS name in its headless Service, where it has one.
    pub host: Option<String>,
    /// The containers that run, each with the number of its run.
    pub running: Vec<(String, u32)>,
    /// Whether it is cut off.
    pub cut: bool,
}

/// A node, as others see it.
pub(in super::super) struct NodeFacts {
    /// Counted from 0.
    pub(in super::super) index: usize,
    pub(in super::super) address: IpAddr,
    /// Since when it counts as lost.
    pub(in super::super) lost: Option<Instant>,
}
