//! The integration tests of this crate, one module per subject, in one binary: each further binary
//! costs a compilation and a link.

mod calls;
mod fortran;
mod mpi;
mod patterns;
mod rule;
#[path = "../../../capi/tests/it/support/mod.rs"]
mod support;
