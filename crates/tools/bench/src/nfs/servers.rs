//! The servers of the rows on loopback: a cluster with data servers and a gateway, and nfs-ganesha
//! on a directory.

use std::{fs, net::SocketAddr, path::Path};

use anyhow::{Context, Result};
use braid_mount_tests::stage::mount::Mount as FuseMount;
use braid_testbed::{braid::Braid, ports::free_address};
use tempfile::TempDir;

use crate::{
    bench::Bench,
    daemons::{Cluster, Daemon, wait_until_listening},
};

/// nfs-ganesha's program.
const GANESHA: &str = "/usr/bin/ganesha.nfsd";
/// The directory that nfs-ganesha exports, as clients see it.
pub const GANESHA_EXPORT: &str = "export";

/// A cluster with NFS data servers, and a gateway. The fields are dropped in this order.
pub struct Servers {
    gateway: Daemon,
    /// Where the gateway listens.
    pub address: SocketAddr,
    /// The cluster.
    pub cluster: Cluster,
    dir: TempDir,
}

impl Servers {
    /// With this many I/O daemons, below the scratch directory of the run.
    pub fn start(bench: &Bench, iods: usize) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("nfs-").tempdir_in(&bench.scratch)?;
        let mut cluster = Cluster::start_mds_only(dir.path(), bench.braid())?;
        cluster.serve_nfs();
        cluster.grow(iods)?;
        let listen = free_address()?;
        let mut command = Daemon::command(cluster.binary());
        command.args(["nfs", "--listen", &listen, "--export", "/=*,sec=sys,squash=none"]);
        command.args(["--mds", &cluster.mds_address, "--key"]).arg(&cluster.key);
        let mut gateway = Daemon::start(command, &dir.path().join("gateway.log"))?;
        let address = wait_until_listening(&listen, &mut gateway)?;
        Ok(Self { gateway, address, cluster, dir })
    }

    /// The gateway's process.
    pub fn gateway_pid(&self) -> u32 {
        self.gateway.pid()
    }

    /// A mount of the cluster.
    pub fn mount(&self) -> Result<FuseMount> {
        let braid = Braid::at(self.cluster.binary().to_owned());
        let point = self.dir.path().join("mount");
        FuseMount::start(&braid, point, &self.cluster.mds_address, &self.cluster.key, &[])
            .context("mount BraidFS for nfs-ganesha")
    }
}

/// nfs-ganesha on one directory.
pub struct Ganesha {
    _daemon: Daemon,
    /// Where it listens.
    pub address: SocketAddr,
    _dir: TempDir,
}

impl Ganesha {
    /// Why it cannot be measured here, if it cannot.
    pub fn missing() -> Option<String> {
        if !Path::new(GANESHA).exists() {
            return Some(format!("{GANESHA} is not installed: rows without nfs-ganesha"));
        }
        (!rustix::process::geteuid().is_root())
            .then(|| "not root: rows without nfs-ganesha".to_owned())
    }

    /// Exports `directory` with the FSAL for any file system (VFS).
    pub fn start(bench: &Bench, directory: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("ganesha-").tempdir_in(&bench.scratch)?;
        let (config, recovery) = (dir.path().join("ganesha.conf"), dir.path().join("recovery"));
        fs::create_dir(&recovery)?;
        let listen = free_address()?;
        let (host, port) = listen.rsplit_once(':').context("an address has a port")?;
        fs::write(&config, configuration(host, port, directory, &recovery))?;
        let mut command = Daemon::command(Path::new(GANESHA));
        command.arg("-F").arg("-f").arg(&config).arg("-L").arg(dir.path().join("ganesha.log"));
        command.arg("-p").arg(dir.path().join("pid")).args(["-N", "NIV_EVENT"]);
        let mut daemon = Daemon::start(command, &dir.path().join("output.log"))?;
        let address = wait_until_listening(&listen, &mut daemon).context("start nfs-ganesha")?;
        Ok(Self { _daemon: daemon, address, _dir: dir })
    }
}

/// NFSv4 only, without rpcbind and D-Bus; the lease of the gateway's default.
fn configuration(host: &str, port: &str, directory: &Path, recovery: &Path) -> String {
    format!(
        "NFS_CORE_PARAM {{ Bind_addr = {host}; NFS_Port = {port}; Protocols = 4;\n\
         Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; fsid_device = true; }}\n\
         NFSv4 {{ Graceless = true; Only_Numeric_Owners = true; Lease_Lifetime = 60;\n\
         RecoveryBackend = fs; RecoveryRoot = {}; }}\n\
         EXPORT {{ Export_Id = 1; Path = {}; Pseudo = /{GANESHA_EXPORT}; Access_Type = RW;\n\
         Squash = No_Root_Squash; SecType = sys; Protocols = 4; Transports = TCP;\n\
         FSAL {{ Name = VFS; }} }}\n",
        recovery.display(),
        directory.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ganesha_exports_one_directory_on_one_address() {
        let text = configuration("127.0.0.1", "2049", Path::new("/a/b"), Path::new("/r"));
        for part in ["NFS_Port = 2049;", "Path = /a/b;", "RecoveryRoot = /r;", "Protocols = 4;"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
