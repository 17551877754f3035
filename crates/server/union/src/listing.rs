//! Listings of directories, merged from their copies.

use std::{
    collections::{HashMap, hash_map},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use crate::{
    ListingId, NodeId, Result, Union,
    failed_disks::is_disk_error,
    node::{Copy, Node},
    remove::RESERVED_PREFIX,
};

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
    pub entries: Arc<Vec<DirectoryEntry>>,
    /// Those of the reading that gave the entries. `None`: if the directory changes, that may not
    /// be noticed, so the next listing reads it again.
    pub id: Option<ListingId>,
    /// When the first branch was read, or was found not to have changed.
    read: Instant,
    /// `DirectoryNames::added` then.
    pub(crate) added: u64,
    /// A disk has failed, and which names it has is not known: to be given to the reader after the
    /// names, so that it does not take the others for removed.
    pub failed: Option<Errno>,
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

/// What the branches have.
#[derive(Default)]
struct Names {
    entries: Vec<DirectoryEntry>,
    /// A branch could not be read.
    from_saved: bool,
    failed: Option<Errno>,
}

impl Names {
    fn push(&mut self, entry: DirectoryEntry) -> Result<()> {
        if self.entries.len() >= ENTRIES_MAX {
            return Err(Errno::NOMEM);
        }
        self.entries.push(entry);
        Ok(())
    }
}

/// Where in the listing each name is, as it comes once.
struct Merged {
    seen: HashMap<Box<[u8]>, usize>,
    /// With one copy no name comes twice.
    is_needed: bool,
}

impl Merged {
    /// Whether the name comes for the first time; it is pushed next.
    fn is_new(&mut self, name: &[u8], branch: usize, listing: &mut Names) -> bool {
        if !self.is_needed {
            return true;
        }
        match self.seen.entry(name.into()) {
            hash_map::Entry::Occupied(at) => {
                listing.entries[*at.get()].branches |= 1 << branch;
                false
            }
            hash_map::Entry::Vacant(new) => {
                new.insert(listing.entries.len());
                true
            }
        }
    }

    /// Names may come twice from now on.
    fn needed(&mut self, listing: &Names) {
        if !self.is_needed {
            let names = listing.entries.iter().enumerate();
            self.seen = names.map(|(at, entry)| (entry.name.clone(), at)).collect();
            self.is_needed = true;
        }
    }
}

impl Union {
    /// Lists a directory, without `.` and `..`. Of a disk that has failed, the saved names.
    ///
    /// # Errors
    /// Those of getdents(2); `ENOMEM`: it has too many names.
    pub fn list(&self, id: NodeId) -> Result<DirectoryListing> {
        let node = self.nodes.get(id)?;
        let (added, read, begun) = (node.names.added(), Instant::now(), SystemTime::now());
        let changed = self.is_noticed(&node).then(|| node.names.changed());
        let kept = changed.and_then(|_| node.kept_counted_listing());
        let copies = node.copies();
        let stamps = if kept.is_some() { None } else { self.stamps(&node, &copies) };
        let kept = kept.or_else(|| node.kept_listing(stamps.as_deref()?));
        if let Some(kept) = kept {
            let (entries, id) = (Arc::clone(&kept.entries), Some(kept.id));
            return Ok(DirectoryListing { entries, id, read, added, failed: None });
        }
        self.listings_read.fetch_add(1, Ordering::Relaxed);
        let Names { entries, from_saved, failed } = self.read_names(&node, &copies)?;
        let entries = Arc::new(entries);
        let id = match from_saved {
            true => None,
            false => self.keep_listing(&node, stamps, changed, &entries, begun),
        };
        Ok(DirectoryListing { entries, id, read, added, failed })
    }

    fn read_names(&self, node: &Node, copies: &[Copy]) -> Result<Names> {
        let mut listing = Names::default();
        let mut merged = Merged { seen: HashMap::new(), is_needed: copies.len() > 1 };
        for copy in copies {
            let done = match self.branches[copy.branch].has_failed() {
                true => Err(Errno::IO),
                false => self.list_copy(node, copy.branch, &mut merged, &mut listing),
            };
            match done {
                // Somebody has removed this copy directly. The others are listed.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) if copies.len() > 1 => {}
                Err(error) if is_disk_error(error) => {
                    self.branches[copy.branch].note_error(error);
                    self.list_saved(*copy, error, &mut merged, &mut listing)?;
                }
                done => done?,
            }
        }
        Ok(listing)
    }

    fn list_copy(
        &self,
        node: &Node,
        branch: usize,
        merged: &mut Merged,
        listing: &mut Names,
    ) -> Result<()> {
        let mut directory = self.reader(node, branch)?;
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            let hidden = name == b"."
                || name == b".."
                || node.id == NodeId::ROOT && name.starts_with(RESERVED_PREFIX);
            if !hidden && merged.is_new(name, branch, listing) {
                listing.push(self.entry(branch, name, entry.ino(), kind(entry.file_type())))?;
            }
        }
        Ok(())
    }

    /// The saved names of a branch that gave an error, possibly in the middle of its names.
    fn list_saved(
        &self,
        copy: Copy,
        error: Errno,
        merged: &mut Merged,
        listing: &mut Names,
    ) -> Result<()> {
        let branch = &self.branches[copy.branch];
        listing.from_saved = true;
        let names = if branch.has_failed() { branch.saved.loaded() } else { None };
        merged.needed(listing);
        for (name, file) in names.iter().flat_map(|names| names.list(copy.into())) {
            if merged.is_new(name, copy.branch, listing) {
                listing.push(self.entry(copy.branch, name, file.inode.number, file.kind))?;
            }
        }
        if !names.is_some_and(|names| names.is_complete()) {
            listing.failed = Some(error);
        }
        Ok(())
    }

    fn entry(&self, branch: usize, name: &[u8], inode: u64, kind: u8) -> DirectoryEntry {
        DirectoryEntry {
            name: name.into(),
            branch: self.branches[branch].number,
            inode,
            index: self.index_of(branch, inode),
            kind,
            branches: 1 << branch,
        }
    }

    /// How many times a directory's names were read since the union was opened.
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

pub(crate) fn kind(kind: FileType) -> u8 {
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
