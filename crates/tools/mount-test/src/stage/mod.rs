//! A cluster of processes and its mounts, for the suites.

pub mod disks;
pub(crate) mod kill;
pub mod mount;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result};
use braid_testbed::{
    braid::Braid,
    cluster::{Cluster, DataDirectories, Victim},
    wait::until,
};

use self::{disks::Disk, mount::Mount};

/// Maximum time that a process may be in an uninterruptible wait for a mount after all kills.
const WAIT_MAX: Duration = Duration::from_secs(45);

/// Number of I/O daemons of the cluster.
pub const IODS: usize = 4;

/// A running cluster and its mounts.
pub struct TestCluster {
    /// The mounts; dropped before the cluster, since an unmount sends requests to the servers.
    pub mounts: Vec<Mount>,
    /// The servers.
    pub cluster: Cluster,
    /// Its disks, if it has its own: of the metadata server, then of each I/O daemon.
    pub disks: Vec<Disk>,
    dir: PathBuf,
}

impl TestCluster {
    /// Starts a new cluster in a new directory.
    pub fn start(braid: &Braid, dir: &Path, mounts: usize) -> Result<Self> {
        Self::start_at(braid, dir, DataDirectories::below(dir, IODS), Vec::new(), mounts)
    }

    /// Starts a new cluster in which every process has its own disk of this size.
    pub fn on_disks(braid: &Braid, dir: &Path, bytes: u64, mounts: usize) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let named = |name: String| Disk::make(&dir.join(name), bytes);
        let disks = std::iter::once("disk-meta".to_owned())
            .chain((0..IODS).map(|iod| format!("disk{iod}")));
        let disks = disks.map(named).collect::<Result<Vec<_>>>()?;
        // Below the top directory, which has entries of the disk (`lost+found`).
        let mut places = disks.iter().map(|disk| disk.point().join("data"));
        let places =
            DataDirectories { meta: places.next().unwrap_or_default(), iods: places.collect() };
        Self::start_at(braid, dir, places, disks, mounts)
    }

    fn start_at(
        braid: &Braid,
        dir: &Path,
        places: DataDirectories,
        disks: Vec<Disk>,
        mounts: usize,
    ) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let dir = dir.canonicalize()?;
        let cluster = Cluster::start_at(braid, &dir, places)?;
        let (mds, key) = cluster.contact();
        let point = |at: usize| dir.join(format!("m{at}"));
        let mounts = (0..mounts)
            .map(|at| Mount::start(braid, point(at), &mds, &key, &[]))
            .collect::<Result<_>>()?;
        Ok(Self { mounts, cluster, disks, dir })
    }

    /// Mounts it once more, with this name and these options.
    pub fn mount_again(&self, braid: &Braid, name: &str, options: &[&str]) -> Result<Mount> {
        let (mds, key) = self.cluster.contact();
        Mount::start(braid, self.dir.join(name), &mds, &key, options)
    }

    /// Creates the directory of this name; returns its path through every mount.
    pub fn dirs(&self, name: &str) -> Result<Vec<PathBuf>> {
        let dirs: Vec<PathBuf> = self.mounts.iter().map(|mount| mount.point().join(name)).collect();
        std::fs::create_dir_all(&dirs[0])?;
        Ok(dirs)
    }

    /// Every process runs, `braid fsck` finds nothing, and no process hangs.
    pub fn check(&mut self) -> Result<()> {
        self.cluster.check_alive()?;
        self.mounts.iter_mut().try_for_each(Mount::check_alive)?;
        check_no_hung_process(&self.dir)?;
        self.cluster.fsck()
    }

    /// The disks of the I/O daemons.
    pub fn data_disks(&self) -> &[Disk] {
        self.disks.get(1..).unwrap_or_default()
    }

    /// The host of an I/O daemon loses its power and comes back: what was not synced there is lost.
    pub fn power_off_iod(&mut self, iod: usize) -> Result<()> {
        self.cluster.kill(Victim::Iod(iod));
        self.disks[1 + iod].lose_power()?;
        self.cluster.restart(Victim::Iod(iod))
    }

    /// All hosts lose their power at the same time, also that of the mounts, and come back.
    pub fn power_off(&mut self) -> Result<()> {
        // First the mounts: from then on no call is acknowledged.
        self.mounts.iter_mut().for_each(Mount::kill);
        let servers = || std::iter::once(Victim::Mds).chain((0..IODS).map(Victim::Iod));
        servers().for_each(|server| self.cluster.kill(server));
        self.disks.iter_mut().try_for_each(Disk::lose_power)?;
        servers().try_for_each(|server| self.cluster.restart(server))?;
        self.mounts.iter_mut().try_for_each(Mount::restart)
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Every process of it that may be killed.
    pub fn victims(&self) -> Vec<Target> {
        let iods = (0..self.cluster.iods()).map(|iod| Target::Server(Victim::Iod(iod)));
        let mounts = (0..self.mounts.len()).map(Target::Mount);
        // The metadata server as often as all I/O daemons together.
        std::iter::repeat_n(Target::Server(Victim::Mds), IODS).chain(iods).chain(mounts).collect()
    }
}

/// A process that may be killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A server of the cluster.
    Server(Victim),
    /// The process of this mount.
    Mount(usize),
}

/// No process stays in an uninterruptible wait for one of our mounts.
fn check_no_hung_process(dir: &Path) -> Result<()> {
    let mut last = Vec::new();
    let none = until("no process is in D state", WAIT_MAX, || {
        last = hung_processes(dir)?;
        Ok(last.is_empty())
    });
    none.map(drop).with_context(|| last.join(", "))
}

/// Processes that wait in the kernel for a FUSE reply and cannot be interrupted: our descendants,
/// and orphans whose command line names our directory. Other processes of this machine use other
/// mounts.
fn hung_processes(dir: &Path) -> Result<Vec<String>> {
    let mut hanging = Vec::new();
    for entry in std::fs::read_dir("/proc")?.filter_map(std::result::Result::ok) {
        // Processes may end meanwhile.
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let Some((state, _)) = state_and_parent(&entry.path()) else { continue };
        let place = if state == "D" { read("wchan") } else { Vec::new() };
        let waits =
            ["fuse", "request_wait_answer"].iter().any(|word| holds(&place, word.as_bytes()));
        if waits
            && (is_ours(&entry.path())
                || holds(&read("cmdline"), dir.as_os_str().as_encoded_bytes()))
        {
            let (name, place) = (read("comm"), String::from_utf8_lossy(&place).into_owned());
            let name = String::from_utf8_lossy(&name).trim().to_owned();
            hanging.push(format!("{} ({name}) in {place}", entry.file_name().to_string_lossy()));
        }
    }
    Ok(hanging)
}

fn holds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Whether this process is an ancestor.
fn is_ours(process: &Path) -> bool {
    let (mut process, own) = (process.to_owned(), std::process::id().to_string());
    while let Some((_, parent)) = state_and_parent(&process) {
        if parent == own {
            return true;
        }
        process = Path::new("/proc").join(parent);
    }
    false
}

/// The second and third field behind the name, which may contain any character.
fn state_and_parent(process: &Path) -> Option<(String, String)> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned);
    Some((fields.next()?, fields.next()?))
}
