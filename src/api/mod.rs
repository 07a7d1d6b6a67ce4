//! The custom resources: types, schema, validation. No I/O.

pub mod crd;
mod quantity;
mod v1;

pub use quantity::{InvalidQuantity, Quantity};
pub use v1::*;
