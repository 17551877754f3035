//! Names and attributes that this mount caches under names leases. Repeated lookups of the kernel
//! are answered from here.
//!
//! Invariants:
//! 1. Everything cached of a directory is under one lease. Under another lease the directory begins
//!    empty. Files whose attributes were given out before are still invalidated at the next recall.
//! 2. The attributes of a file are stored beside a name of it, under the lease of its directory.
//!    Those of a directory are under its own lease.
//! 3. A reply is cached only if this mount has changed nothing of what it describes since before
//!    the question was sent: [`ChangeMark`].
//! 4. At most [`FILES_MAX`] names are cached, and an eighth more while directories are evicted
//!    (I9).
//! 5. A directory is *complete* when as many names are cached as its attributes count. Then a name
//!    that is not cached does not exist, and no server is asked. While this mount removes one of
//!    its names the directory is not complete: the server may have removed the name already.
//! 6. A listing is served from the cache, and added to it, only while this mount changes no entry
//!    of the directory: another client may have seen the change already.
//! 7. For the same reason no name is reported absent while this mount makes something under it.
//! 8. For the same reason no attributes of a file are cached while this mount changes some of them.
//!    A write that nobody else sees yet is no such change: `MountCaches::begin_write_change`.
//!
//! Assertions check 4. `under` compares the lease of every addition (1, 2), each `cache_…` compares
//! the mark (3), `look_up` checks 5 and 7, as the listing does 6, and `set_attributes`, `set_own`
//! and `set_after` check 8. What the server knows at that moment cannot be seen here.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex},
    time::Instant,
};

use braid_client::{Attributes, FileIndex, FileKind};

use super::{
    cached_attributes::{CachedAttributes, CachingLeases, LookupResult},
    cached_directory::{CachedDirectory, Target},
    change_marks::{ChangeMark, ChangeMarks},
    eviction_queue::{Arrival, EvictionQueue},
    names_lease::NamesLease,
    pending_changes::PendingChanges,
    recall_history::RecallHistory,
    uncertain_dirs::UncertainDirs,
};
use crate::mutex::lock;

/// Names that are cached at most: about 100 MB. Beyond that the oldest directories are evicted.
pub(super) const FILES_MAX: usize = 262_144;

#[derive(Debug, Default)]
pub(crate) struct NameCache(pub(super) Mutex<CachedNames>);

/// What the cache holds.
#[derive(Debug, Default)]
pub(super) struct CachedNames {
    pub(super) directories: HashMap<FileIndex, CachedDirectory>,
    /// The same directories, in order of arrival.
    eviction: EvictionQueue,
    /// The directory in which a file has its only name. Not for directories.
    pub(super) parents: HashMap<FileIndex, FileIndex>,
    /// Names in all directories.
    pub(super) names: usize,
    recalls: RecallHistory,
    pub(super) pending: PendingChanges,
    /// Entries of listings, of all directories together.
    pub(super) listed: usize,
    /// Renames from one directory to another by this mount. Each may have moved a directory.
    pub(super) moves: u64,
    pub(super) marks: ChangeMarks,
    /// When attributes of files were last given out.
    given_out: ChangeMarks,
    /// Nothing of these directories is cached.
    uncertain: UncertainDirs,
    /// The same, until their leases are given back.
    pub(super) returning: HashSet<FileIndex>,
}

impl NameCache {
    /// The position in this mount's changes, to be taken before a question is sent.
    pub(crate) fn mark(&self) -> ChangeMark {
        lock(&self.0).marks.now()
    }

    /// The lease that a directory is cached under. It may have ended.
    pub(crate) fn lease_of(&self, directory: FileIndex) -> Option<Arc<NamesLease>> {
        lock(&self.0).directories.get(&directory).map(|found| Arc::clone(&found.lease))
    }

