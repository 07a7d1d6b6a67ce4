//! Builds the child objects of a cluster. Pure: a cluster in, apply bodies out.

mod stub;

pub use stub::*;
