//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself.

mod calls;
mod examples;
mod support;
mod symbols;
