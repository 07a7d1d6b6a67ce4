//! Mainstay: highly available MySQL on Kubernetes.
pub mod api;
pub mod cli;
pub mod client;
pub mod instance;
pub mod mysql;
pub mod operator;
pub mod runtime;
