//! Listings of directories, merged from their copies.

use std::{
    collections::{HashMap, hash_map},
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use rustix::fs::{Dir, FileType, Mode, OFlags};

use crate::{NodeId, Result, Union, node::Node, remove::RESERVED_PREFIX};

/// Names in one listing at most: 2^24 of them take about 1 GiB here.
const ENTRIES_MAX: usize = 1 << 24;
/// For how long lookups use where a listing has seen a name.
const YOUNG: Duration = Duration::from_millis(500);

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Box<[u8]>,
    /// The branch that shows it: its number in the pool.
    pub branch: u8,
    /// The inode there.
    pub inode: u64,
    /// `st_ino` for a file that is no directory; a directory's may differ from its attributes'.
    pub index: u64,
    /// `DT_*`: the kind bits of a mode, shifted down by 12.
    pub kind: u8,
    /// A bit for each branch that has the name.
    pub branches: u64,
}

/// The names of a directory at the time when it was read.
#[derive(Debug)]
pub struct DirectoryListing {
    /// Each name once.
    pub entries: Vec<DirectoryEntry>,
    /// When the first branch was read.
    read: Instant,
    /// `DirectoryNames::added` then.
    pub(crate) added: u64,
}

impl DirectoryListing {
    /// For how long it has not seen changes on the branches.
    pub fn age(&self) -> Duration {
        self.read.elapsed()
    }

    pub(crate) fn is_young(&self) -> bool {
        self.age() < YOUNG
    }
}

impl Union {
    /// Lists a directory, without `.` and `..`.
    ///
    /// # Errors
    /// Those of getdents(2); `ENOMEM`: it has too many names.
    pub fn list(&self, id: NodeId) -> Result<DirectoryListing> {
        let node = self.nodes.get(id)?;
        self.listings_read.fetch_add(1, Ordering::Relaxed);
        let (added, read) = (node.names.added(), Instant::now());
        let mut listing = DirectoryListing { entries: Vec::new(), read, added };
        let copies = node.copies();
        let mut seen: HashMap<Box<[u8]>, usize> = HashMap::new();
        for copy in &copies {
            let mut directory = self.reader(&node, copy.branch)?;
            while let Some(entry) = directory.read() {
                let entry = entry?;
                let name = entry.file_name().to_bytes();
                let hidden = name == b"."
                    || name == b".."
                    || id == NodeId::ROOT && name.starts_with(RESERVED_PREFIX);
                if hidden {
                    continue;
                }
                // With one copy no name comes twice.
                if copies.len() > 1 {
                    match seen.entry(name.into()) {
                        hash_map::Entry::Occupied(at) => {
                            listing.entries[*at.get()].branches |= 1 << copy.branch;
                            continue;
                        }
                        hash_map::Entry::Vacant(new) => _ = new.insert(listing.entries.len()),
                    }
                }
                if listing.entries.len() >= ENTRIES_MAX {
                    return Err(rustix::io::Errno::NOMEM);
                }
                listing.entries.push(DirectoryEntry {
                    name: name.into(),
                    branch: self.branches[copy.branch].number,
                    inode: entry.ino(),
                    index: self.index_of(copy.branch, entry.ino()),
                    kind: kind(entry.file_type()),
                    branches: 1 << copy.branch,
                });
            }
        }
        Ok(listing)
    }

    /// How many times a directory was listed since the union was opened.
    pub fn listings_read(&self) -> u64 {
        self.listings_read.load(Ordering::Relaxed)
    }

    /// Reads the names of a directory's copy.
    pub(crate) fn reader(&self, node: &Node, branch: usize) -> Result<Dir> {
        let fd = self.directory_fd(node, branch)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Dir::new(rustix::fs::openat(&*fd, c".", flags, Mode::empty())?)
    }

    /// Whether a directory's copy on a branch has no name.
    pub(crate) fn is_empty_on(&self, id: NodeId, branch: usize) -> Result<bool> {
        let node = self.nodes.get(id)?;
        let mut directory = self.reader(&node, branch)?;
        while let Some(entry) = directory.read() {
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
