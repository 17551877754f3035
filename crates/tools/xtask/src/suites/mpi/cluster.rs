//! A cluster in one process, mounted where the machine allows it.

use crate::context::Context;
use crate::process::Process;
use anyhow::{Context as _, Result, bail, ensure};
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
    braid: PathBuf,
    /// The command that replaces the first mount by the second one, once there is one.
    second: RefCell<Option<Vec<String>>>,
}

impl Cluster {
    pub fn start(context: &Context) -> Result<Self> {
        let root = std::env::temp_dir().join(format!("braid-mpi-{}", std::process::id()));
        fs::create_dir(&root).with_context(|| root.display().to_string())?;
        let braid = context.build()?.program("braid")?;
        let cluster = Self { root, braid, second: RefCell::new(None) };
        let up = cluster.braid().args(["up".as_ref(), cluster.home().as_os_str()]);
        up.args(["--iods", "4", "--port", "0", "--detach"]).run()?;
        Ok(cluster)
    }

    pub fn config(&self) -> PathBuf {
        self.home().join("braid.toml")
    }

    /// A new directory on the mount for one case; `None` without a mount.
    pub fn place(&self, case: &str) -> Result<Option<TestFile>> {
        let mount = self.home().join("mnt");
        if !is_mounted(&mount) {
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
        let (first, second) = (self.home().join("mnt"), self.root.join("second"));
        fs::create_dir_all(&second)?;
        self.braid()
            .env("BRAID_CONFIG", self.config())
            .args(["mount".as_ref(), second.as_os_str()])
            .run()?;
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

    fn home(&self) -> PathBuf {
        self.root.join("cluster")
    }

    fn braid(&self) -> Process {
        let braid = Process::new(&self.braid).limit(LIMIT).env_remove("BRAID_CONFIG");
        braid.env_remove("BRAID_MDS").env_remove("BRAID_KEY").env_remove("BRAID_AGENT")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let second = self.root.join("second");
        if is_mounted(&second) {
            let gone = self.braid().args(["umount".as_ref(), second.as_os_str()]).run();
            gone.err().into_iter().for_each(|why| eprintln!("mpi: {why:#}"));
        }
        let down = self.braid().args(["down".as_ref(), self.home().as_os_str()]).run();
        down.err().into_iter().for_each(|why| eprintln!("mpi: {why:#}"));
        if !is_mounted(&second) && !is_mounted(&self.home().join("mnt")) {
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

fn is_mounted(point: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    table
        .lines()
        .any(|line| line.split(' ').nth(1).is_some_and(|mounted| Path::new(mounted) == point))
}
