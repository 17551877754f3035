//! Names: from a name in a directory to a node.

use std::{sync::atomic::Ordering, time::Instant};

use rustix::fs::Statx;
use rustix::io::Errno;

use crate::{
    Attributes, DirectoryEntry, DirectoryListing, NodeId, Result, Union,
    attributes::{S_IFDIR, S_IFMT, copy_of, stat_at},
    failed_disks::is_disk_error,
    name_index::Candidates,
    node::{Copy, Name, Node},
    remove::RESERVED_PREFIX,
    saved_names::Saved,
};

/// Linux's limit for a name.
const NAME_MAX: usize = 255;

/// A file that was found or created. It counts as one lookup: see [`Union::forget`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The node.
    pub node: NodeId,
    /// Its attributes.
    pub attributes: Attributes,
}

/// A name on the branches, in their order.
#[derive(Debug, Default)]
pub(crate) struct OnBranches {
    /// A directory: all branches that have one. Otherwise: all that have a file; the first is
    /// shown.
    pub(crate) stats: Vec<(usize, Statx)>,
    /// Copies of the directory on disks that have failed.
    pub(crate) missing: Vec<Copy>,
    /// What is hidden because it is of the other kind: files beside a directory, or directories
    /// beside a file. Of a lookup that wants all.
    pub(crate) other: Vec<(usize, Statx)>,
}

impl OnBranches {
    pub(crate) fn is_directory(&self) -> bool {
        self.stats.first().is_some_and(|(_, stat)| is_directory(stat))
    }

    pub(crate) fn on(&self, branch: usize) -> Option<&Statx> {
        self.stats.iter().find(|(at, _)| *at == branch).map(|(_, stat)| stat)
    }

    /// Whatever the branches have, in their order.
    pub(crate) fn all(&self) -> Vec<(usize, Statx)> {
        let mut all = [&self.stats[..], &self.other].concat();
        all.sort_by_key(|(branch, _)| *branch);
        all
    }

    pub(crate) fn copies(&self) -> Vec<Copy> {
        self.stats.iter().map(|(branch, stat)| copy_of(*branch, stat)).collect()
    }

    /// What is to be renamed or removed must be there as a whole: the rest would come back with its
    /// disk.
    ///
    /// # Errors
    /// `EIO`: a copy is on a disk that has failed.
    pub(crate) fn check_whole(&self) -> Result<()> {
        if self.missing.is_empty() { Ok(()) } else { Err(Errno::IO) }
    }
}

/// Which of the branches that have a name are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    /// All.
    All,
    /// Those that are shown: of a file that is not a directory only the first.
    Shown,
}

/// Names that a file without links keeps: one of them may be that of a link which another thread
/// is making.
const OLD_NAMES_MAX: usize = 8;
/// All branches.
const ALL: u64 = u64::MAX;
const _: () = assert!(crate::pool::BRANCHES_MAX <= u64::BITS as usize);

/// Copies of a known directory that a lookup did not find.
#[derive(Debug, Default)]
struct MissedCopies {
    /// They are there nevertheless.
    found: Vec<Statx>,
    gone: Vec<Copy>,
}

/// Whether the file is a directory.
pub fn is_directory(stat: &Statx) -> bool {
    u32::from(stat.stx_mode) & S_IFMT == S_IFDIR
}

impl Union {
    /// Looks up a name.
    ///
    /// # Errors
    /// `ENOENT`: no branch has it. Those of statx(2) of a branch, if no other one has the name: a
    /// name on a disk that fails is not absent.
    pub fn look_up(&self, directory: NodeId, name: &[u8]) -> Result<Found> {
        let _shared = self.shared();
        let parent = self.nodes.get(directory)?;
        self.check_name(directory, name)?;
        let (added, asked) = (parent.names.added(), Instant::now());
        match self.search_shown(&parent, name) {
            Ok(found) => Ok(self.enter(directory, name, &found)),
            Err(error) => {
                if error == Errno::NOENT {
                    parent.names.note_absent(name, added, asked);
                    self.index_absent(&parent);
                }
                Err(error)
            }
        }
    }

    /// As [`Union::look_up`], of a name that was listed: asks only the branches that had it, if the
    /// listing is young.
    ///
    /// # Errors
    /// As for [`Union::look_up`].
    pub fn look_up_listed(
        &self,
        directory: NodeId,
        listing: &DirectoryListing,
        entry: &DirectoryEntry,
    ) -> Result<Found> {
        if let Some(found) = self.look_up_where_listed(directory, listing, entry)? {
            return Ok(found);
        }
        self.look_up(directory, &entry.name)
    }

