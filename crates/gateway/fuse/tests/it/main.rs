//! The integration tests of this crate, one module for each subject. They share one binary, since
//! each binary is compiled and linked separately.

mod harness;
mod io_uring;
mod killed;
mod locks;
mod mappings;
mod mount;
mod notifications;
mod passthrough;
mod pipe;
mod programs_calls;
mod requests;
mod signals;
mod support;
mod union;
mod union_listings;
mod union_notices;
mod write_back;
