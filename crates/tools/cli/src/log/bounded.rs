//! A log with a size limit: a full log is renamed to the older one, and a new log starts.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Limit of the log; the older one has the same size.
const BYTES_MAX: u64 = 1 << 20;

/// The log. Several processes may write it: each line is one append to the file that has the name
/// at that time.
pub struct BoundedLog(PathBuf);

impl BoundedLog {
    /// Opens the log, and creates it if it does not exist.
    pub fn open(path: &Path) -> io::Result<Self> {
        append(path)?;
        Ok(Self(path.to_owned()))
    }
}

impl Write for BoundedLog {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let mut file = append(&self.0)?;
        let bytes = file.metadata()?.len();
        if bytes > 0 && bytes + text.len() as u64 > BYTES_MAX {
            fs::rename(&self.0, self.0.with_extension("old"))?;
            file = append(&self.0)?;
        }
        file.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_log_becomes_the_older_one_and_neither_grows_beyond_the_bound() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.log");
        let lines = BYTES_MAX / 1000 * 5 / 2;
        let mut mounts = [BoundedLog::open(&path).unwrap(), BoundedLog::open(&path).unwrap()];
        for line in 0..lines {
            writeln!(mounts[line as usize % 2], "{line:0>999}").unwrap();
        }
        let sizes =
            ["a.log", "a.old"].map(|name| fs::metadata(dir.path().join(name)).unwrap().len());
        assert!(sizes.iter().all(|size| (1..=BYTES_MAX).contains(size)), "{sizes:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.trim_end().ends_with(&format!("0{}", lines - 1)));
    }
}
