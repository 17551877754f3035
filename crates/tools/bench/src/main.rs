//! Benchmarks with bars, in one form.
fn main() {}
