//! The operator runtime: list-watch loops feed an indexed store and a keyed queue that a fixed pool
//! of workers serves, under a Lease of our own.
//!
//! It knows nothing of MySQL: another operator could be built on it.

mod object;
mod stub;

pub use object::{Kind, Meta, ObjectKey, OwnerReference};
pub use stub::*;
