//! The integration tests of this crate, one module for each subject. They share one binary, since
//! each binary is compiled and linked separately. `lost` and `bounds` have their own: they leave
//! clients that wait for daemons that never return, which would block the service thread of all
//! clients of a process.

mod acl;
mod buffer_age;
mod buffered_large_writes;
mod buffered_writes;
mod coherence;
mod concurrent_buffered_writes;
mod consistency;
mod lazy_open;
mod locks;
mod modes;
mod operations;
mod pages;
mod read_cache;
mod reservations;
mod set_ids;
mod size_reports;
mod support;
mod sync_all;
mod uncertain_dirs;
mod unresponsive_daemons;
mod write_behind;
