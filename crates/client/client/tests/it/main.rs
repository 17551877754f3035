//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself. `group_tcp` is one of its own, since it forks.

mod calls;
mod collective;
mod copy;
mod cursor;
mod data;
mod fake;
mod group_threads;
mod lists;
mod planner;
mod room;
mod slow;
mod sync_all;
mod unlock;
mod views;
