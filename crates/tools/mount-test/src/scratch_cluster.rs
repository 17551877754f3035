//! Cases that each start their own cluster: on disks that may be full or lose their power, or with
//! a process to watch.

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use braid_testbed::braid::Braid;

use crate::{
    cases::{Counts, Outcome},
    stage::{TestCluster, disks::Disk},
};

/// Size of each disk of a case.
const DISK_BYTES: u64 = 64 << 20;

/// The options of such cases.
#[derive(Clone, Debug)]
pub struct ScratchCluster {
    /// The tested program.
    pub braid: Braid,
    /// A new directory for the case alone.
    pub dir: PathBuf,
    /// Whether the long form runs.
    pub full: bool,
    /// The seed of random choices.
    pub seed: u64,
}

impl ScratchCluster {
    /// A cluster on small disks of its own with this many mounts, or the reason why there can be
    /// none.
    pub fn on_disks(&self, mounts: usize) -> Result<Result<TestCluster, Outcome>> {
        if let Some(why) = Disk::missing(&self.dir) {
            return Ok(Err(Outcome::Skipped(why)));
        }
        TestCluster::on_disks(&self.braid, &self.dir, DISK_BYTES, mounts).map(Ok)
    }
}

/// One case.
pub struct ScratchCase {
    /// Its name, also for `--only`.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&ScratchCluster) -> Result<Outcome>,
}

/// Runs the cases whose names contain one of `only`, or all.
pub fn run(
    cases: &[ScratchCase],
    only: &[String],
    yard: &ScratchCluster,
    counts: &mut Counts,
) -> Result<()> {
    let wanted = |case: &&ScratchCase| {
        only.is_empty() || only.iter().any(|part| case.name.contains(part.as_str()))
    };
    for case in cases.iter().filter(wanted) {
        let started = Instant::now();
        let dir = yard.dir.join(case.name.replace("::", "-"));
        std::fs::create_dir_all(&dir)?;
        let outcome = (case.run)(&ScratchCluster { dir: dir.clone(), ..yard.clone() });
        // The files of a failed case stay, to find out the reason.
        if outcome.is_ok() {
            std::fs::remove_dir_all(dir)?;
        }
        counts.note(case.name, outcome, started.elapsed());
    }
    Ok(())
}
