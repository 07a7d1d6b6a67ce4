//! The custom resources: types, schema, validation. No I/O.

mod v1;

pub use v1::*;
