//! CustomResourceDefinitions: structural schemas, and what is made of them.

mod cel;
mod definition;
mod gotext;
mod node;
mod pattern;
mod report;
mod shape;
mod structural;
mod validate;

pub(crate) use definition::Definition;
pub(crate) use structural::Structural;

#[cfg(test)]
mod tests;
