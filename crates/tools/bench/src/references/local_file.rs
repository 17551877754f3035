//! The local file system under the daemons: the same reads and writes without a network.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use anyhow::Result;

/// Bytes of one call.
const CALL_BYTES: usize = 1 << 20;

/// A file whose pages are in the page cache.
pub struct LocalFile {
    file: File,
    path: PathBuf,
    bytes: u64,
    buffer: Vec<u8>,
}

impl LocalFile {
    /// Writes a new file of `bytes` once, so that no later call is the first to touch a page.
    pub fn make(dir: &Path, name: &str, bytes: u64) -> Result<Self> {
        let path = dir.join(name);
        let file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path)?;
        let mut made = Self { file, path, bytes, buffer: vec![0x5a; CALL_BYTES] };
        made.write()?;
        Ok(made)
    }

    /// Reads the whole file.
    pub fn read(&mut self) -> Result<()> {
        for at in (0..self.bytes).step_by(CALL_BYTES) {
            self.file.read_exact_at(&mut self.buffer, at)?;
        }
        Ok(())
    }

    /// Overwrites the whole file.
    pub fn write(&mut self) -> Result<()> {
        for at in (0..self.bytes).step_by(CALL_BYTES) {
            self.file.write_all_at(&self.buffer, at)?;
        }
        Ok(())
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        // The directory is removed completely at the end; this frees space earlier.
        let _ = std::fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_local_file_is_as_long_as_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let mut file = LocalFile::make(dir.path(), "x", 3 << 20).unwrap();
        file.read().unwrap();
        assert_eq!(std::fs::metadata(dir.path().join("x")).unwrap().len(), 3 << 20);
    }
}
