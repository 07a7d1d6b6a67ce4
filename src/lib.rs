//! Mainstay: highly available MySQL on Kubernetes.
pub mod api;
pub mod client;
pub mod instance;
pub mod mysql;
pub mod operator;
pub mod runtime;
