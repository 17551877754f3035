//! A cluster in one process of its own, started by `braid up` and stopped by `braid down`.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use anyhow::{Context, Result, ensure};

use crate::braid::{Braid, output_summary};

/// A running cluster; stopped when dropped. Its files stay.
#[derive(Debug)]
pub struct EmbeddedCluster {
    braid: Braid,
    home: PathBuf,
}

impl EmbeddedCluster {
    /// Starts a new cluster with this many I/O daemons in the new directory `home`, on free ports.
    /// It is mounted on `home/mnt` if we may mount, unless `--no-mount` is one of the options.
    ///
    /// # Errors
    /// With what `braid up` printed.
    pub fn start(braid: &Braid, home: &Path, iods: u16, options: &[&str]) -> Result<Self> {
        // `braid up` may fail after it has started daemons, which `drop` stops.
        let cluster = Self { braid: braid.clone(), home: home.to_owned() };
        let iods = iods.to_string();
        cluster.up(&[&["--port", "0", "--iods", &iods], options].concat())?;
        Ok(cluster)
    }

    /// The directory of the cluster.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// The configuration file, which is also the source of a mount.
    pub fn config(&self) -> PathBuf {
        self.home.join("braid.toml")
    }

    /// Where the cluster is mounted if it is.
    pub fn mount_point(&self) -> PathBuf {
        self.home.join("mnt")
    }

    /// Runs `braid ARGUMENTS` as the cluster's own client, to its end.
    ///
    /// # Errors
    /// It cannot start.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Result<Output> {
        let mut command = self.braid.command();
        command.env("BRAID_CONFIG", self.config()).args(arguments);
        command.output().context("starting braid")
    }

    /// The same; an exit code other than 0 is an error with the output.
    ///
    /// # Errors
    /// It cannot start, or fails.
    pub fn run_successfully<S: AsRef<OsStr>>(
        &self,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<Output> {
        let output = self.run(arguments)?;
        ensure!(output.status.success(), "{}", output_summary(&output));
        Ok(output)
    }

    /// Stops the daemons, and starts them again after `between`.
    ///
    /// # Errors
    /// With what the failed command printed.
    pub fn restart_after(&self, between: impl FnOnce()) -> Result<()> {
        self.stop()?;
        between();
        self.up(&[])
    }

    /// Stops the daemons; that unmounts.
    ///
    /// # Errors
    /// With what `braid down` printed.
    pub fn stop(&self) -> Result<()> {
        self.braid.run_successfully(["down".as_ref(), self.home.as_os_str()]).context("braid down")
    }

    /// Stops the daemons and removes all files, also the log of `up --detach` beside `home`.
    ///
    /// # Errors
    /// With what `braid down` printed; then the files stay.
    pub fn remove(&self) -> Result<()> {
        self.stop()?;
        let _ = fs::remove_dir_all(&self.home);
        let _ = fs::remove_file(self.home.with_extension("log"));
        Ok(())
    }

    fn up(&self, options: &[&str]) -> Result<()> {
        let words = ["up".as_ref(), self.home.as_os_str(), "--detach".as_ref()];
        let words = words.into_iter().chain(options.iter().map(OsStr::new));
        self.braid.run_successfully(words).context("braid up")
    }
}

impl Drop for EmbeddedCluster {
    fn drop(&mut self) {
        // Fails if it was stopped before.
        let _ = self.stop();
    }
}
