//! A Kubernetes API server in memory, over real HTTP.
//!
//! It serves JSON objects and knows nothing of MySQL. The object logic is pure: a state, a request
//! and the time give an answer and events; sockets stand around it and are thin. Faults are made at
//! its edge, by client, verb, resource and share.
//!
//! `registry` is the table of built-in resources, `state` the object logic, `patch` and `schema` what
//! it is helped by, `http` the edge, [`faults`] what can go wrong there.

mod access;
mod audit;
mod auth;
mod discovery;
mod error;
pub mod faults;
mod http;
mod info;
mod openapi;
mod options;
mod patch;
mod pods;
mod protobuf;
mod quantity;
mod registry;
mod request;
mod schema;
mod server;
mod state;
mod table;
mod webhook;

pub use access::Access;
pub use audit::AuditEvent;
pub use error::{ApiError, Cause};
pub use faults::{Fault, Faults, Rule};
pub use info::{ColumnInfo, ResourceInfo, ScaleInfo};
pub use options::{ApiServerOptions, Client, Clock, Permission};
pub use pods::{LogOptions, PodDial, PodStream};
pub use server::ApiServer;
pub use webhook::WebhookDial;
