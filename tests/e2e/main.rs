//! The main job on a real cluster, seen from outside: everything goes through `kubectl`.
//!
//! Runs where `MAINSTAY_E2E=1` says so, against the cluster of `KUBECONFIG`, whose nodes have the
//! operator's image and MySQL's (`just e2e`). Elsewhere every scenario says that it is skipped, and
//! touches nothing. The scenarios share one MySQLCluster, `demo` in the namespace `mainstay-e2e`,
//! which is made anew at the start and left behind at the end, to be looked at. Each starts from
//! all instances ready and leaves them so; none needs another to have run before.

mod failover;
mod install;
mod operator;
mod spec;
mod support;
