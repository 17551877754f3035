//! A cluster of processes: one metadata server and four I/O daemons on loopback, from the release
//! binary.

mod metrics;
mod process;
mod servers;

use std::{
    cell::RefCell,
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use braid_client::{Client, Config, Credential, TlsPolicy};
use braid_testbed::{braid::Braid, ports::free_address, process::Process, registration};

pub use metrics::metric;
pub use process::{Daemon, Resident, resident_bytes};
pub use servers::{cpu_of_servers, wait_until_listening};

/// Number of I/O daemons.
pub const IODS: usize = 4;
/// Maximum time until the daemons are ready.
const READY_SECONDS_MAX: u64 = 60;

/// The running daemons. Dropping it stops them.
pub struct Cluster {
    /// Address of the metadata server.
    pub mds_address: String,
    /// A client key.
    pub key: PathBuf,
    braid: PathBuf,
    config: PathBuf,
    mds_metrics: String,
    mds: RefCell<Daemon>,
    iods: Vec<Daemon>,
    /// Whether those that are added are NFS data servers, too.
    iods_serve_nfs: bool,
    /// `None` when no metrics are needed.
    iod_metrics: Option<Vec<String>>,
    dir: PathBuf,
}

impl Cluster {
    /// Creates a cluster in `dir` and waits until it is ready.
    pub fn start(dir: &Path, braid: Option<&Path>) -> Result<Self> {
        let mut started = Self::start_mds_only(dir, braid)?;
        started.iod_metrics = Some(Vec::new());
        started.grow(IODS)?;
        Ok(started)
    }

    /// Without I/O daemons yet, and without metrics of those that [`Self::grow`] adds.
    pub fn start_mds_only(dir: &Path, braid: Option<&Path>) -> Result<Self> {
        let braid = braid.map_or_else(release_binary, |given| Ok(given.to_path_buf()))?;
        let (cluster, key) = (dir.join("cluster"), dir.join("bench.key"));
        let mds_address = free_address()?;
        let init =
            ["init".as_ref(), cluster.as_os_str(), "--listen".as_ref(), mds_address.as_ref()];
        Braid::at(braid.clone()).run_successfully(init)?;
        let config = cluster.join("braid.toml");
        let mds_metrics = free_address()?;
        let mds = RefCell::new(start_mds(&braid, &config, &mds_metrics)?);
        let (iods, iods_serve_nfs, iod_metrics) = (Vec::new(), false, None);
        let dir = dir.to_owned();
        let started = Self {
            mds_address,
            key,
            braid,
            config,
            mds_metrics,
            mds,
            iods,
            iods_serve_nfs,
            iod_metrics,
            dir,
        };
        started.add_key()?;
        Ok(started)
    }

    /// I/O daemons that are added from now on are NFS data servers, too.
    pub fn serve_nfs(&mut self) {
        self.iods_serve_nfs = true;
    }

    /// Adds I/O daemons up to this number, and waits until all are up.
    pub fn grow(&mut self, iods: usize) -> Result<()> {
        for ordinal in self.iods.len()..iods {
            self.add_iod(&self.dir.join(format!("iod{ordinal}")))?;
        }
        self.wait_until_up()
    }

    /// The `braid` of the cluster.
    pub fn binary(&self) -> &Path {
        &self.braid
    }

    /// A new client with connections of its own.
    pub fn client(&self, tls: TlsPolicy) -> Result<Client> {
        connect(&self.mds_address, &self.key, tls)
    }

    /// All daemons' processes, to be pinned.
    pub fn pids(&self) -> Vec<u32> {
        self.iods.iter().map(Daemon::pid).chain([self.mds.borrow().pid()]).collect()
    }

    /// The metadata server's process.
    pub fn mds_pid(&self) -> u32 {
        self.mds.borrow().pid()
    }

    /// The I/O daemons' processes.
    pub fn iod_pids(&self) -> Vec<u32> {
        self.iods.iter().map(Daemon::pid).collect()
    }

    /// A counter of each I/O daemon, by the name of its metric.
    pub fn iod_metric(&self, name: &str) -> Result<Vec<u64>> {
        self.iod_metrics.iter().flatten().map(|address| metric(address, name)).collect()
    }

    /// A counter of the metadata server.
    pub fn mds_metric(&self, name: &str) -> Result<u64> {
        metric(&self.mds_metrics, name)
    }

    /// `kill -9` of the metadata server, and a new one on its directory.
    pub fn kill_and_restart_mds(&self) -> Result<()> {
        self.kill_and_start_mds()?;
        self.wait_until_up()
    }

    /// The same, without waiting.
    pub fn kill_and_start_mds(&self) -> Result<()> {
        self.mds.borrow_mut().kill()?;
        *self.mds.borrow_mut() = start_mds(&self.braid, &self.config, &self.mds_metrics)?;
        Ok(())
    }

    fn add_key(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(READY_SECONDS_MAX);
        let [out, config] = [&self.key, &self.config].map(|path| path.as_os_str());
        let [key, add, name] = ["key", "add", "bench"].map(OsStr::new);
        let words = [key, add, name, "--out".as_ref(), out, "--config".as_ref(), config];
        loop {
            match Braid::at(self.braid.clone()).run_successfully(words) {
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => self.mds.borrow_mut().check()?,
                Ok(()) => return Ok(()),
            }
        }
    }

    fn add_iod(&mut self, dir: &Path) -> Result<()> {
        let mut command = Daemon::command(&self.braid);
        command.arg("iod").arg("--config").arg(&self.config).arg("--dir").arg(dir);
        command.args(["--init", "--listen", "127.0.0.1:0"]);
        if self.iods_serve_nfs {
            command.args(["--nfs-listen", &free_address()?]);
        }
        if let Some(all) = &mut self.iod_metrics {
            let metrics = free_address()?;
            command.args(["--metrics", &metrics]);
            all.push(metrics);
        }
        self.iods.push(Daemon::start(command, &dir.with_extension("log"))?);
        Ok(())
    }

    /// Waits until the cluster map shows every I/O daemon up.
    pub fn wait_until_up(&self) -> Result<()> {
        let client = self.client(TlsPolicy::default())?;
        let limit = Duration::from_secs(READY_SECONDS_MAX);
        registration::wait_until_up(&client, self.iods.len(), limit)
    }
}

/// A client with the identity of a key file.
pub fn connect(mds: &str, key: &Path, tls: TlsPolicy) -> Result<Client> {
    let mut config = Config::new([mds], Credential::from_key_file(key)?);
    config.tls = tls;
    Ok(Client::connect(config)?)
}

fn start_mds(braid: &Path, config: &Path, metrics: &str) -> Result<Daemon> {
    let mut command = Daemon::command(braid);
    command.arg("mds").arg("--config").arg(config).args(["--metrics", metrics]);
    Daemon::start(command, &config.with_file_name("mds.log"))
}

/// Builds `braid` like this program; returns its path, next to this program.
pub fn release_binary() -> Result<PathBuf> {
    release_build("braid-cli", &format!("braid{}", std::env::consts::EXE_SUFFIX))
        .context("try: --braid FILE")
}

/// Builds a package of the workspace like this program; returns the path of the result with this
/// name, next to this program.
pub fn release_build(package: &str, name: &str) -> Result<PathBuf> {
    let beside = std::env::current_exe()?.with_file_name(name);
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    Process::new(cargo).args(["build", "--quiet", "--release", "--package", package]).run()?;
    fs::metadata(&beside).with_context(|| format!("{} does not exist", beside.display()))?;
    Ok(beside)
}
