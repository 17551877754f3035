//! Placement of processes: on any processors, or all on one.
//!
//! On one processor a message is passed on without waking an idle processor, which on virtual
//! machines costs several round trips. Both are measured, the reference always like its subject.

use std::fs;

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// The placement of a sample's processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pinning {
    /// Wherever the system schedules them.
    Free,
    /// All on the first processor that we may use.
    OneCpu,
}

impl Pinning {
    /// Both placements.
    pub const ALL: [Self; 2] = [Self::Free, Self::OneCpu];

    /// For names of measures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::OneCpu => "one_cpu",
        }
    }
}

/// Runs `work` with this thread and every thread of `pids` placed as `pinning`; then all may run as
/// before.
pub fn pinned<T>(pinning: Pinning, pids: &[u32], work: impl FnOnce() -> Result<T>) -> Result<T> {
    let before = sched_getaffinity(None).context("query the processors of this program")?;
    if pinning == Pinning::Free {
        return work();
    }
    place(pids, &first_of(&before))?;
    let result = work();
    place(pids, &before)?;
    result
}

fn first_of(all: &CpuSet) -> CpuSet {
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).unwrap_or_default());
    one
}

/// New threads inherit the placement of the thread that starts them.
fn place(pids: &[u32], cpus: &CpuSet) -> Result<()> {
    sched_setaffinity(None, cpus).context("pin this thread")?;
    for thread in pids.iter().flat_map(|pid| threads(*pid)) {
        // A thread that has ended meanwhile needs no placement.
        let _ = sched_setaffinity(Some(thread), cpus);
    }
    Ok(())
}

fn threads(pid: u32) -> Vec<Pid> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| Pid::from_raw(task.file_name().to_str()?.parse().ok()?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_processor_during_the_work_and_all_after_it() {
        let before = sched_getaffinity(None).unwrap().count();
        let during = pinned(Pinning::OneCpu, &[], || Ok(sched_getaffinity(None)?.count())).unwrap();
        assert_eq!(during, 1);
        assert_eq!(sched_getaffinity(None).unwrap().count(), before);
    }
}
