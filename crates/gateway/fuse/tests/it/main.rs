//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself.

mod harness;
mod io_uring;
mod killed;
mod locks;
mod mappings;
mod mount;
mod notifications;
mod pipe;
mod programs_calls;
mod requests;
mod signals;
mod support;
mod write_back;
