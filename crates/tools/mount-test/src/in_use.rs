//! What a machine uses of a mount by name does not change while another mount changes the
//! directories around it: a working directory, a running program, a mount below.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Context, Result, ensure};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use crate::cases::{Case, Outcome, TestDirs};

/// Number of changes by the other mount.
const TURNS: u64 = 300;
const TURNS_FULL: u64 = 10_000;

pub const CASES: &[Case] = &[
    Case { name: "in_use::an_open_directory_keeps_its_name", run: directory },
    Case { name: "in_use::a_running_program_keeps_its_name", run: program },
    Case { name: "in_use::a_mount_below_stays_mounted", run: mounted },
];

/// A directory with another one inside, through both mounts.
struct SharedDir {
    here: PathBuf,
    there: PathBuf,
}

impl SharedDir {
    fn new(ground: &TestDirs, name: &str) -> Result<Self> {
        let (here, there) = (ground.first().join(name), ground.last().join(name));
        fs::create_dir_all(here.join("below"))?;
        Ok(Self { here: here.canonicalize()?, there })
    }

    fn below(&self) -> PathBuf {
        self.here.join("below")
    }

    /// The other mount changes the directory and the one inside.
    fn change(&self, turn: u64) -> Result<()> {
        for directory in [self.there.clone(), self.there.join("below")] {
            let file = directory.join(format!("file-{}", turn % 7));
            fs::write(&file, "").with_context(|| file.display().to_string())?;
            fs::remove_file(&file).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }
}

fn directory(ground: &TestDirs) -> Result<Outcome> {
    let place = SharedDir::new(ground, "in-use-directory")?;
    let below = File::open(place.below())?;
    let link = format!("/proc/self/fd/{}", below.as_raw_fd());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let looks = || {
            while !ended.load(Ordering::Acquire) {
                let _ = fs::metadata(place.below().join("none"));
            }
        };
        let changes = || {
            let done = (0..ground.size(TURNS, TURNS_FULL)).try_for_each(|turn| place.change(turn));
            ended.store(true, Ordering::Release);
            done
        };
        scope.spawn(looks);
        let changing = scope.spawn(changes);
        let mut seen = Ok(());
        while seen.is_ok() && !ended.load(Ordering::Acquire) {
            seen = is_named(Path::new(&link), &place.below());
        }
        let changed = changing.join().map_err(|_| anyhow::anyhow!("the other mount panicked"))?;
        changed.and(seen)
    })?;
    Outcome::passed()
}

/// The kernel's name of an object in use; it ends in " (deleted)" when its name is gone.
fn is_named(link: &Path, wanted: &Path) -> Result<()> {
    let name = fs::read_link(link)?;
    ensure!(name == wanted, "{} is shown as {}", wanted.display(), name.display());
    Ok(())
}

/// Ended when it is dropped.
struct RunningProgram(Child);

impl Drop for RunningProgram {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program(ground: &TestDirs) -> Result<Outcome> {
    let place = SharedDir::new(ground, "in-use-program")?;
    let program = place.here.join("program");
    fs::copy("/bin/sleep", &program).context("copy /bin/sleep")?;
    let running = RunningProgram(
        Command::new(&program).arg("600").spawn().context("run a program on the mount")?,
    );
    let link = PathBuf::from(format!("/proc/{}/exe", running.0.id()));
    for turn in 0..ground.size(TURNS, TURNS_FULL) / 10 {
        place.change(turn)?;
        fs::metadata(&program)?;
        is_named(&link, &program)?;
    }
    Outcome::passed()
}

/// Unmounted when it is dropped.
struct MountBelow(PathBuf);

impl Drop for MountBelow {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn mounted(ground: &TestDirs) -> Result<Outcome> {
    let place = SharedDir::new(ground, "in-use-mounted")?;
    let elsewhere = tempfile::tempdir()?;
    fs::write(elsewhere.path().join("mark"), "")?;
    if let Err(error) = mount_bind(elsewhere.path(), place.below()) {
        return Ok(Outcome::Skipped(format!("a mount is not allowed here: {error}")));
    }
    let below = MountBelow(place.below());
    for turn in 0..ground.size(TURNS, TURNS_FULL) / 10 {
        place.change(turn)?;
        fs::metadata(&place.here)?;
        ensure!(
            below.0.join("mark").exists(),
            "the mount on {} is gone after {turn} changes",
            below.0.display()
        );
    }
    Outcome::passed()
}
