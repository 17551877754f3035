//! The rate of copies in the client's memory: each byte of a read or write is copied at least once.

use std::hint::black_box;

use super::limit;
use crate::{
    bench::Bench,
    error::Result,
    report::{Limit, LimitKind},
    sample::{Step, rate},
};

/// Larger than the caches of most processors, so that memory is measured.
const BUFFER_BYTES: usize = 32 << 20;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Limit> {
    let (from, mut to) = (vec![1_u8; BUFFER_BYTES], vec![0_u8; BUFFER_BYTES]);
    let copy = || {
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        Ok(BUFFER_BYTES as u64)
    };
    let sample = rate(bench, bench.limit_sample, &mut [Step(copy)])?;
    let how = "one thread copies 32 MiB";
    Ok(limit(LimitKind::Memory, None, "copying in this machine's memory".into(), how, sample))
}
