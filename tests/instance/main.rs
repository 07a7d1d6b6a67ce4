//! The instance manager with real mysqlds, as a black box: processes, HTTPS, SQL.
//!
//! `MAINSTAY_TEST_MYSQLD` names the mysqld (or a script that runs one). Without it every test is
//! skipped and says so, except that the histories are always run on modelled servers and held against
//! what a real mysqld did with them. `tests/instance/mysqld` runs one out of an unpacked root file
//! system, which `MAINSTAY_TEST_MYSQL_ROOT` names.

mod access;
mod harness;
mod histories;
mod history;
mod ledger;
mod model;
mod process;
mod roles;
mod starts;
mod stops;
