//! The tree that the union shows, directory by directory.

use std::collections::{BTreeMap, HashSet};

use braid_types::FileIndex;
use braid_union::{
    RESERVED_PREFIX,
    on_branch::{is_directory, join, stat_at},
};
use rustix::fs::{Dir, Statx};
use rustix::io::Errno;

use crate::{Disk, Left};

/// What `mkfs` makes.
const LOST_AND_FOUND: &[u8] = b"lost+found";

/// A directory of the union.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// From the root, without a slash at its ends.
    pub(crate) path: Vec<u8>,
    /// In the cluster.
    pub(crate) file: FileIndex,
    /// The disks that have it, in the order of the pool.
    pub(crate) on: Vec<usize>,
}

/// A name that the union shows.
pub(crate) struct Shown {
    pub(crate) name: Vec<u8>,
    /// The disk that shows it.
    pub(crate) disk: usize,
    pub(crate) stat: Statx,
    /// For a directory: the disks that have it.
    pub(crate) on: Vec<usize>,
}

/// The names of a directory.
#[derive(Default)]
pub(crate) struct Listing {
    pub(crate) shown: Vec<Shown>,
    /// Hidden names, and what could not be read.
    pub(crate) left: Vec<Left>,
}

pub(crate) fn list(disks: &[Disk], directory: &Directory) -> Listing {
    let mut listing = Listing::default();
    let mut names = BTreeMap::<Vec<u8>, Shown>::new();
    for disk in &directory.on {
        if let Err(error) = read(disks, *disk, directory, &mut names, &mut listing.left) {
            listing.left.push(Left::new(&disks[*disk], &directory.path, error));
        }
    }
    listing.shown = names.into_values().collect();
    listing
}

fn read(
    disks: &[Disk],
    disk: usize,
    directory: &Directory,
    names: &mut BTreeMap<Vec<u8>, Shown>,
    left: &mut Vec<Left>,
) -> Result<(), Errno> {
    let fd = disks[disk].directory(&directory.path)?;
    for entry in Dir::read_from(&fd)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        let path = join(&directory.path, name);
        if is_skipped(&disks[disk], directory, name) {
            continue;
        }
        let stat = match stat_at(&fd, name) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => continue,
            Err(error) => {
                left.push(Left::new(&disks[disk], &path, error));
                continue;
            }
        };
        match names.get_mut(name) {
            None => {
                let shown = Shown { name: name.to_vec(), disk, stat, on: vec![disk] };
                names.insert(name.to_vec(), shown);
            }
            Some(first) if is_directory(&first.stat) && is_directory(&stat) => first.on.push(disk),
            Some(first) => {
                let by = disks[first.disk].path.display();
                left.push(Left::new(&disks[disk], &path, format!("{by} has a file of this name")));
            }
        }
    }
    Ok(())
}

/// Names that do not belong to the tree.
fn is_skipped(disk: &Disk, directory: &Directory, name: &[u8]) -> bool {
    let is_root = directory.path.is_empty();
    matches!(name, b"." | b"..")
        || is_root && name.starts_with(RESERVED_PREFIX)
        || is_root && name == LOST_AND_FOUND && is_empty(disk, name)
}

fn is_empty(disk: &Disk, path: &[u8]) -> bool {
    let read = || -> Result<bool, Errno> {
        let mut names = Dir::new(disk.directory(path)?)?;
        Ok(names
            .all(|name| name.is_ok_and(|name| matches!(name.file_name().to_bytes(), b"." | b".."))))
    };
    read().unwrap_or(false)
}

/// Calls `each` for each name of the tree that is not a directory. `found` has the disk and inode
/// of each directory that was visited.
pub(crate) fn walk(disks: &[Disk], each: &mut dyn FnMut(usize, &[u8], &Statx)) {
    let on = (0..disks.len()).collect();
    let mut left = vec![Directory { path: Vec::new(), file: FileIndex(0), on }];
    let mut found = HashSet::new();
    while let Some(directory) = left.pop() {
        for Shown { name, disk, stat, on } in list(disks, &directory).shown {
            let path = join(&directory.path, &name);
            match is_directory(&stat) {
                true if disks[disk].is_here(&stat) && found.insert((disk, stat.stx_ino)) => {
                    left.push(Directory { path, file: FileIndex(0), on });
                }
                true => {}
                false => each(disk, &path, &stat),
            }
        }
    }
}
