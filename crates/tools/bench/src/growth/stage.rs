//! A cluster, and samples of work on it.

use std::time::Duration;

use anyhow::{Context, Result};
use braid_client::{Client, TlsPolicy};
use braid_testbed::stats::Summary;
use tempfile::TempDir;

use super::{
    Growth,
    memory::{self, Memory},
    process_group::ProcessGroup,
    series::Point,
};
use crate::{
    bench::WorkCost,
    daemons::Cluster,
    pinning::{Pinning, pinned},
};

/// How often a start is tried: another process may take the free port before the daemon.
const START_TRIES: u32 = 3;

/// The amount of work of a sample.
#[derive(Clone, Copy, Debug)]
pub enum Amount {
    /// This many bytes.
    Bytes(u64),
    /// This many operations, entries or extents.
    Count(u64),
}

/// Daemons of a curve. The fields are dropped in this order: the daemons, their groups, their
/// directories.
pub struct Stage<'g> {
    pub cluster: Cluster,
    growth: &'g Growth,
    mds: ProcessGroup,
    iods: ProcessGroup,
    _dir: TempDir,
}

struct Sample {
    taken: WorkCost,
    mds: Duration,
    iods: Duration,
}

impl<'g> Stage<'g> {
    /// With this many I/O daemons.
    pub fn start(growth: &'g Growth, iods: usize) -> Result<Self> {
        let mut tries = 1..START_TRIES;
        loop {
            match Self::try_start(growth, iods) {
                Err(error) if tries.next().is_some() => eprintln!("bench: retry: {error:#}"),
                started => return started.context("start the daemons"),
            }
        }
    }

    fn try_start(growth: &'g Growth, iods: usize) -> Result<Self> {
        let bench = &growth.bench;
        let dir = tempfile::Builder::new().prefix("growth-").tempdir_in(&bench.scratch)?;
        let (mds, daemons) =
            (ProcessGroup::new(bench.meter(), "mds")?, ProcessGroup::new(bench.meter(), "iods")?);
        let cluster = Cluster::start_mds_only(dir.path(), bench.braid())?;
        let mut stage = Self { cluster, growth, mds, iods: daemons, _dir: dir };
        stage.mds.add(&[stage.cluster.mds_pid()])?;
        stage.grow(iods)?;
        Ok(stage)
    }

    /// Adds I/O daemons up to this number.
    pub fn grow(&mut self, iods: usize) -> Result<()> {
        self.cluster.grow(iods)?;
        self.iods.add(&self.cluster.iod_pids())
    }

    /// A client of this process with connections of its own.
    pub fn client(&self) -> Result<Client> {
        self.cluster.client(TlsPolicy::default())
    }

    /// Samples of the same work, and the memory afterwards.
    pub fn point(
        &self,
        size: u64,
        amount: Amount,
        buffers: u64,
        work: impl FnMut() -> Result<()>,
    ) -> Result<Point> {
        self.prepared_point(size, amount, buffers, || Ok(()), work)
    }

    /// The same for work that needs something done before each sample, which is not measured. A
    /// sample that the machine disturbed is taken once more, so their number is not known before.
    pub fn prepared_point(
        &self,
        size: u64,
        amount: Amount,
        buffers: u64,
        mut prepare: impl FnMut() -> Result<()>,
        mut work: impl FnMut() -> Result<()>,
    ) -> Result<Point> {
        let bench = &self.growth.bench;
        let mut sample = || {
            prepare()?;
            self.sample(&mut work)
        };
        let samples = bench.steal.in_turn(bench.repetitions, &mut [&mut sample])?;
        Ok(summed(size, amount, &samples[0], memory::now(&self.cluster, buffers)?))
    }

    /// The same on one processor. For calls one after the other the scheduler's choice decides
    /// whether a call costs 6 us of CPU or 25, and a curve would show that.
    pub fn calls(
        &self,
        size: u64,
        amount: Amount,
        buffers: u64,
        work: impl FnMut() -> Result<()>,
    ) -> Result<Point> {
        pinned(Pinning::OneCpu, &self.cluster.pids(), || self.point(size, amount, buffers, work))
    }

    /// The same for work that can be done only once.
    pub fn once(
        &self,
        size: u64,
        amount: Amount,
        work: impl FnOnce() -> Result<()>,
    ) -> Result<Point> {
        Ok(summed(size, amount, &[self.sample(work)?], memory::now(&self.cluster, 0)?))
    }

    fn sample(&self, work: impl FnOnce() -> Result<()>) -> Result<Sample> {
        let (mds, iods) = (self.mds.now()?, self.iods.now()?);
        let taken = self.growth.bench.take(work)?;
        Ok(Sample {
            taken,
            mds: self.mds.now()?.saturating_sub(mds),
            iods: self.iods.now()?.saturating_sub(iods),
        })
    }
}

fn summed(size: u64, amount: Amount, samples: &[Sample], memory: Memory) -> Point {
    let cost = |of: fn(&Sample) -> Duration| {
        let each = |sample: &Sample| match amount {
            Amount::Bytes(bytes) => of(sample).as_secs_f64() / (bytes as f64 / f64::from(1 << 30)),
            Amount::Count(count) => of(sample).as_secs_f64() * 1e6 / count as f64,
        };
        Summary::of(samples.iter().map(each)).expect("there is a sample")
    };
    let rate = |sample: &Sample| match amount {
        Amount::Bytes(bytes) => sample.taken.mb_per_second(bytes),
        Amount::Count(count) => sample.taken.per_second(count),
    };
    Point {
        size,
        cpu: cost(|sample| sample.taken.cpu),
        client: cost(|sample| sample.taken.cpu.saturating_sub(sample.mds + sample.iods)).median,
        mds: cost(|sample| sample.mds).median,
        iods: cost(|sample| sample.iods).median,
        rate: Summary::of(samples.iter().map(rate)).expect("there is a sample"),
        memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_servers_did_not_spend_the_client_did() {
        let seconds = Duration::from_secs;
        let taken = WorkCost { time: seconds(4), cpu: seconds(10) };
        let samples = [Sample { taken, mds: seconds(1), iods: seconds(3) }];
        let bytes = summed(7, Amount::Bytes(2 << 30), &samples, Memory::default());
        assert_eq!(
            (bytes.size, bytes.cpu.median, bytes.client, bytes.mds, bytes.iods),
            (7, 5.0, 3.0, 0.5, 1.5)
        );
        let count = summed(7, Amount::Count(1000), &samples, Memory::default());
        assert_eq!((count.cpu.median, count.client, count.rate.median), (10_000.0, 6_000.0, 250.0));
    }
}
