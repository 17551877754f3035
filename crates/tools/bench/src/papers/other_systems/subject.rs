//! One file system: how it is mounted on the client's host.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, ensure};
use braid_netlab::{Host, Lab};
use braid_testbed::mounts::is_mounted;

use super::OURS;

/// A mount that can be repeated. Dropping it unmounts it; the lab ends its process, and running
/// servers too.
pub struct Subject {
    /// Its name in measures.
    pub name: &'static str,
    host: Host,
    point: PathBuf,
    log: PathBuf,
    /// The command that mounts it, with the mount point.
    mount: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// Servers that end with it.
    _servers: Vec<Server>,
}

impl Subject {
    /// On the first client of a lab, in a new directory; `mount` gets the mount point.
    pub fn new(
        name: &'static str,
        lab: &Lab,
        servers: Vec<Server>,
        mount: impl FnOnce(String) -> Vec<String>,
    ) -> Result<Self> {
        let (point, log) =
            (lab.dir().join(format!("on-{name}")), lab.dir().join(format!("{name}.log")));
        fs::create_dir(&point).with_context(|| point.display().to_string())?;
        let mount = mount(point.display().to_string());
        let host = lab.client_host(0)?.clone();
        Ok(Self { name, host, point, log, mount, environment: Vec::new(), _servers: servers })
    }

    /// The lab's own cluster.
    pub fn of_braid(braid: &Path, lab: &Lab) -> Result<Self> {
        let mount = |point| vec![braid.display().to_string(), "mount".to_owned(), point];
        let mut subject = Self::new(OURS, lab, Vec::new(), mount)?;
        subject.environment = lab.environment().to_vec();
        Ok(subject)
    }

    /// The path of a file, as text.
    pub fn path(&self, name: &str) -> String {
        self.point.join(name).display().to_string()
    }

    /// A client with a cold cache; its servers keep running.
    pub fn cold(&self) -> Result<()> {
        if is_mounted(&self.point)? {
            let output =
                Command::new("umount").arg(&self.point).output().context("running umount")?;
            ensure!(
                output.status.success(),
                "umount: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
        }
        let [program, arguments @ ..] = self.mount.as_slice() else { return Ok(()) };
        let log = fs::File::options().append(true).create(true).open(&self.log)?;
        let mut command = self.host.command(program);
        command.args(arguments).envs(self.environment.iter().cloned());
        // A client that stays in the background holds its descriptors open.
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let status = command.status().with_context(|| format!("running {program}"))?;
        let said = || fs::read_to_string(&self.log).unwrap_or_default();
        ensure!(
            status.success() && is_mounted(&self.point)?,
            "{} is not mounted: {status}: {}",
            self.name,
            said().trim()
        );
        Ok(())
    }

    /// Runs a command on the client's host, which must succeed within some seconds.
    pub fn on_its_host(&self, program: &str, arguments: &[&str]) -> Result<()> {
        let output = self.host.command("timeout").args(["10", program]).args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program}: {}: {}", output.status, said.trim());
        Ok(())
    }
}

impl Drop for Subject {
    fn drop(&mut self) {
        if is_mounted(&self.point).unwrap_or(false) {
            let _ = Command::new("umount").arg("-l").arg(&self.point).output();
        }
    }
}

/// A server in the foreground, which is killed when this is dropped.
pub struct Server(std::process::Child);

impl Server {
    /// Starts it on a host; its output is written to a file.
    pub fn start(host: &Host, log: &Path, program: &str, arguments: &[&str]) -> Result<Self> {
        let log = fs::File::create(log).with_context(|| log.display().to_string())?;
        let mut command = host.command(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        // Not in the terminal's process group: a Ctrl-C must not kill a server while a client waits
        // for it, since the client could then not end.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Ok(Self(command.spawn().with_context(|| format!("starting {program}"))?))
    }

    /// An error if it has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.0.try_wait()? {
            Some(status) => anyhow::bail!("a server ended: {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
