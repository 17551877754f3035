//! The kernel's table of mounts, since a call on a mount might hang.

use std::path::Path;

use anyhow::{Context, Result};

const TABLE: &str = "/proc/self/mounts";

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountEntry {
    /// What is mounted, such as a device.
    pub source: String,
    /// The type of the file system, such as `fuse.braid`.
    pub kind: String,
}

/// The newest mount on `point`.
///
/// # Errors
/// The table cannot be read.
pub fn mount_entry(point: &Path) -> Result<Option<MountEntry>> {
    let table = std::fs::read_to_string(TABLE).with_context(|| format!("reading {TABLE}"))?;
    Ok(entry_in(&table, point))
}

/// Whether a file system is mounted on `point`.
///
/// # Errors
/// The table cannot be read.
pub fn is_mounted(point: &Path) -> Result<bool> {
    Ok(mount_entry(point)?.is_some())
}

/// Lines `source point type options 0 0`.
fn entry_in(table: &str, point: &Path) -> Option<MountEntry> {
    let entry = |line: &str| {
        let mut fields = line.split(' ');
        let (source, at, kind) = (fields.next()?, fields.next()?, fields.next()?);
        let entry = || MountEntry { source: source.to_owned(), kind: kind.to_owned() };
        (Path::new(at) == point).then(entry)
    };
    table.lines().rev().find_map(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_mount_on_a_point_is_found() {
        let table = "/dev/a / ext4 rw 0 0\none /m fuse.x rw 0 0\ntwo /m fuse.braid rw 0 0\n";
        let entry = entry_in(table, Path::new("/m")).unwrap();
        assert_eq!((entry.source.as_str(), entry.kind.as_str()), ("two", "fuse.braid"));
        assert_eq!(entry_in(table, Path::new("/m/x")), None);
    }
}
