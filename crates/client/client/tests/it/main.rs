//! The integration tests of this crate, one module for each subject, in one binary, since each
//! binary is compiled and linked by itself. `group_tcp` is a separate binary because it forks.

mod bounds;
mod calls;
mod collective;
mod copy;
mod cursor;
mod data;
mod fake;
mod group_threads;
mod lists;
mod planner;
mod reservations;
mod slow;
mod sync_all;
mod unlock;
mod views;
