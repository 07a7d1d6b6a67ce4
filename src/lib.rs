//! Mainstay: highly available MySQL on Kubernetes, and the operator runtime that it is built on.
//!
//! `client` speaks to an API server, [`runtime`] is an operator's machinery, `api` the custom
//! resources, [`operator`] what keeps them as their specs say, [`instance`] the manager inside each
//! MySQL pod, [`mysql`] what is known of MySQL. [`sync`] is what tasks tell each other by.

pub mod api;
pub mod apiserver;
pub mod cli;
pub mod client;
pub mod instance;
pub mod mysql;
pub mod operator;
pub mod runtime;
pub mod sandbox;
pub mod sync;
