//! Listings of directories, merged from their copies.

use std::{collections::HashSet, os::fd::OwnedFd};

use rustix::fs::{Dir, FileType, Mode, OFlags};

use crate::{NodeId, Result, Union, remove::RESERVED_PREFIX};

/// Names in one listing at most: 2^24 of them take about 1 GiB here.
const ENTRIES_MAX: usize = 1 << 24;

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Box<[u8]>,
    /// `st_ino` for a file that is no directory; a directory's may differ from its attributes'.
    pub index: u64,
    /// `DT_*`: the kind bits of a mode, shifted down by 12.
    pub kind: u8,
}

/// The names of a directory at the time when it was opened.
#[derive(Debug, Default)]
pub struct DirectoryListing {
    /// Each name once.
    pub entries: Vec<DirectoryEntry>,
}

impl Union {
    /// Lists a directory, without `.` and `..`.
    ///
    /// # Errors
    /// Those of getdents(2); `ENOMEM`: it has too many names.
    pub fn list(&self, id: NodeId) -> Result<DirectoryListing> {
        let node = self.nodes.get(id)?;
        let copies = node.copies();
        let mut seen = HashSet::new();
        let mut listing = DirectoryListing::default();
        for copy in &copies {
            for entry in Dir::read_from(&self.to_read(id, copy.branch)?)? {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                let hidden = name == b"."
                    || name == b".."
                    || id == NodeId::ROOT && name.starts_with(RESERVED_PREFIX);
                // With one copy no name comes twice.
                if hidden || copies.len() > 1 && !seen.insert(Box::<[u8]>::from(name)) {
                    continue;
                }
                if listing.entries.len() >= ENTRIES_MAX {
                    return Err(rustix::io::Errno::NOMEM);
                }
                listing.entries.push(DirectoryEntry {
                    name: name.into(),
                    index: self.index_of(copy.branch, entry.ino()),
                    kind: kind(entry.file_type()),
                });
            }
        }
        Ok(listing)
    }

    /// A descriptor to read a directory's copy.
    pub(crate) fn to_read(&self, id: NodeId, branch: usize) -> Result<OwnedFd> {
        let node = self.nodes.get(id)?;
        let fd = self.directory_fd(&node, branch)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&*fd, c".", flags, Mode::empty())
    }

    /// Whether a directory's copy on a branch has no name.
    pub(crate) fn is_empty_on(&self, id: NodeId, branch: usize) -> Result<bool> {
        for entry in Dir::read_from(&self.to_read(id, branch)?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn kind(kind: FileType) -> u8 {
    match kind {
        FileType::Fifo => 1,
        FileType::CharacterDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::RegularFile => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
        FileType::Unknown => 0,
    }
}
