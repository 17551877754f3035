//! The integration tests of this crate, one module per subject, in one binary, since each binary
//! costs a compilation and a link.

mod alike;
mod block_cyclic;
mod distribution;
mod model;
mod skip;
mod sweep;
mod unfold;
mod validate;
mod view;