    fn look_up_where_listed(
        &self,
        directory: NodeId,
        listing: &DirectoryListing,
        entry: &DirectoryEntry,
    ) -> Result<Option<Found>> {
        let _shared = self.shared();
        let parent = self.nodes.get(directory)?;
        if !listing.is_young() || listing.added != parent.names.added() {
            return Ok(None);
        }
        match self.search(&parent, &entry.name, Wanted::Shown, entry.branches) {
            Ok(found) => Ok(Some(self.enter(directory, &entry.name, &found))),
            Err(_) => Ok(None),
        }
    }

    /// A name that a program may use here.
    pub(crate) fn check_name(&self, directory: NodeId, name: &[u8]) -> Result<()> {
        if name.len() > NAME_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        if name.is_empty() || name == b"." || name == b".." || name.contains(&b'/') {
            return Err(Errno::INVAL);
        }
        if directory == NodeId::ROOT && name.starts_with(RESERVED_PREFIX) {
            return Err(Errno::NOENT);
        }
        Ok(())
    }

    /// Whether no branch has a name.
    pub(crate) fn is_absent(&self, parent: &Node, name: &[u8]) -> Result<bool> {
        match self.search_shown(parent, name) {
            Ok(_) => Ok(false),
            Err(Errno::NOENT) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// What is shown under a name. Asks only the branches that may have it.
    fn search_shown(&self, parent: &Node, name: &[u8]) -> Result<OnBranches> {
        let among = match self.candidates(parent, name) {
            Candidates::All => ALL,
            Candidates::NotCovered(branches) => branches,
            Candidates::Known(branches) => {
                match self.search(parent, name, Wanted::Shown, branches) {
                    // It was moved to another branch, or is gone.
                    Err(Errno::NOENT) => ALL,
                    done => return done,
                }
            }
        };
        self.search(parent, name, Wanted::Shown, among)
    }

    /// All that the branches have under a name.
    pub(crate) fn on_branches(&self, parent: &Node, name: &[u8]) -> Result<OnBranches> {
        self.search(parent, name, Wanted::All, ALL)
    }

    /// How many times a branch was asked for a name since the union was opened.
    pub fn names_asked(&self) -> u64 {
        self.names_asked.load(Ordering::Relaxed)
    }

    /// `among`: a bit for each branch that is asked.
    fn search(&self, parent: &Node, name: &[u8], wanted: Wanted, among: u64) -> Result<OnBranches> {
        if !parent.is_directory {
            return Err(Errno::NOTDIR);
        }
        let mut found = OnBranches::default();
        let mut failed = Errno::NOENT;
        let mut unknown = Vec::new();
        for copy in parent.copies().iter().filter(|copy| among & 1 << copy.branch != 0) {
            let stat = match self.branches[copy.branch].has_failed() {
                true => Err(Errno::IO),
                false => {
                    self.names_asked.fetch_add(1, Ordering::Relaxed);
                    self.directory_fd(parent, copy.branch).and_then(|fd| stat_at(&*fd, name))
                }
            };
            match stat {
                // The directory that is shown is on a disk that has failed.
                Ok(stat) if !found.missing.is_empty() && !is_directory(&stat) => {
                    if found.stats.is_empty() {
                        return Err(Errno::IO);
                    }
                }
                Ok(stat) if found.stats.is_empty() => {
                    found.stats.push((copy.branch, stat));
                    if wanted == Wanted::Shown && !is_directory(&stat) {
                        break;
                    }
                }
                Ok(stat) if is_directory(&stat) == found.is_directory() => {
                    found.stats.push((copy.branch, stat));
                }
                Ok(stat) => found.other.push((copy.branch, stat)),
                Err(Errno::NOENT | Errno::NOTDIR | Errno::STALE) => {}
                Err(error) if is_disk_error(error) => {
                    self.branches[copy.branch].note_error(error);
                    if self.add_saved(*copy, name, &mut found)? == Saved::Unknown {
                        failed = error;
                        unknown.push(copy.branch);
                    }
                }
                Err(error) => failed = error,
            }
        }
        if found.is_directory() {
            unknown.retain(|branch| self.branches[*branch].has_failed());
            found.missing.extend(unknown.into_iter().map(Copy::unknown));
        }
        match (found.stats.is_empty(), found.missing.is_empty()) {
            (false, _) => Ok(found),
            (true, false) => Err(Errno::IO),
            (true, true) => Err(failed),
        }
    }

    /// Adds what is saved of a name on a branch that gave an error.
    ///
    /// # Errors
    /// `EIO`: the file that is shown is on that branch, or one that is hidden by it.
    fn add_saved(&self, copy: Copy, name: &[u8], found: &mut OnBranches) -> Result<Saved> {
        let saved = self.saved(copy, name);
        match saved {
            Saved::There(file) if file.is_directory() => {
                if found.stats.is_empty() || found.is_directory() {
                    found.missing.push(Copy::of(copy.branch, file.inode));
                }
                Ok(saved)
            }
            // Hidden by a directory.
            Saved::There(_) if found.is_directory() => Ok(saved),
            Saved::There(_) => Err(Errno::IO),
            Saved::Absent | Saved::Unknown => Ok(saved),
        }
    }

    /// Enters what was found in the table of nodes.
    pub(crate) fn enter(&self, directory: NodeId, name: &[u8], found: &OnBranches) -> Found {
        let is_directory = found.is_directory();
        let mut copies = found.copies();
        if is_directory {
            copies.extend(&found.missing);
            copies.sort_unstable_by_key(|copy| copy.branch);
        } else {
            copies.truncate(1);
        }
        let (branch, stat) = found.stats[0];
        let entered = Name { directory, name: name.into() };
        let known = copies.iter().find_map(|copy| self.nodes.of_inode(*copy));
        // Before the table is locked: the xattr of a directory is read through its parent's node.
        let index = match &known {
            Some(known) => known.index,
            None => self.index(branch, &stat, directory, name),
        };
        let before = known.as_ref().filter(|_| is_directory).map(|known| known.copies());
        let missed =
            known.filter(|_| is_directory).map(|known| self.missed(&known, &entered, &copies));
        let missed = missed.unwrap_or_default();
        let node = self.nodes.enter(is_directory, copies, &missed.gone, Some(entered), index);
        let stats = found.stats.iter().take(if is_directory { usize::MAX } else { 1 });
        node.set_elsewhere(!stats.clone().all(|(at, stat)| self.branches[*at].has_noticed(stat)));
        if is_directory {
            if before.is_some_and(|before| before != node.copies()) {
                self.notices.copies_changed(node.id);
            }
            self.drop_stale_fds(&node);
        } else if stat.stx_nlink == 1 {
            // Names of a file that was renamed directly on the branch.
            node.state().names.truncate(OLD_NAMES_MAX);
        }
        let mut attributes = Attributes::new(node.index, &stat);
        let others = found.stats.iter().skip(1).map(|(_, stat)| stat);
        for other in others.chain(&missed.found).filter(|_| is_directory) {
            attributes.merge(&Attributes::new(node.index, other));
        }
        self.add_object_blocks(&node, copy_of(branch, &stat), &mut attributes);
        Found { node: node.id, attributes }
    }

    /// Asks for the copies of a known directory that a lookup did not find. Another thread may have
    /// created them after the lookup asked the branch.
    fn missed(&self, known: &Node, name: &Name, found: &[Copy]) -> MissedCopies {
        let mut missed = MissedCopies::default();
        let is_found = |copy: &Copy| found.iter().any(|found| found.branch == copy.branch);
        for copy in known.copies().into_iter().filter(|copy| !is_found(copy)) {
            let parent = self.nodes.get(name.directory);
            let stat = parent
                .and_then(|parent| self.directory_fd(&parent, copy.branch))
                .and_then(|parent| stat_at(&*parent, &name.name));
            match stat {
                Ok(stat) if copy_of(copy.branch, &stat) == copy => missed.found.push(stat),
                // Nothing is known of it.
                Err(error) if is_disk_error(error) => {}
                _ => missed.gone.push(copy),
            }
        }
        missed
    }

    fn drop_stale_fds(&self, node: &Node) {
        let copies = node.copies();
        (0..self.branches.len())
            .filter(|branch| copies.iter().all(|copy| copy.branch != *branch))
            .for_each(|branch| self.fds.remove(node.id, branch));
    }

    /// `st_ino`: see [`Union::index_of`]. A directory that was created on a second branch keeps
    /// that of the first, in an xattr.
    fn index(&self, branch: usize, stat: &Statx, directory: NodeId, name: &[u8]) -> u64 {
        let stored =
            is_directory(stat).then(|| self.stored_index(branch, stat, directory, name)).flatten();
        stored.unwrap_or_else(|| self.index_of(branch, stat.stx_ino))
    }
}
