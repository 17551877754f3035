//! A second mount of a suite's cluster, where a thread walks the tree and reads every file.
//!
//! It compares nothing: the suite on the first mount checks the results. It makes the first mount
//! share its leases, so that the suite's data tests run with another client's reads between their
//! calls.
//!
//! It changes no result: the mount is read-only, and it opens only regular files, without waiting
//! and without following links. An error means only that a file is gone already.

use super::cluster::{Cluster, Mount};
use anyhow::Result;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Bytes read from each file on each walk; sparse files of the suites are terabytes long.
const BYTES_MAX: u64 = 16 << 20;
const CHUNK: usize = 1 << 20;
/// Pause between two walks, so that an empty tree does not keep the reader busy.
const PAUSE: Duration = Duration::from_millis(100);
/// Suites nest directories until names are too long.
const DEPTH_MAX: usize = 64;

/// Reads until it is dropped.
pub struct Reader {
    mount: Option<Mount>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Reader {
    /// Mounts the cluster a second time on `point` and starts to read there.
    pub fn start(cluster: &Cluster, point: &Path) -> Result<Self> {
        let mount = cluster.mount(point, "ro")?;
        let shared = Arc::new(Shared::default());
        let (of_thread, root) = (Arc::clone(&shared), point.to_owned());
        let thread = thread::spawn(move || {
            while !of_thread.stop.load(Ordering::Relaxed) {
                of_thread.walk(&root, DEPTH_MAX);
                thread::sleep(PAUSE);
            }
        });
        Ok(Self { mount: Some(mount), thread: Some(thread), shared })
    }
}

impl Shared {
    fn walk(&self, dir: &Path, depth: usize) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth > 0 => self.walk(&entry.path(), depth - 1),
                Ok(kind) if kind.is_file() => self.read(&entry.path()),
                _ => {}
            }
        }
    }

    fn read(&self, path: &Path) {
        let Ok(file) = open(path) else { return };
        self.files.fetch_add(1, Ordering::Relaxed);
        let (mut file, mut chunk) = (file.take(BYTES_MAX), vec![0; CHUNK]);
        while !self.stop.load(Ordering::Relaxed) {
            match file.read(&mut chunk) {
                Ok(count) if count > 0 => self.bytes.fetch_add(count as u64, Ordering::Relaxed),
                _ => return,
            };
        }
    }
}

/// The name may have become a pipe or a link since it was listed.
#[cfg(target_os = "linux")]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(path)
}

#[cfg(not(target_os = "linux"))]
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        println!(
            "       the second mount opened {} files and read {} MiB",
            count(&self.shared.files),
            count(&self.shared.bytes) >> 20
        );
        drop(self.mount.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_reads_files_at_any_depth_and_no_pipe() {
        let root = std::env::temp_dir().join(format!("xtask-reader-{}", std::process::id()));
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("one"), b"1").unwrap();
        fs::write(root.join("a/b/two"), b"22").unwrap();
        if cfg!(unix) {
            let pipe =
                braid_testbed::process::Process::new("mkfifo").args([root.join("pipe")]).finish();
            assert!(pipe.unwrap().status.success());
        }
        let shared = Shared::default();
        shared.walk(&root, DEPTH_MAX);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((shared.files.into_inner(), shared.bytes.into_inner()), (2, 3));
    }
}
