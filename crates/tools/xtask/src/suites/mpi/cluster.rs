//! A cluster in one process, mounted where the machine allows it.

use crate::context::Context;
use anyhow::{Context as _, Result, bail, ensure};
use braid_testbed::{
    braid::Braid, embedded_cluster::EmbeddedCluster, mounts::is_mounted, process::Process,
};
use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Why programs that create files in their working directory cannot run.
pub const NOT_MOUNTED: &str = "the file system is not mounted (that needs root, or fusermount3)";

const LIMIT: Duration = Duration::from_secs(300);

/// Stopped and removed when it is dropped.
pub struct Cluster {
    pub root: PathBuf,
    braid: Braid,
    servers: EmbeddedCluster,
    /// The command that replaces the first mount by the second one, once there is one.
    second: RefCell<Option<Vec<String>>>,
}

impl Cluster {
    pub fn start(context: &Context) -> Result<Self> {
        let root = std::env::temp_dir().join(format!("braid-mpi-{}", std::process::id()));
        fs::create_dir(&root).with_context(|| root.display().to_string())?;
        let braid = Braid::at(context.build()?.program("braid")?).with_limit(LIMIT);
        let servers = EmbeddedCluster::start(&braid, &root.join("cluster"), 4, &[])?;
        Ok(Self { root, braid, servers, second: RefCell::new(None) })
    }

    pub fn config(&self) -> PathBuf {
        self.servers.config()
    }

    /// A new directory on the mount for one case; `None` without a mount.
    pub fn place(&self, case: &str) -> Result<Option<TestFile>> {
        let mount = self.servers.mount_point();
        if !is_mounted(&mount)? {
            return Ok(None);
        }
        let place = mount.join(case.replace("::", "-"));
        fs::create_dir(&place).with_context(|| place.display().to_string())?;
        Ok(Some(TestFile(place)))
    }

    /// Words in front of a command that let it see another mount of the cluster in place of the
    /// first; that mount is made at the first call.
    pub fn second_mount(&self) -> Result<Vec<String>> {
        if let Some(command) = &*self.second.borrow() {
            return Ok(command.clone());
        }
        let (first, second) = (self.servers.mount_point(), self.root.join("second"));
        fs::create_dir_all(&second)?;
        self.servers.run_successfully(["mount".as_ref(), second.as_os_str()])?;
        let script = "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"";
        let words =
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "second"];
        let words = words.iter().map(|word| (*word).to_owned());
        let command: Vec<String> =
            words.chain([&second, &first].map(|path| path.display().to_string())).collect();
        let device = |runner: &[String]| device_of(runner, &first);
        match (device(&[]), device(&command)) {
            (Ok(one), Ok(other)) => {
                ensure!(one != other, "the second mount is not seen in place of the first")
            }
            (_, Err(why)) => bail!("give a rank mounts of its own (that needs root): {why:#}"),
            (Err(why), _) => return Err(why),
        }
        *self.second.borrow_mut() = Some(command.clone());
        Ok(command)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let second = self.root.join("second");
        if is_mounted(&second).unwrap_or(true) {
            let unmounted = self.braid.run_successfully(["umount".as_ref(), second.as_os_str()]);
            unmounted.err().into_iter().for_each(|why| eprintln!("mpi: {why:#}"));
        }
        self.servers.stop().err().into_iter().for_each(|why| eprintln!("mpi: {why:#}"));
        let mounted = |point: &Path| is_mounted(point).unwrap_or(true);
        if !mounted(&second) && !mounted(&self.servers.mount_point()) {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// A directory that is removed with its contents: some programs leave files.
pub struct TestFile(pub PathBuf);

impl Drop for TestFile {
    fn drop(&mut self) {
        if let Err(why) = fs::remove_dir_all(&self.0) {
            eprintln!("mpi: {}: {why}", self.0.display());
        }
    }
}

fn device_of(runner: &[String], path: &Path) -> Result<String> {
    let words: Vec<String> = runner
        .iter()
        .cloned()
        .chain(["stat".into(), "-c%d".into(), path.display().to_string()])
        .collect();
    let (program, args) = words.split_first().context("no command")?;
    Ok(Process::new(program).args(args).run()?.stdout)
}
