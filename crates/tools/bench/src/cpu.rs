//! CPU time of this program and of every process that it started, user + system together.
//!
//! As root from a control group of all these processes: exact to the nanosecond, and processes that
//! have ended still count. Else from `/proc/PID/stat`, in hundredths of a second.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, bail};

/// CPU accounting of version 1 of control groups.
const GROUPS_V1: &str = "/sys/fs/cgroup/cpuacct";
/// Version 2 of control groups.
const GROUPS_V2: &str = "/sys/fs/cgroup";
/// Prefix of every group; the id of the process that made it follows.
const PREFIX: &str = "braid-bench-";
/// `USER_HZ`: the unit of times in `/proc/PID/stat`, the same on every Linux that we build for.
const TICKS_PER_SECOND: u64 = 100;

/// Counts CPU time.
#[derive(Debug)]
pub enum CpuMeter {
    /// A control group, left and removed at the end.
    Group {
        /// The group.
        group: PathBuf,
        /// The group of this process before.
        parent: PathBuf,
    },
    /// The process table: this process, children that ended, children that live.
    Processes,
}

impl CpuMeter {
    /// Must be called before any process is started: processes inherit the group.
    pub fn start() -> Self {
        Self::group(Path::new(GROUPS_V1))
            .or_else(|_| Self::group(Path::new(GROUPS_V2)))
            .unwrap_or(Self::Processes)
    }

    fn group(root: &Path) -> Result<Self> {
        if !root.join("cpuacct.usage").exists() && !root.join("cpu.stat").exists() {
            bail!("no control groups at {}", root.display());
        }
        remove_leftovers(root);
        let group = root.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&group)?;
        let entered = fs::write(group.join("cgroup.procs"), std::process::id().to_string());
        let meter = Self::Group { group, parent: root.to_path_buf() };
        entered?;
        meter.now()?;
        Ok(meter)
    }

    /// How it measures, for the head of the report.
    pub fn describe(&self) -> &'static str {
        match self {
            Self::Group { .. } => "CPU: user + system of all processes, from a control group",
            Self::Processes => "CPU: user + system of all processes, from /proc (10 ms)",
        }
    }

    /// The control group, if there is one: for groups below it, whose time counts here as well.
    pub fn group_path(&self) -> Option<&Path> {
        match self {
            Self::Group { group, .. } => Some(group),
            Self::Processes => None,
        }
    }

    /// CPU time so far.
    pub fn now(&self) -> Result<Duration> {
        match self {
            Self::Group { group, .. } => {
                // The kernel counts this thread's time since its last switch, up to 10 ms, at the
                // next switch.
                std::thread::sleep(Duration::from_micros(1));
                group_time(group)
            }
            Self::Processes => tree_time(),
        }
    }
}

impl Drop for CpuMeter {
    fn drop(&mut self) {
        if let Self::Group { group, parent } = self {
            // An empty group that cannot be removed does no harm.
            let _ = fs::write(parent.join("cgroup.procs"), std::process::id().to_string());
            let _ = fs::remove_dir(group);
        }
    }
}

/// Removes the groups of dead processes. The kernel does not remove a group with a process in it.
fn remove_leftovers(root: &Path) {
    for group in groups_below(root) {
        let owner = group
            .file_name()
            .and_then(|name| name.to_str()?.strip_prefix(PREFIX)?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove_tree(&group);
        }
    }
}

/// Separate measurements have a group below.
fn remove_tree(group: &Path) {
    groups_below(group).iter().for_each(|below| remove_tree(below));
    // It may be in use, or another process removed it first.
    let _ = fs::remove_dir(group);
}

fn groups_below(group: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(group).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

/// CPU time of a group's processes so far.
pub fn group_time(group: &Path) -> Result<Duration> {
    if let Ok(text) = fs::read_to_string(group.join("cpuacct.usage")) {
        return Ok(Duration::from_nanos(text.trim().parse()?));
    }
    usage_of_cpu_stat(&fs::read_to_string(group.join("cpu.stat"))?)
}

fn usage_of_cpu_stat(text: &str) -> Result<Duration> {
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
    Ok(Duration::from_micros(line.context("cpu.stat has no usage_usec")?.trim().parse()?))
}

/// CPU time of living processes so far.
pub fn time_of(pids: &[u32]) -> Result<Duration> {
    let stat = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|text| Stat::parse(&text))
    };
    let ticks: u64 = pids.iter().filter_map(stat).map(|stat| stat.ticks).sum();
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// This process with children that ended, and all its living descendants.
fn tree_time() -> Result<Duration> {
    let all = processes()?;
    let mut ticks = 0;
    let mut family = vec![std::process::id()];
    while let Some(pid) = family.pop() {
        let stat = all.iter().find(|stat| stat.pid == pid);
        ticks += stat.map_or(0, |stat| stat.ticks + stat.ticks_of_ended_children);
        family.extend(all.iter().filter(|stat| stat.parent == pid).map(|stat| stat.pid));
    }
    Ok(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

fn processes() -> Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc").context("CPU time is counted on Linux only")?;
    let texts =
        entries.flatten().filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    Ok(texts.filter_map(|text| Stat::parse(&text)).collect())
}

/// The times in `/proc/PID/stat`.
#[derive(PartialEq, Debug)]
struct Stat {
    pid: u32,
    parent: u32,
    ticks: u64,
    ticks_of_ended_children: u64,
}

impl Stat {
    /// The name, in parentheses, may contain spaces and parentheses: the numbers follow the last
    /// one.
    fn parse(text: &str) -> Option<Self> {
        let (head, tail) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = tail.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            pid: head.split_whitespace().next()?.parse().ok()?,
            parent: number(1)?.try_into().ok()?,
            ticks: number(11)? + number(12)?,
            ticks_of_ended_children: number(13)? + number(14)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_table_is_read_also_when_a_name_has_brackets() {
        let text = "42 (a) b (c) S 7 42 1 0 -1 4194560 145 0 0 0 11 22 3 4 20 0 1 0 1234 0 0";
        let stat = Stat { pid: 42, parent: 7, ticks: 33, ticks_of_ended_children: 7 };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("nonsense"), None);
    }

    #[test]
    fn the_usage_of_a_group_of_version_2_is_in_microseconds() {
        let text = "usage_usec 1500000\nuser_usec 1000000\nsystem_usec 500000\n";
        assert_eq!(usage_of_cpu_stat(text).unwrap(), Duration::from_millis(1500));
        assert!(usage_of_cpu_stat("nr_periods 0\n").is_err());
    }

    #[test]
    fn groups_of_the_dead_are_removed_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        // No process ever has this id: Linux numbers them up to 4,194,304.
        let (dead, alive) =
            (format!("{PREFIX}{}", u32::MAX), format!("{PREFIX}{}", std::process::id()));
        let (below, others) = (format!("{dead}/client/tasks"), "braid-bench-x");
        for group in [&below, &alive, others, "system.slice"] {
            fs::create_dir_all(root.path().join(group)).unwrap();
        }
        remove_leftovers(root.path());
        let mut left: Vec<_> =
            fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected = [alive.as_str(), others, "system.slice"];
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn work_of_this_process_is_counted() {
        let before = tree_time().unwrap();
        let mut spun = 0_u64;
        while tree_time().unwrap() == before {
            spun = std::hint::black_box(spun + 1);
        }
        assert!(tree_time().unwrap() > before, "after {spun} turns");
    }
}
