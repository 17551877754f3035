//! The servers of the rows: a cluster with a gateway, and Samba on a directory.

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use braid_mount_tests::stage::mount::Mount as FuseMount;
use braid_testbed::{braid::Braid, ports::free_address};
use tempfile::TempDir;

use super::client::{PASSWORD, SHARE, USER};
use crate::{
    bench::Bench,
    daemons::{Cluster, Daemon, wait_until_listening},
};

/// Samba's programs.
const SMBD: &str = "/usr/sbin/smbd";
const SMBPASSWD: &str = "/usr/bin/smbpasswd";

/// A cluster with a gateway. The fields are dropped in this order.
pub struct Servers {
    gateway: Daemon,
    /// Where the gateway listens.
    pub address: SocketAddr,
    cluster: Cluster,
    dir: TempDir,
}

impl Servers {
    /// With this many I/O daemons, below the scratch directory of the run.
    pub fn start(bench: &Bench, iods: usize) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("smb-").tempdir_in(&bench.scratch)?;
        let mut cluster = Cluster::start_mds_only(dir.path(), bench.braid())?;
        cluster.grow(iods)?;
        let users = dir.path().join("smb-users");
        add_user(cluster.binary(), &users)?;
        let listen = free_address()?;
        let mut command = Daemon::command(cluster.binary());
        command.args(["smb", "--listen", &listen, "--share", &format!("{SHARE}=/"), "--users"]);
        command.arg(&users).args(["--mds", &cluster.mds_address, "--key"]).arg(&cluster.key);
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
            .context("mount BraidFS for Samba")
    }
}

/// Makes a users file of gateways with the user of the bench.
pub fn add_user(braid: &Path, users: &Path) -> Result<()> {
    let mut command = Command::new(braid);
    command.args(["smb", "user", "add", USER, "--password-stdin", "--users"]).arg(users);
    with_input(command, &format!("{PASSWORD}\n")).context("add the user of the bench")
}

/// Samba on one directory.
pub struct Samba {
    _daemon: Daemon,
    /// Where it listens.
    pub address: SocketAddr,
    _dir: TempDir,
}

impl Samba {
    /// Why it cannot be measured here, if it cannot.
    pub fn missing() -> Option<String> {
        for program in [SMBD, SMBPASSWD] {
            if !Path::new(program).exists() {
                return Some(format!("{program} is not installed: rows without Samba"));
            }
        }
        (!rustix::process::geteuid().is_root()).then(|| "not root: rows without Samba".to_owned())
    }

    /// Shares `directory`, with the user of the bench.
    pub fn start(bench: &Bench, directory: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("samba-").tempdir_in(&bench.scratch)?;
        let config = dir.path().join("smb.conf");
        let listen = free_address()?;
        let (host, port) = listen.rsplit_once(':').context("an address has a port")?;
        fs::write(&config, configuration(host, port, directory, dir.path()))?;
        let mut command = Command::new(SMBPASSWD);
        command.arg("-c").arg(&config).args(["-s", "-a", USER]);
        with_input(command, &format!("{PASSWORD}\n{PASSWORD}\n")).context("add a user to Samba")?;
        let mut command = Daemon::command(Path::new(SMBD));
        command.args(["--foreground", "--no-process-group", "--configfile"]).arg(&config);
        // At its end, smbd sends SIGTERM to its process group.
        command.process_group(0);
        let mut daemon = Daemon::start(command, &dir.path().join("output.log"))?;
        let address = wait_until_listening(&listen, &mut daemon).context("start Samba")?;
        Ok(Self { _daemon: daemon, address, _dir: dir })
    }
}

/// One share on one address; all state in `state`. Samba's defaults, but for printers and NetBIOS.
fn configuration(host: &str, port: &str, directory: &Path, state: &Path) -> String {
    let (state, directory) = (state.display(), directory.display());
    format!(
        "[global]\n\
         server role = standalone server\n\
         interfaces = {host}\n\
         bind interfaces only = yes\n\
         smb ports = {port}\n\
         disable netbios = yes\n\
         load printers = no\n\
         printcap name = /dev/null\n\
         disable spoolss = yes\n\
         passdb backend = tdbsam:{state}/passdb.tdb\n\
         private dir = {state}\n\
         lock directory = {state}\n\
         state directory = {state}\n\
         cache directory = {state}\n\
         pid directory = {state}\n\
         ncalrpc dir = {state}/ncalrpc\n\
         log file = {state}/log.smbd\n\
         log level = 0\n\
         [{SHARE}]\n\
         path = {directory}\n\
         read only = no\n"
    )
}

/// Runs a command that reads `input`.
fn with_input(mut command: Command, input: &str) -> Result<()> {
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
    child.stdin.take().context("a pipe was asked for")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}", complaint.trim());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samba_shares_one_directory_on_one_address_and_keeps_its_state_apart() {
        let text = configuration("127.0.0.1", "4450", Path::new("/a/b"), Path::new("/state"));
        for part in ["smb ports = 4450\n", "path = /a/b\n", "private dir = /state\n"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_command_that_fails_is_named_with_its_complaint() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "read word; echo \"no $word\" >&2; exit 3"]);
        let error = with_input(command, "luck\n").unwrap_err().to_string();
        assert!(error.contains("no luck"), "{error}");
    }
}
