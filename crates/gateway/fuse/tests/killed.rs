//! A mount that is killed leaves nobody waiting (I8), whatever its threads were doing in the kernel.
#![cfg(target_os = "linux")]

mod harness;

use braid_fuse::kernel::{Notifier, Operation};
use harness::{FILE, Fate, LONG, Memory, TestMount, ended, process};
use rustix::mount::UnmountFlags;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// A process of its own that mounts, by the ignored test below, and says on standard error how far it is.
struct Victim {
    process: Option<Child>,
    words: BufReader<ChildStderr>,
    point: PathBuf,
    // What it leaves is in there.
    _dir: tempfile::TempDir,
}

impl Victim {
    /// `None`, and the reason printed, where this machine cannot mount.
    fn start() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "serves_until_it_is_killed", "--ignored", "--nocapture"]).env("TMPDIR", dir.path());
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
        let _ = rustix::mount::unmount(&self.point, UnmountFlags::DETACH);
    }
}

/// Whether the mount's thread that drops pages is seen to sleep for good in the kernel (D).
fn an_invalidator_is_held() -> bool {
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let held = |stat: &str| stat.contains("(fuse-invalidate) D");
        if tasks.into_iter().any(|task| fs::read_to_string(task.path().join("stat")).is_ok_and(|stat| held(&stat))) {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

fn drop_pages(notifier: Notifier) {
    std::thread::spawn(move || notifier.drop_pages(FILE, 0, 0));
}

#[test]
#[ignore = "the process that the tests here kill"]
fn serves_until_it_is_killed() {
    let Some(mount) = TestMount::new(Memory::cached()) else { return };
    // The kernel reads ahead, and asks for the one page when that failed. What it asked for by itself it would ask for
    // anew when the answer is an error; of the second one the program is told.
    let reads = AtomicUsize::new(0);
    mount.memory.gate.rule(move |request| match request.operation {
        Operation::Read { .. } if reads.fetch_add(1, Ordering::Relaxed) == 0 => Fate::Drop,
        Operation::Read { .. } => Fate::HoldDeaf,
        _ => Fate::Serve,
    });
    eprintln!("{}", mount.root().display());
    mount.memory.gate.wait_held(1);
    drop_pages(mount.memory.notifier().clone());
    assert!(an_invalidator_is_held());
    eprintln!("held");
    loop {
        std::thread::park();
    }
}

/// Fails, with the reader and the killed process in D state until the connection is aborted by hand, where
/// `invalidator::table::enter` does not leave the process's table (`return Ok((clone_device(main)?, None))`).
#[test]
fn a_mount_killed_while_it_invalidates_leaves_nobody_waiting() {
    let Some(mut victim) = Victim::start() else { return };
    let reader = process("cat", &[victim.point.join("file").to_str().unwrap()]);
    assert_eq!(victim.word(), "held");
    assert!(ended(victim.kill()).is_some(), "the mount's process is still there");
    let read = ended(reader).expect("the reader waits for ever");
    assert!(!read.success(), "nobody has answered it");
}
