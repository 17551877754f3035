//! What changes by this mount do to the name cache.
//!
//! A change by another client recalls the lease. A change by this mount recalls nothing from it, so
//! the cache must follow it: what the change made stale is removed, and what its reply brings is
//! cached.

use std::sync::Arc;

use braid_client::{Attributes, FileIndex, FileKind};

use super::{
    change_marks::ChangeMark,
    name_cache::{CachedNames, NameCache},
    names_lease::NamesLease,
};
use crate::{mutex::lock, vfs::BeforeChange};

impl NameCache {
    /// This mount has changed these files. What is cached of them is removed, and replies to
    /// earlier questions are not cached.
    pub(crate) fn invalidate(&self, files: &[FileIndex]) {
        let mut cached = lock(&self.0);
        files.iter().for_each(|file| cached.change(*file));
    }

    /// This mount may have changed what a name leads to. What was given out of it is still
    /// invalidated at a recall.
    pub(crate) fn invalidate_name(&self, directory: FileIndex, name: &[u8]) {
        let mut cached = lock(&self.0);
        cached.change(directory);
        if let Some((file, _)) = cached.forget_name(directory, name) {
            cached.change(file);
            cached.forget_file(directory, file);
        }
    }

    /// This mount has removed a name. `after`: the directory's attributes after that, if the reply
    /// had them. The kernel, which sent the call, drops the removed file's attributes by itself.
    pub(crate) fn remove_name(
        &self,
        (directory, name): (FileIndex, &[u8]),
        BeforeChange { lease, mark, .. }: &BeforeChange<'_>,
        after: Option<Attributes>,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) {
        let mut cached = lock(&self.0);
        if let Some((file, _)) = cached.forget_name(directory, name) {
            cached.forget_removed(directory, file);
        }
        let lease = lease.as_ref().filter(|lease| is_valid(lease));
        cached.change_entries(directory, lease, *mark, after);
    }

    /// This mount has changed the entries of a directory. `after`: its attributes after that, if
    /// the reply had them.
    pub(crate) fn note_entry_change(
        &self,
        directory: FileIndex,
        lease: &Arc<NamesLease>,
        mark: ChangeMark,
        after: Option<Attributes>,
        is_valid: impl Fn(&NamesLease) -> bool,
    ) {
        let lease = Some(lease).filter(|lease| is_valid(lease));
        lock(&self.0).change_entries(directory, lease, mark, after);
    }

    /// This mount has moved a name, or exchanged two. `leases`: those of both directories, if they
    /// were held since before the call. Returns files whose attributes must be dropped where they
    /// were given out: they are now in a directory without a lease.
    pub(crate) fn rename(
        &self,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        exchanges: bool,
        leases: &[Option<Arc<NamesLease>>; 2],
    ) -> Vec<FileIndex> {
        let mut cached = lock(&self.0);
        [from.0, to.0].into_iter().for_each(|directory| cached.change(directory));
        let moved = cached.forget_name(from.0, from.1);
        let replaced = cached.forget_name(to.0, to.1);
        if let Some((file, _)) = replaced.filter(|_| !exchanges) {
            cached.forget_removed(to.0, file);
        }
        let mut dropped = Vec::new();
        let mut moves = vec![(moved, from.0, to, &leases[1])];
        moves.push((replaced.filter(|_| exchanges), to.0, from, &leases[0]));
        for (target, before, (directory, name), lease) in moves {
            let Some((file, kind)) = target else { continue };
            cached.change(file);
            let still_valid = lease
                .as_ref()
                .is_some_and(|lease| cached.set_name(lease, name, Some((file, kind))));
            let leaves = before != directory && kind != FileKind::Directory;
            if leaves || !still_valid {
                cached.forget_file(before, file);
            }
            if leaves {
                cached.forget_given_out(before, file);
                match cached.directories.get_mut(&directory).filter(|_| still_valid) {
                    Some(found) => {
                        found.given_out.insert(file);
                        cached.parents.insert(file, directory);
                    }
                    None => dropped.push(file),
                }
            }
        }
        dropped
    }
}

impl CachedNames {
    pub(super) fn change(&mut self, file: FileIndex) {
        self.count_change(file);
        if let Some(own) = self.directories.get_mut(&file) {
            (own.own, own.own_unknown_since) = (None, self.marks.now());
        }
        self.forget_attributes(file);
    }

    /// Removes the cached attributes of a file that is not a directory.
    pub(super) fn forget_attributes(&mut self, file: FileIndex) {
        if let Some(above) =
            self.parents.get(&file).and_then(|above| self.directories.get_mut(above))
        {
            above.files.remove(&file);
        }
    }

    fn count_change(&mut self, file: FileIndex) {
        self.marks.add(file);
        if let Some(found) = self.directories.get_mut(&file) {
            self.listed -= std::mem::take(&mut found.listing).len();
        }
    }

    /// Entries were changed. Of the attributes that several replies bring, those with the higher
    /// change counter are newer.
    fn change_entries(
        &mut self,
        directory: FileIndex,
        lease: Option<&Arc<NamesLease>>,
        mark: ChangeMark,
        after: Option<Attributes>,
    ) {
        let after = after.filter(|after| after.file == directory && !after.uncacheable);
        let is_known =
            lease.zip(after).is_some_and(|(lease, after)| self.set_after(lease, mark, after));
        match is_known {
            true => self.count_change(directory),
            false => self.change(directory),
        }
    }

    /// Sets the attributes of a directory after a change of its entries. Whether they are known
    /// now.
    fn set_after(&mut self, lease: &Arc<NamesLease>, mark: ChangeMark, after: Attributes) -> bool {
        if self.pending.is_changing_attributes(after.file) {
            return false;
        }
        let Some(found) = self.under(lease) else { return false };
        if found.own.as_ref().is_some_and(|own| own.change >= after.change) {
            return true;
        }
        let fresh = found.own_unknown_since <= mark;
        if fresh {
            found.own = Some(after);
        }
        fresh
    }

    /// A name of this file was removed from a directory, or given to another file.
    fn forget_removed(&mut self, directory: FileIndex, file: FileIndex) {
        self.change(file);
        self.forget_file(directory, file);
        self.forget_given_out(directory, file);
    }
}
