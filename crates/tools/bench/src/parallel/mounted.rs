//! The same file on a mount, accessed block by block.

use std::{
    fs::{File, OpenOptions},
    os::unix::fs::FileExt,
    path::PathBuf,
};

use anyhow::{Context, Result};

use super::tasks::TASKS;
use crate::{
    bench::Bench,
    mount::subject::{self, Subject},
};

/// A mount of the cluster.
pub struct Mounted(Subject);

impl Mounted {
    /// Mounts it; `None` with a note when that is impossible.
    pub fn start(bench: &Bench) -> Result<Option<Self>> {
        bench.cluster()?;
        match subject::braid(bench) {
            Ok(subject) => Ok(Some(Self(subject))),
            Err(error) => {
                bench.note(format!("no rows of the mount: {error:#}"));
                Ok(None)
            }
        }
    }

    /// The mount with cold caches of the kernel and the client.
    pub fn cold(&self) -> Result<()> {
        self.0.cold()
    }

    /// The path of a cluster's file on the mount.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.dir().join(path.trim_start_matches('/'))
    }

    /// A handle for each task.
    pub fn open(&self, path: &str, write: bool) -> Result<Vec<File>> {
        let path = self.path(path);
        let open = |_| {
            let file = OpenOptions::new().read(true).write(write).open(&path);
            file.with_context(|| format!("opening {}", path.display()))
        };
        (0..TASKS).map(open).collect()
    }
}

/// Reads each block of `buffer` by its own call, `stride` bytes apart.
pub fn read_blocks(
    file: &File,
    buffer: &mut [u8],
    block: usize,
    first: u64,
    stride: usize,
) -> Result<()> {
    for (block, at) in buffer.chunks_mut(block).zip((first..).step_by(stride)) {
        file.read_exact_at(block, at)?;
    }
    Ok(())
}

/// Writes each block of `buffer` by its own call, `stride` bytes apart.
pub fn write_blocks(
    file: &File,
    buffer: &[u8],
    block: usize,
    first: u64,
    stride: usize,
) -> Result<()> {
    for (block, at) in buffer.chunks(block).zip((first..).step_by(stride)) {
        file.write_all_at(block, at)?;
    }
    Ok(())
}
