//! The integration tests of this crate, one module a subject, in one binary: each binary more is
//! compiled and linked by itself.

mod alike;
mod block_cyclic;
mod distribution;
mod model;
mod skip;
mod sweep;
mod unfold;
mod validate;
mod view;
