//! A mount of a small file system in memory, whose replies a test can delay.
#![allow(dead_code, unused_imports)] // each test binary uses its part

mod barrier;
mod memory;

pub use barrier::{Fate, RequestBarrier};
pub use memory::{FILE, Memory, SUB};

use braid_fuse::kernel::mount::{MountError, MountOptions, Mounted};
use braid_fuse::kernel::uring::IoUring;
use braid_fuse::kernel::{Handler, PoolOptions, StartError, abi};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

pub const ROOT: u64 = abi::ROOT;
/// Longer than anything here takes: a test that hangs fails instead.
pub const LONG: Duration = Duration::from_secs(20);

pub struct TestMount {
    pub memory: Arc<Memory>,
    pub mounted: Mounted,
    dir: tempfile::TempDir,
}

impl TestMount {
    /// `None`, and the reason printed, where this machine cannot mount.
    pub fn new(memory: Memory) -> Option<Self> {
        Self::with(memory, PoolOptions::default())
    }

    pub fn with(memory: Memory, pool: PoolOptions) -> Option<Self> {
        Self::over(transport(), memory, pool)
    }

    /// With the transport of this run.
    pub fn over(io_uring: IoUring, memory: Memory, pool: PoolOptions) -> Option<Self> {
        let memory = Arc::new(memory);
        let (mounted, dir) = mount_on_temporary_dir(io_uring, pool, memory.clone())?;
        Some(Self { memory, mounted, dir })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> &Path {
        self.dir.path()
    }
}

/// `None`, and the reason printed, where this machine cannot mount.
pub fn mount_on_temporary_dir(
    io_uring: IoUring,
    pool: PoolOptions,
    handler: Arc<dyn Handler>,
) -> Option<(Mounted, tempfile::TempDir)> {
    let dir = tempfile::tempdir().unwrap();
    let mut options = MountOptions::new("memory", dir.path());
    options.io_uring = io_uring;
    match Mounted::new(&options, pool, handler) {
        Ok(mounted) => Some((mounted, dir)),
        Err(error @ (MountError::NoDevice(_) | MountError::NotAllowed)) => skipped(&error),
        Err(error @ MountError::Start(StartError::NoIoUring { .. })) => skipped(&error),
        // The mode of the device decides whether users may mount on this machine.
        Err(error @ MountError::Helper { .. }) if error.to_string().contains("/dev/fuse") => {
            skipped(&error)
        }
        Err(error) => panic!("{error}"),
    }
}

/// The transport of this run ([`OVER`]). Every kernel has the device.
pub fn transport() -> IoUring {
    std::env::var(OVER).ok().map_or(IoUring::Off, |word| word.parse().unwrap())
}

/// Set to `on`, tests of mounts run over io_uring.
pub const OVER: &str = "BRAID_TEST_IO_URING";

fn skipped<T>(why: &MountError) -> Option<T> {
    println!("skipped: no mount on this machine: {why}");
    None
}

impl Drop for TestMount {
    fn drop(&mut self) {
        // Requests that are still held would delay the unmount.
        self.memory.barrier.open();
    }
}

/// A process that does something with a path; its output is discarded.
pub fn process(program: &str, arguments: &[&str]) -> Child {
    let null = || Stdio::null();
    Command::new(program)
        .args(arguments)
        .stdin(null())
        .stdout(null())
        .stderr(null())
        .spawn()
        .unwrap()
}

/// Its exit status; `None`: it still runs after a long time.
pub fn ended(mut child: Child) -> Option<ExitStatus> {
    let (done, waiting) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait().unwrap()));
    waiting.recv_timeout(LONG).ok()
}
