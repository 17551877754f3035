//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself. `library` is one of its own, since it forks.

mod bench;
mod command;
mod harness;
mod leases;
mod locks;
mod modes;
mod mount;
mod operate;
mod output;
mod parallel;
mod sync;
mod systemd;
mod watchdog;