    /// Begins to cache a directory, unless another thread began under a lease that is valid.
    /// Returns the lease that the directory is cached under now. `None`: nothing of the directory
    /// is cached, because its lease is being given back.
    pub(crate) fn begin_directory(
        &self,
        directory: FileIndex,
        lease: Arc<NamesLease>,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> Option<Arc<NamesLease>> {
        let mut cached = lock(&self.0);
        if cached.returning.contains(&directory) {
            return None;
        }
        let given_out = match cached.directories.get(&directory) {
            Some(found) if is_valid(&found.lease) => return Some(Arc::clone(&found.lease)),
            Some(_) => cached.take(directory),
            None => HashSet::new(),
        };
        let arrival = cached.eviction.add(directory);
        let fresh = CachedDirectory::new(Arc::clone(&lease), arrival, given_out);
        cached.directories.insert(directory, fresh);
        Some(lease)
    }

    /// Whether the lease of a directory is to be asked for now.
    pub(crate) fn should_ask_for_lease(&self, directory: FileIndex) -> bool {
        lock(&self.0).recalls.count_lookup(directory)
    }

    /// Notes a recall of a directory's lease.
    pub(crate) fn note_recall(&self, directory: FileIndex) {
        lock(&self.0).recalls.add(directory);
    }

    /// Removes a directory and returns the files whose attributes were given out of it. A directory
    /// that was begun again under a valid lease stays.
    pub(crate) fn take_directory(
        &self,
        directory: FileIndex,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> Vec<FileIndex> {
        let mut cached = lock(&self.0);
        match cached.directories.get(&directory) {
            Some(found) if is_valid(&found.lease) => found.given_out.iter().copied().collect(),
            Some(_) => cached.take(directory).into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// All cached directories.
    pub(crate) fn directories(&self) -> Vec<FileIndex> {
        lock(&self.0).directories.keys().copied().collect()
    }

    /// Directories to evict where there are too many names: the oldest, with an eighth of all
    /// names. `wanted` is not among them.
    pub(crate) fn directories_to_evict(
        &self,
        wanted: FileIndex,
    ) -> Vec<(FileIndex, Arc<NamesLease>)> {
        let cached = lock(&self.0);
        if cached.names <= FILES_MAX {
            return Vec::new();
        }
        let mut freed = 0;
        let oldest = cached.eviction.iter().filter(|(directory, _)| *directory != wanted);
        let oldest = oldest.filter_map(|(directory, arrival)| {
            cached.arrived(directory, arrival).map(|found| (directory, found))
        });
        oldest
            .take_while(|(_, found)| {
                let continues = freed < FILES_MAX / 8;
                freed += found.names.len() + 1;
                continues
            })
            .map(|(directory, found)| (directory, Arc::clone(&found.lease)))
            .collect()
    }

    /// What a name leads to. `None`: the server must be asked.
    pub(crate) fn look_up(
        &self,
        directory: FileIndex,
        name: &[u8],
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> Option<LookupResult> {
        let cached = lock(&self.0);
        let found = cached.valid(directory, &is_valid)?;
        let lease = Some(Arc::clone(&found.lease));
        let target = match found.names.get(name) {
            Some(target) => *target,
            None if cached.is_complete(directory, found) => None,
            None => return None,
        };
        match target {
            None if cached.pending.is_making(directory, name) => None,
            None => Some(LookupResult::Absent(CachingLeases { name: lease, attributes: None })),
            Some((file, FileKind::Directory)) => {
                let below = cached.valid(file, &is_valid)?;
                let leases =
                    CachingLeases { name: lease, attributes: Some(Arc::clone(&below.lease)) };
                Some(LookupResult::Found(CachedAttributes {
                    attributes: below.own.clone()?,
                    leases,
                }))
            }
            Some((file, _)) => {
                let leases = CachingLeases { name: lease.clone(), attributes: lease };
                Some(LookupResult::Found(CachedAttributes {
                    attributes: found.files.get(&file)?.clone(),
                    leases,
                }))
            }
        }
    }

    /// What a name led to when this mount last learned or changed it, with or without a lease.
    /// `None`: not known. Other clients may have changed it since.
    pub(crate) fn last_known_target(
        &self,
        directory: FileIndex,
        name: &[u8],
    ) -> Option<Option<FileIndex>> {
        let cached = lock(&self.0);
        let target = cached.directories.get(&directory)?.names.get(name)?;
        Some(target.map(|(file, _)| file))
    }

    /// The attributes of a file. `None`: the server must be asked.
    pub(crate) fn attributes(
        &self,
        file: FileIndex,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> Option<CachedAttributes> {
        let cached = lock(&self.0);
        let (attributes, lease) = match cached.directories.get(&file) {
            Some(own) => (own.own.as_ref()?, &own.lease),
            None => {
                let above = cached.directories.get(cached.parents.get(&file)?)?;
                (above.files.get(&file)?, &above.lease)
            }
        };
        let leases = || CachingLeases { name: None, attributes: Some(Arc::clone(lease)) };
        is_valid(lease)
            .then(|| CachedAttributes { attributes: attributes.clone(), leases: leases() })
    }

    /// Whether this mount has changed nothing of a file since.
    pub(crate) fn is_unchanged(&self, file: FileIndex, mark: ChangeMark) -> bool {
        lock(&self.0).marks.is_unchanged(file, mark)
    }

    /// Caches what a name leads to and nothing else of it. `None`: nothing. Whether it was cached.
    pub(crate) fn cache_name(
        &self,
        lease: &Arc<NamesLease>,
        mark: ChangeMark,
        name: &[u8],
        target: Target,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> bool {
        let mut cached = lock(&self.0);
        let fresh = is_valid(lease) && cached.marks.is_unchanged(lease.directory(), mark);
        fresh && cached.set_name(lease, name, target)
    }

    /// Caches what a name leads to, and its attributes unless it is a directory. Returns the leases
    /// of what was cached.
    pub(crate) fn cache_found(
        &self,
        lease: &Arc<NamesLease>,
        mark: ChangeMark,
        name: &[u8],
        found: &Attributes,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> CachingLeases {
        let mut cached = lock(&self.0);
        let fresh = is_valid(lease) && cached.marks.is_unchanged(lease.directory(), mark);
        if !fresh || !cached.set_name(lease, name, Some((found.file, found.kind))) {
            return CachingLeases::default();
        }
        let are_cached =
            cached.marks.is_unchanged(found.file, mark) && cached.set_attributes(lease, found);
        CachingLeases {
            name: Some(Arc::clone(lease)),
            attributes: are_cached.then(|| Arc::clone(lease)),
        }
    }

    /// Caches the attributes of a file whose name is cached, or of the lease's own directory.
    pub(crate) fn cache_attributes(
        &self,
        lease: &Arc<NamesLease>,
        mark: ChangeMark,
        found: &Attributes,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> CachingLeases {
        let mut cached = lock(&self.0);
        let fresh = is_valid(lease) && cached.marks.is_unchanged(found.file, mark);
        let named = cached.parents.get(&found.file) == Some(&lease.directory());
        let are_cached = fresh
            && match found.file == lease.directory() {
                true => cached.set_own(lease, found),
                false => named && cached.set_attributes(lease, found),
            };
        CachingLeases { name: None, attributes: are_cached.then(|| Arc::clone(lease)) }
    }

    /// Before the gateway drops attributes of a file. Returns the position now. `None`: none were
    /// given out after `since`. The cached ones are removed, so that each reply that gives
    /// attributes out again counts.
    pub(crate) fn take_given_out(&self, file: FileIndex, since: ChangeMark) -> Option<ChangeMark> {
        let mut cached = lock(&self.0);
        if cached.given_out.is_unchanged(file, since) {
            return None;
        }
        cached.forget_attributes(file);
        Some(cached.given_out.now())
    }

    /// A change of an entry of this directory was given up, and the server may still make it:
    /// nothing of the directory is cached for a while.
    pub(crate) fn mark_uncertain(&self, directory: FileIndex) {
        lock(&self.0).uncertain.add(directory, Instant::now());
    }

    /// Whether nothing of a directory is cached for a while.
    pub(crate) fn is_uncertain(&self, directory: FileIndex) -> bool {
        lock(&self.0).uncertain.contains(directory, Instant::now)
    }
}

impl CachedNames {
    /// A directory, if the lease that it is cached under is valid.
    pub(super) fn valid(
        &self,
        directory: FileIndex,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) -> Option<&CachedDirectory> {
        self.directories.get(&directory).filter(|found| is_valid(&found.lease))
    }

    /// Whether all names of a directory are cached (5).
    pub(super) fn is_complete(&self, directory: FileIndex, found: &CachedDirectory) -> bool {
        found.has_all_names() && !self.pending.is_removing(directory)
    }

    /// The directory that is cached under this lease, unless its state is uncertain.
    pub(super) fn under(&mut self, lease: &Arc<NamesLease>) -> Option<&mut CachedDirectory> {
        if self.uncertain.contains(lease.directory(), Instant::now) {
            return None;
        }
        self.directories
            .get_mut(&lease.directory())
            .filter(|found| Arc::ptr_eq(&found.lease, lease))
    }

    /// Sets what a name leads to; whether there was space for it (4) and its directory is cached.
    pub(super) fn set_name(
        &mut self,
        lease: &Arc<NamesLease>,
        name: &[u8],
        target: Target,
    ) -> bool {
        if self.names > FILES_MAX + FILES_MAX / 8 {
            return false;
        }
        let Some(found) = self.under(lease) else { return false };
        match found.set_name(name, target) {
            None => self.names += 1,
            Some(Some((file, _))) if target.is_none_or(|(now, _)| now != file) => {
                self.forget_file(lease.directory(), file)
            }
            Some(_) => {}
        }
        debug_assert!(self.names <= FILES_MAX + FILES_MAX / 8 + 1, "4: too many names are cached");
        true
    }

    /// Removes a name, and returns what it led to.
    pub(super) fn forget_name(&mut self, directory: FileIndex, name: &[u8]) -> Target {
        let target = self.directories.get_mut(&directory)?.remove_name(name)?;
        self.names -= 1;
        target
    }

    /// Removes the attributes of a file from a directory, and the directory as its parent.
    pub(super) fn forget_file(&mut self, directory: FileIndex, file: FileIndex) {
        if self.parents.get(&file) == Some(&directory) {
            self.parents.remove(&file);
        }
        if let Some(found) = self.directories.get_mut(&directory) {
            found.files.remove(&file);
        }
    }

    /// Nobody has attributes of this file any more that were given out of this directory.
    pub(super) fn forget_given_out(&mut self, directory: FileIndex, file: FileIndex) {
        if let Some(found) = self.directories.get_mut(&directory) {
            found.given_out.remove(&file);
        }
    }

    /// The directory that arrived then, unless it was evicted.
    fn arrived(&self, directory: FileIndex, arrival: Arrival) -> Option<&CachedDirectory> {
        self.directories.get(&directory).filter(|found| found.arrival == arrival)
    }

    fn set_attributes(&mut self, lease: &Arc<NamesLease>, found: &Attributes) -> bool {
        if found.kind == FileKind::Directory || !self.may_cache(found) {
            return false;
        }
        let Some(directory) = self.under(lease) else { return false };
        directory.given_out.insert(found.file);
        directory.files.insert(found.file, found.clone());
        self.parents.insert(found.file, lease.directory());
        self.given_out.add(found.file);
        true
    }

    fn set_own(&mut self, lease: &Arc<NamesLease>, found: &Attributes) -> bool {
        if !self.may_cache(found) {
            return false;
        }
        let Some(directory) = self.under(lease) else { return false };
        directory.own = Some(found.clone());
        true
    }

    fn may_cache(&self, found: &Attributes) -> bool {
        !found.uncacheable && !self.pending.is_changing_attributes(found.file)
    }

    /// Removes a directory, and returns the files whose attributes were given out of it.
    fn take(&mut self, directory: FileIndex) -> HashSet<FileIndex> {
        let Some(found) = self.directories.remove(&directory) else { return HashSet::new() };
        let left = &self.directories;
        self.eviction.remove_stale(left.len(), |one, arrival| {
            left.get(&one).is_some_and(|found| found.arrival == arrival)
        });
        self.names -= found.names.len();
        self.listed -= found.listing.len();
        debug_assert!(
            !self.directories.is_empty() || self.names == 0,
            "4: names are counted that no directory has"
        );
        for file in found.names.values().flatten().map(|(file, _)| file) {
            if self.parents.get(file) == Some(&directory) {
                self.parents.remove(file);
            }
        }
        found.given_out
    }
}

#[cfg(test)]
mod tests;
