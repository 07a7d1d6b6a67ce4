//! `mainstay demo`: the whole system at work on one machine, with nothing installed.

mod access;
mod error;
mod folder;
mod ledger;
mod lines;
mod operators;
mod random;
mod screen;
mod script;
mod snapshot;
mod summary;
mod text;
