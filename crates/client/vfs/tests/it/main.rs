//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself. `lost` and `bounds` leave clients that wait for daemons which never come back;
//! they would hold up the one service thread that all clients of a process share.

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
