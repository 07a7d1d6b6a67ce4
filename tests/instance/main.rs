//! The instance manager with real mysqlds, as a black box: processes, HTTPS, SQL.
//!
//! `MAINSTAY_TEST_MYSQLD` names the mysqld (or a script that runs one). Without it every test is
//! skipped and says so. `tests/instance/mysqld` runs one out of an unpacked root file system, which
//! `MAINSTAY_TEST_MYSQL_ROOT` names.

mod access;
mod harness;
mod ledger;
mod process;
mod roles;
mod starts;
mod stops;
