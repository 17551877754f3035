//! The integration tests of this crate, one module for each subject, in one binary: every further
//! binary is compiled and linked by itself.

mod conformance;
mod damage;
mod directory;
mod power;
