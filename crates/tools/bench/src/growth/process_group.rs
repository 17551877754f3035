//! CPU time of the servers by kind; the rest of all processes' time is the clients'.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::cpu::{CpuMeter, group_time, time_of};

/// CPU time of some daemons: from a control group below the run's, or in hundredths of a second
/// from the process table.
#[derive(Debug)]
pub struct ProcessGroup {
    group: Option<PathBuf>,
    pids: Vec<u32>,
}

impl ProcessGroup {
    /// Without daemons.
    pub fn new(meter: &CpuMeter, name: &str) -> Result<Self> {
        let group = meter.group_path().map(|above| above.join(name));
        if let Some(group) = &group {
            fs::create_dir(group)
                .with_context(|| format!("make the control group {}", group.display()))?;
        }
        Ok(Self { group, pids: Vec::new() })
    }

    /// Adds processes that are not in it yet.
    pub fn add(&mut self, pids: &[u32]) -> Result<()> {
        for pid in pids {
            if !self.pids.contains(pid) {
                self.pids.push(*pid);
                if let Some(group) = &self.group {
                    enter(group, *pid)?;
                }
            }
        }
        Ok(())
    }

    /// Their CPU time since they were added.
    pub fn now(&self) -> Result<Duration> {
        match &self.group {
            Some(group) => group_time(group),
            None => time_of(&self.pids),
        }
    }
}

fn enter(group: &Path, pid: u32) -> Result<()> {
    fs::write(group.join("cgroup.procs"), pid.to_string())
        .with_context(|| format!("move process {pid} to {}", group.display()))
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // A group that cannot be removed now is removed with its parent group.
        if let Some(group) = &self.group {
            let _ = fs::remove_dir(group);
        }
    }
}
