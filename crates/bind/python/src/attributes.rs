//! Attributes of a file, under the names of `os.stat_result`.

use braid_client::{Attributes, FileKind, Timestamp};
use pyo3::prelude::*;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// The unit of `st_blocks` in all systems.
const BLOCK_BYTES: u64 = 512;

/// Attributes of a file, under the names of `os.stat_result`. Code that takes one of those also
/// takes this.
#[pyclass(frozen, module = "braid")]
#[derive(Debug)]
pub(crate) struct Stat(Attributes);

impl From<Attributes> for Stat {
    fn from(attributes: Attributes) -> Self {
        Self(attributes)
    }
}

#[pymethods]
impl Stat {
    /// File type and permission bits, for the functions of the module `stat`.
    #[getter]
    fn st_mode(&self) -> u32 {
        kind_bits(self.0.kind) | self.0.mode
    }

    /// The file index. It is never reused.
    #[getter]
    fn st_ino(&self) -> u64 {
        self.0.file.0
    }

    #[getter]
    fn st_nlink(&self) -> u32 {
        self.0.links
    }

    #[getter]
    fn st_uid(&self) -> u64 {
        self.0.uid
    }

    #[getter]
    fn st_gid(&self) -> u64 {
        self.0.gid
    }

    /// Size in bytes.
    #[getter]
    fn st_size(&self) -> u64 {
        self.0.bytes.0
    }

    /// Allocated disk space, in units of 512 bytes.
    #[getter]
    fn st_blocks(&self) -> u64 {
        self.0.bytes_used.0.div_ceil(BLOCK_BYTES)
    }

    #[getter]
    fn st_rdev(&self) -> u64 {
        self.0.device
    }

    #[getter]
    fn st_atime(&self) -> f64 {
        seconds(self.0.atime)
    }

    #[getter]
    fn st_mtime(&self) -> f64 {
        seconds(self.0.mtime)
    }

    #[getter]
    fn st_ctime(&self) -> f64 {
        seconds(self.0.ctime)
    }

    #[getter]
    fn st_birthtime(&self) -> f64 {
        seconds(self.0.btime)
    }

    #[getter]
    fn st_atime_ns(&self) -> i128 {
        nanos(self.0.atime)
    }

    #[getter]
    fn st_mtime_ns(&self) -> i128 {
        nanos(self.0.mtime)
    }

    #[getter]
    fn st_ctime_ns(&self) -> i128 {
        nanos(self.0.ctime)
    }

    #[getter]
    fn st_birthtime_ns(&self) -> i128 {
        nanos(self.0.btime)
    }

    /// A counter that rises with every change of the file.
    #[getter]
    fn change(&self) -> u64 {
        self.0.change
    }

    /// `file`, `directory`, `link` or `other`.
    #[getter]
    fn kind(&self) -> &'static str {
        kind_name(self.0.kind)
    }

    fn __repr__(&self) -> String {
        format!(
            "Stat(kind={:?}, st_mode=0o{:o}, st_ino={}, st_nlink={}, st_uid={}, st_gid={}, \
             st_size={}, st_mtime={})",
            self.kind(),
            self.st_mode(),
            self.0.file.0,
            self.0.links,
            self.0.uid,
            self.0.gid,
            self.0.bytes.0,
            self.st_mtime(),
        )
    }
}

/// The bits of `st_mode` for the file type.
fn kind_bits(kind: FileKind) -> u32 {
    match kind {
        FileKind::Fifo => 0o010_000,
        FileKind::CharDevice => 0o020_000,
        FileKind::Directory => 0o040_000,
        FileKind::BlockDevice => 0o060_000,
        FileKind::File => 0o100_000,
        FileKind::Symlink => 0o120_000,
        FileKind::Socket => 0o140_000,
        _ => 0,
    }
}

pub(crate) fn kind_name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "link",
        _ => "other",
    }
}

fn seconds(time: Timestamp) -> f64 {
    time.seconds as f64 + f64::from(time.nanos) / NANOS_PER_SECOND as f64
}

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds) * NANOS_PER_SECOND + i128::from(time.nanos)
}
