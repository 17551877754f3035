//! An embedded cluster for a third-party suite, with or without a mount; stopped and removed when
//! it is dropped.

use crate::context::Context;
use crate::process::Process;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(300);

/// A cluster of four I/O daemons in a directory of its own.
pub struct Cluster {
    home: PathBuf,
    braid: PathBuf,
    /// The command that enters its network namespace, or empty.
    prefix: Vec<String>,
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
        Self::start_with(context, name, &["--nfs", listen], prefix)
    }

    fn start_with(context: &Context, name: &str, args: &[&str], prefix: &[String]) -> Result<Self> {
        let home = std::env::temp_dir().join(format!("braid-suite-{name}-{}", std::process::id()));
        let cluster = Self { home, braid: context.braid()?, prefix: prefix.to_vec() };
        let up = cluster.braid().args(["up".as_ref(), cluster.home.as_os_str()]);
        up.args(["--iods", "4", "--port", "0", "--detach", "--no-mount"]).args(args).run()?;
        Ok(cluster)
    }

    /// The configuration file, which is also the source of a mount.
    pub fn config(&self) -> PathBuf {
        self.home.join("braid.toml")
    }

    /// Mounts it on `point` with these options.
    pub fn mount(&self, point: &Path, options: &str) -> Result<Mount> {
        fs::create_dir_all(point).with_context(|| point.display().to_string())?;
        let mount = self.braid().env("BRAID_CONFIG", self.config()).args(["mount", "-o", options]);
        mount.args([point]).run()?;
        Ok(Mount { braid: self.braid.clone(), point: point.to_owned() })
    }

    fn braid(&self) -> Process {
        let braid = Process::under(&self.prefix, &self.braid).limit(LIMIT);
        let braid = braid.env_remove("BRAID_CONFIG");
        braid.env_remove("BRAID_MDS").env_remove("BRAID_KEY").env_remove("BRAID_AGENT")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        match self.braid().args(["down".as_ref(), self.home.as_os_str()]).run() {
            Ok(_) => {
                let _ = fs::remove_dir_all(&self.home);
                // The log of `up --detach`.
                let _ = fs::remove_file(self.home.with_extension("log"));
            }
            Err(why) => eprintln!("suite: {why:#}"),
        }
    }
}

/// A mount, unmounted when it is dropped.
pub struct Mount {
    braid: PathBuf,
    /// The mount point.
    pub point: PathBuf,
}

impl Drop for Mount {
    fn drop(&mut self) {
        let gone = Process::new(&self.braid)
            .limit(LIMIT)
            .args(["umount".as_ref(), self.point.as_os_str()])
            .run();
        gone.err().into_iter().for_each(|why| eprintln!("suite: {why:#}"));
    }
}
