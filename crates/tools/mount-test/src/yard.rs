//! Cases that each make a cluster for themselves: on disks that may be full or lose their power, or with a process to watch.

use std::{path::PathBuf, time::Instant};

use anyhow::Result;
use braid_crash_tests::braid::Braid;

use crate::{
    cases::{Counts, Outcome},
    stage::{Stage, disks::Disk},
};

/// The disks of a case, each.
const DISK_BYTES: u64 = 64 << 20;

/// Where such cases run.
#[derive(Clone, Debug)]
pub struct Yard {
    /// What is tested.
    pub braid: Braid,
    /// New, and of the case alone.
    pub dir: PathBuf,
    /// The long form.
    pub full: bool,
    /// What random choices come from.
    pub seed: u64,
}

impl Yard {
    /// A cluster on small disks of its own, mounted so many times; or why there can be none.
    pub fn on_disks(&self, mounts: usize) -> Result<Result<Stage, Outcome>> {
        if let Some(why) = Disk::missing(&self.dir) {
            return Ok(Err(Outcome::Skipped(why)));
        }
        Stage::on_disks(&self.braid, &self.dir, DISK_BYTES, mounts).map(Ok)
    }
}

/// One case.
pub struct OwnCase {
    /// What is printed, and what `--only` takes.
    pub name: &'static str,
    /// Does it.
    pub run: fn(&Yard) -> Result<Outcome>,
}

/// Runs those of the cases whose names contain one of `only`, or all.
pub fn run(cases: &[OwnCase], only: &[String], yard: &Yard, counts: &mut Counts) -> Result<()> {
    let wanted = |case: &&OwnCase| {
        only.is_empty() || only.iter().any(|part| case.name.contains(part.as_str()))
    };
    for case in cases.iter().filter(wanted) {
        let started = Instant::now();
        let dir = yard.dir.join(case.name.replace("::", "-"));
        std::fs::create_dir_all(&dir)?;
        let outcome = (case.run)(&Yard { dir: dir.clone(), ..yard.clone() });
        // What failed is looked at by whoever wants to know why.
        if outcome.is_ok() {
            std::fs::remove_dir_all(dir)?;
        }
        counts.note(case.name, outcome, started.elapsed());
    }
    Ok(())
}
