//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself.

mod conformance;
mod damage;
mod directory;
mod power;
