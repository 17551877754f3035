//! File systems that are mounted below a branch: no event says that one hides a directory.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::ffi::OsStrExt,
    path::Path,
};

/// A table of mounts; poll(2) says when it changes.
const TABLE: &str = "/proc/self/mountinfo";

#[derive(Debug)]
pub(super) struct Mounts {
    pub(super) table: File,
    below: BTreeSet<Vec<u8>>,
}

impl Mounts {
    pub(super) fn open() -> std::io::Result<Self> {
        Ok(Self { table: File::open(TABLE)?, below: BTreeSet::new() })
    }

    /// Whether other file systems than before are mounted below the branches.
    pub(super) fn changed<'b>(&mut self, branches: impl Iterator<Item = &'b Path>) -> bool {
        let Ok(table) = fs::read(TABLE) else { return true };
        let branches: Vec<_> = branches.collect();
        let below = mounts_below(&table, &branches);
        let changed = below != self.below;
        self.below = below;
        changed
    }
}

/// The lines of the mount points below the branches.
fn mounts_below(table: &[u8], branches: &[&Path]) -> BTreeSet<Vec<u8>> {
    let is_below = |line: &&[u8]| {
        let Some(point) = line.split(|byte| *byte == b' ').nth(4).map(unescape) else {
            return false;
        };
        let point = Path::new(std::ffi::OsStr::from_bytes(&point));
        branches.iter().any(|branch| point.starts_with(branch) && point != *branch)
    };
    table.split(|byte| *byte == b'\n').filter(is_below).map(<[u8]>::to_vec).collect()
}

/// Spaces and the like are `\040`: three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut left = field;
    while let Some((first, rest)) = left.split_first() {
        let escaped = (*first == b'\\')
            .then(|| rest.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        left = if escaped.is_some() { &rest[3..] } else { rest };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_below_branches_are_found() {
        let table = br"24 1 8:1 / / rw - ext4 /dev/sda rw
25 24 8:2 / /mnt/disk\0401 rw - ext4 /dev/sdb rw
26 25 8:3 / /mnt/disk\0401/sub rw - ext4 /dev/sdc rw
27 24 8:4 / /mnt/disk2 rw - ext4 /dev/sdd rw
";
        let branches = [Path::new("/mnt/disk 1"), Path::new("/mnt/disk")];
        let below = mounts_below(table, &branches);
        assert_eq!(below.len(), 1, "{below:?}");
        assert!(below.first().unwrap().starts_with(b"26 "));
    }
}
