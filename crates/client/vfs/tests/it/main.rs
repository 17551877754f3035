//! The integration tests of this crate, one module for each subject. They share one binary, since
//! each binary is compiled and linked separately. `lost` and `bounds` have their own: they leave
//! clients that wait for daemons that never return, which would block the service thread of all
//! clients of a process.

mod acl;
mod away;
mod coherence;
mod consistency;
mod doubts;
mod gather;
mod gather_age;
mod gather_large;
mod gather_threads;
mod late;
mod locks;
mod modes;
mod operations;
mod pages;
mod room;
mod set_ids;
mod support;
mod sync_all;
mod told;
mod write_behind;
