//! `mainstay demo`: the whole system at work on one machine, with nothing installed.

mod access;
mod error;
mod folder;
mod gather;
mod kinds;
mod ledger;
mod lines;
mod observer;
mod operators;
mod play;
mod random;
mod screen;
mod script;
mod snapshot;
mod sql;
mod summary;
mod text;
mod until;
