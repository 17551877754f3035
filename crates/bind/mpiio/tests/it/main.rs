//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself.

mod calls;
mod fortran;
mod mpi;
mod patterns;
mod rule;
#[path = "../../../capi/tests/it/support/mod.rs"]
mod support;
