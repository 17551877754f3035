//! Files with several names. Such a file joins only if all its names do: a name that stays outside
//! would be a second way to its bytes, past the cluster.

use std::{collections::HashMap, fs::File};

use braid_union::on_branch::split;
use rustix::fs::{Mode, OFlags, Statx};

use crate::{Disk, seal, tree};

/// A file by its disk and inode.
type FileId = (usize, u64);

/// The files that have several names, and whether all of them join.
#[derive(Debug)]
pub(crate) struct LinkedFiles(HashMap<FileId, bool>);

/// Names of a file.
struct Names {
    /// That were found.
    found: u32,
    /// That join: those on the disk without the one among the objects.
    expected: u32,
}

impl LinkedFiles {
    /// Walks the whole tree.
    pub(crate) fn read(disks: &[Disk]) -> Self {
        let mut files = HashMap::<FileId, Names>::new();
        tree::walk(disks, &mut |disk, path, stat| {
            if stat.stx_nlink > 1 {
                let names = files.entry((disk, stat.stx_ino)).or_insert_with(|| {
                    let begun = u32::from(is_begun(&disks[disk], path));
                    Names { found: 0, expected: stat.stx_nlink.saturating_sub(begun) }
                });
                names.found += 1;
            }
        });
        let all_join = |names: Names| names.found == names.expected;
        Self(files.into_iter().map(|(file, names)| (file, all_join(names))).collect())
    }

    /// Whether all names of a file join. A file that got its second name after the walk does not.
    pub(crate) fn all_join(&self, disk: usize, stat: &Statx) -> bool {
        self.0.get(&(disk, stat.stx_ino)).copied().unwrap_or(false)
    }
}

/// Whether the file has a name among the objects already.
fn is_begun(disk: &Disk, path: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let (above, name) = split(path);
    let Ok(directory) = disk.directory(above) else { return false };
    let Ok(file) = rustix::fs::openat(directory, name, flags, Mode::empty()) else { return false };
    seal::object_of(disk, &File::from(file)).is_some()
}
