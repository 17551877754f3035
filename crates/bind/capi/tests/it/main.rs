//! The integration tests of this crate, one module per subject, in one binary: each further binary
//! costs a compilation and a link.

mod calls;
mod examples;
mod support;
mod symbols;
