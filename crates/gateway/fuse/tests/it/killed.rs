//! A killed mount leaves no process waiting (I8), whatever its threads were doing in the kernel.
#![cfg(target_os = "linux")]

use crate::harness::{FILE, Fate, LONG, Memory, TestMount, ended, process};
use braid_fuse::kernel::mount::{Abort, entry_at};
use braid_fuse::kernel::uring::IoUring;
use braid_fuse::kernel::{Operation, PoolOptions};
use rustix::mount::UnmountFlags;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A separate process that mounts, through an ignored test below, and reports its progress on
/// standard error.
struct Victim {
    process: Option<Child>,
    words: BufReader<ChildStderr>,
    point: PathBuf,
    // It leaves its files in there.
    _dir: tempfile::TempDir,
}

impl Victim {
    /// `None`, and the reason printed, where this machine cannot mount.
    fn start(test: &str) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored", "--nocapture"]).env("TMPDIR", dir.path());
        let mut process = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let words = BufReader::new(process.stderr.take().unwrap());
        let mut victim = Self { process: Some(process), words, point: PathBuf::new(), _dir: dir };
        match victim.word().as_str() {
            "" => println!("skipped: no mount on this machine"),
            point => victim.point = point.into(),
        }
        (victim.point != Path::new("")).then_some(victim)
    }

    /// Its next line; empty when it has ended.
    fn word(&mut self) -> String {
        let mut line = String::new();
        self.words.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Ends its connection from here.
    fn abort(&self) -> Abort {
        entry_at(&self.point).unwrap().unwrap().abort().unwrap()
    }

    fn kill(&mut self) -> Child {
        let mut process = self.process.take().unwrap();
        process.kill().unwrap();
        process
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
        }
        // After a failed test no process may hang.
        if let Ok(Some(entry)) = entry_at(&self.point) {
            let _ = entry.abort().and_then(|abort| abort.abort());
        }
        let _ = rustix::mount::unmount(&self.point, UnmountFlags::DETACH);
    }
}

/// Whether the mount's thread that drops pages stays in an uninterruptible sleep (D).
fn an_invalidator_is_held() -> bool {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let held = |stat: &str| stat.contains("(fuse-invalidate) D");
        if tasks
            .into_iter()
            .any(|task| fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| held(&stat)))
        {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    false
}

/// Drops the pages of the file until one is locked, and stays in that call.
fn invalidate_and_stay(mount: &TestMount) -> ! {
    let notifier = mount.memory.notifier().clone();
    std::thread::spawn(move || while notifier.drop_pages(FILE, 0, 0).is_ok() {});
    assert!(an_invalidator_is_held());
    eprintln!("held");
    loop {
        std::thread::park();
    }
}

#[test]
#[ignore = "a process that a test here kills"]
fn a_read_that_was_taken_waits() {
    let Some(mount) = TestMount::new(Memory::cached()) else { return };
    // The kernel reads ahead, and requests the single page if that fails. After an error of
    // read-ahead it sends the request again; the error of the second request is returned to the
    // program.
    let reads = AtomicUsize::new(0);
    mount.memory.barrier.rule(move |request| match request.operation {
        Operation::Read { .. } if reads.fetch_add(1, Ordering::Relaxed) == 0 => Fate::Drop,
        Operation::Read { .. } => Fate::HoldDeaf,
        _ => Fate::Serve,
    });
    eprintln!("{}", mount.root().display());
    mount.memory.barrier.wait_held(1);
    invalidate_and_stay(&mount)
}

/// Fails, with the reader and the killed process in D state, if `invalidator::table::enter` does
/// not leave the process's descriptor table (`return Ok((clone_device(main)?, None))`): verified.
#[test]
fn a_mount_killed_during_an_invalidation_leaves_no_process_waiting() {
    let Some(mut victim) = Victim::start("a_read_that_was_taken_waits") else { return };
    let reader = process("cat", &[victim.point.join("file").to_str().unwrap()]);
    assert_eq!(victim.word(), "held");
    assert!(ended(victim.kill()).is_some(), "the mount's process is still there");
    let read = ended(reader).expect("the reader waits forever");
    assert!(!read.success(), "its read was not answered");
}

#[test]
#[ignore = "a process that a test here kills"]
fn a_read_that_was_not_taken_waits() {
    // Its only worker is blocked by another file when the read comes.
    let pool = PoolOptions { workers_max: 1, clone_fd: false };
    let Some(mount) = TestMount::over(IoUring::Off, Memory::cached(), pool) else { return };
    mount.memory.barrier.rule(|request| match request.operation {
        Operation::Lookup { name: b"wait" } => Fate::HoldDeaf,
        _ => Fate::Serve,
    });
    eprintln!("{}", mount.root().display());
    mount.memory.barrier.wait_held(1);
    eprintln!("busy");
    invalidate_and_stay(&mount)
}

#[test]
fn requests_unread_by_a_killed_mount_end_with_an_abort_from_outside() {
    let Some(mut victim) = Victim::start("a_read_that_was_not_taken_waits") else { return };
    let abort = victim.abort();
    let file = fs::File::open(victim.point.join("file")).unwrap();
    let asks = process("stat", &[victim.point.join("wait").to_str().unwrap()]);
    assert_eq!(victim.word(), "busy");
    let read = std::thread::spawn(move || file.read_at(&mut [0; 4], 0));
    assert_eq!(victim.word(), "held");
    let killed = victim.kill();
    assert!(
        ended(asks).is_some_and(|status| !status.success()),
        "the device is closed: requests that were read have ended"
    );
    assert!(!read.is_finished(), "requests that were not read still wait");
    abort.abort().unwrap();
    assert!(ended(killed).is_some());
    assert!(read.join().unwrap().is_err());
}

#[test]
fn an_abort_opened_for_one_mount_never_ends_another() {
    let Some(first) = TestMount::new(Memory::new()) else { return };
    let entry = first.mounted.entry().unwrap();
    let abort = entry.abort().unwrap();
    drop(first);
    // The kernel uses the lowest free number.
    let second = TestMount::new(Memory::new()).unwrap();
    println!("{} was followed by {}", entry.device, second.mounted.entry().unwrap().device);
    abort.abort().unwrap();
    assert_eq!(fs::read(second.path("file")).unwrap(), b"first content");
}
