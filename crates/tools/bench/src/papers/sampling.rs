//! Counters of a sample: time, processors, TCP.

use std::time::{Duration, Instant};

use anyhow::Result;
use braid_netlab::{Counters, Lab};

use super::{Papers, Sample};

const GIB: f64 = (1_u64 << 30) as f64;

/// Counts from its creation on.
pub struct Sampling {
    counters: Counters,
    cpu: Duration,
    start: Instant,
}

impl Sampling {
    /// The clock starts last.
    pub fn start(papers: &Papers, lab: &Lab) -> Result<Self> {
        let (counters, cpu) = (lab.counters()?, papers.cpu.now()?);
        Ok(Self { counters, cpu, start: Instant::now() })
    }

    /// Ends a sample of this many bytes.
    pub fn end(self, papers: &Papers, lab: &Lab, bytes: u64) -> Result<Sample> {
        let seconds = self.start.elapsed().as_secs_f64();
        let cpu = papers.cpu.now()?.saturating_sub(self.cpu);
        let counted = lab.counters()? - self.counters;
        Ok(Sample {
            mb_per_second: bytes as f64 / 1e6 / seconds,
            cpu_per_gib: cpu.as_secs_f64() / (bytes as f64 / GIB),
            retransmits: counted.retransmits as f64,
            timeouts: counted.timeouts as f64,
        })
    }
}
