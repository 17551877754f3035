//! An embedded cluster for a third-party suite, with or without a mount; stopped and removed when
//! it is dropped.

use crate::context::Context;
use anyhow::{Context as _, Result};
use braid_testbed::{braid::Braid, embedded_cluster::EmbeddedCluster, process::Process};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// A cluster of four I/O daemons in a directory of its own.
pub struct Cluster {
    servers: EmbeddedCluster,
    braid: Braid,
}

impl Cluster {
    /// Starts it without a mount; `name` distinguishes the clusters of one run.
    pub fn start(context: &Context, name: &str) -> Result<Self> {
        Self::start_with(context, name, &[], &[])
    }

    /// Starts it with an NFS gateway on `listen` (`ADDR:PORT`) that exports `/`. `prefix` is the
    /// command that enters a network namespace, or empty.
    pub fn start_with_nfs(
        context: &Context,
        name: &str,
        listen: &str,
        prefix: &[String],
    ) -> Result<Self> {
        // The suites act as root, on ports that any user may take.
        let export = "/=*,sec=sys,squash=none";
        Self::start_with(context, name, &["--nfs", listen, "--nfs-export", export], prefix)
    }

    /// Starts it with an SMB gateway on `listen` (`ADDR:PORT`) that shares `/` as `share` with its
    /// user root.
    pub fn start_with_smb(
        context: &Context,
        name: &str,
        listen: &str,
        share: &str,
        password: &str,
    ) -> Result<Self> {
        // The gateway reads its users at each logon, so the file may come after the start.
        let share = format!("{share}=/");
        let args = ["--smb", listen, "--smb-share", &share];
        let cluster = Self::start_with(context, name, &args, &[])?;
        let users = cluster.servers.home().join("smb-users");
        let add = ["smb", "user", "add", "root", "--password-stdin", "--users"];
        let script = "password=$1 && shift && printf '%s\\n' \"$password\" | \"$@\"";
        Process::new("sh")
            .args(["-c", script, "sh", password])
            .args([context.braid()?])
            .args(add)
            .args([users])
            .run()?;
        Ok(cluster)
    }

    fn start_with(context: &Context, name: &str, args: &[&str], prefix: &[String]) -> Result<Self> {
        let home = std::env::temp_dir().join(format!("braid-suite-{name}-{}", std::process::id()));
        let braid = Braid::at(context.braid()?);
        let limit = ["timeout", "--kill-after=10", &LIMIT.as_secs().to_string()].map(str::to_owned);
        let braid = braid.with_wrapper(prefix.iter().cloned().chain(limit));
        let options = [&["--no-mount"], args].concat();
        Ok(Self { servers: EmbeddedCluster::start(&braid, &home, 4, &options)?, braid })
    }

    /// The configuration file, which is also the source of a mount.
    pub fn config(&self) -> PathBuf {
        self.servers.config()
    }

    /// Mounts it on `point` with these options.
    pub fn mount(&self, point: &Path, options: &str) -> Result<Mount> {
        fs::create_dir_all(point).with_context(|| point.display().to_string())?;
        let mount = ["mount".as_ref(), "-o".as_ref(), options.as_ref(), point.as_os_str()];
        self.servers.run_successfully(mount)?;
        Ok(Mount { braid: self.braid.clone(), point: point.to_owned() })
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(why) = self.servers.remove() {
            eprintln!("suite: {why:#}");
        }
    }
}

/// A mount, unmounted when it is dropped.
pub struct Mount {
    braid: Braid,
    /// The mount point.
    pub point: PathBuf,
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = self.braid.run_successfully(["umount".as_ref(), self.point.as_os_str()]);
        unmounted.err().into_iter().for_each(|why| eprintln!("suite: {why:#}"));
    }
}
