//! `mainstay demo`: the whole system at work on one machine, with nothing installed.

mod ledger;
mod lines;
mod screen;
mod script;
mod snapshot;
mod summary;
mod text;
