//! A cluster of processes and its mounts, for the suites.

pub(crate) mod kill;
pub mod mount;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use braid_crash_tests::{
    braid::Braid,
    cluster::{Cluster, Victim},
};

use self::mount::Mount;

/// How long a process may be in an uninterruptible wait for a mount when nothing is killed any more.
const WAIT_MAX: Duration = Duration::from_secs(45);

/// I/O daemons of the cluster.
pub const IODS: usize = 4;

/// A running cluster, mounted so many times.
pub struct Stage {
    // Before the cluster: unmounting asks the servers.
    /// The mounts.
    pub mounts: Vec<Mount>,
    /// The servers.
    pub cluster: Cluster,
    dir: PathBuf,
}

impl Stage {
    /// A new cluster in a new directory.
    pub fn start(braid: &Braid, dir: &Path, mounts: usize) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        let cluster = Cluster::start(braid, &dir, IODS)?;
        let (mds, key) = cluster.contact();
        let point = |at: usize| dir.join(format!("m{at}"));
        let mounts = (0..mounts).map(|at| Mount::start(braid, point(at), &mds, &key, &[])).collect::<Result<_>>()?;
        Ok(Self { mounts, cluster, dir })
    }

    /// One mount more, of this name and with these options.
    pub fn another(&self, braid: &Braid, name: &str, options: &[&str]) -> Result<Mount> {
        let (mds, key) = self.cluster.contact();
        Mount::start(braid, self.dir.join(name), &mds, &key, options)
    }

    /// The directory of this name by every mount; it is made.
    pub fn dirs(&self, name: &str) -> Result<Vec<PathBuf>> {
        let dirs: Vec<PathBuf> = self.mounts.iter().map(|mount| mount.point().join(name)).collect();
        std::fs::create_dir_all(&dirs[0])?;
        Ok(dirs)
    }

    /// Everything runs, `braid fsck` finds nothing, nobody hangs.
    pub fn check(&mut self) -> Result<()> {
        self.cluster.check_alive()?;
        self.mounts.iter_mut().try_for_each(Mount::check_alive)?;
        nobody_hangs()?;
        self.cluster.fsck()
    }

    /// Where it lies.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every process of it, for who chooses one to kill.
    pub fn victims(&self) -> Vec<Target> {
        let iods = (0..self.cluster.iods()).map(|iod| Target::Server(Victim::Iod(iod)));
        let mounts = (0..self.mounts.len()).map(Target::Mount);
        // As often the metadata server as all I/O daemons.
        std::iter::repeat_n(Target::Server(Victim::Mds), IODS).chain(iods).chain(mounts).collect()
    }
}

/// A process that may be killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// One of the cluster.
    Server(Victim),
    /// The process of this mount.
    Mount(usize),
}

/// No process stays in an uninterruptible wait for a mount.
fn nobody_hangs() -> Result<()> {
    let started = Instant::now();
    loop {
        let hanging = hanging()?;
        if hanging.is_empty() {
            return Ok(());
        }
        ensure!(started.elapsed() < WAIT_MAX, "in D state after {} s: {}", WAIT_MAX.as_secs(), hanging.join(", "));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Processes that wait in the kernel for an answer of FUSE and cannot be interrupted.
fn hanging() -> Result<Vec<String>> {
    let mut hanging = Vec::new();
    for entry in std::fs::read_dir("/proc")?.filter_map(std::result::Result::ok) {
        // Processes end while they are looked at.
        let read = |name: &str| std::fs::read_to_string(entry.path().join(name)).unwrap_or_default();
        let state = read("stat").rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('D'));
        let place = if state { read("wchan") } else { String::new() };
        if ["fuse", "request_wait_answer"].iter().any(|word| place.contains(word)) {
            hanging.push(format!("{} ({}) in {place}", entry.file_name().to_string_lossy(), read("comm").trim()));
        }
    }
    Ok(hanging)
}
