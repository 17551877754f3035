//! What owners have, and what was counted for each of their files.

use std::collections::{BTreeMap, HashMap, HashSet};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::limits::{QuotaLimits, QuotaOwner};
use crate::{Result, node::Copy};

/// What a file counts for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Counted {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) size: u64,
}

impl Counted {
    fn owners(&self) -> [QuotaOwner; 2] {
        [QuotaOwner::User(self.uid), QuotaOwner::Group(self.gid)]
    }
}

/// What an owner has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QuotaUsage {
    /// The lengths of all files together.
    pub bytes: u64,
    /// Files.
    pub inodes: u64,
}

/// An owner with a limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct QuotaRow {
    /// Whose files.
    pub owner: QuotaOwner,
    /// What it may have.
    pub limits: QuotaLimits,
    /// What it has; `None`: its files are being counted, and it may have more than the limits.
    pub usage: Option<QuotaUsage>,
}

#[derive(Debug)]
struct Limited {
    limits: QuotaLimits,
    usage: QuotaUsage,
    /// Whether all of its files were counted since it has a limit.
    complete: bool,
}

/// All owners with limits, and their files.
#[derive(Debug, Default)]
pub(super) struct Usage {
    owners: BTreeMap<QuotaOwner, Limited>,
    files: HashMap<Copy, Counted>,
    /// While all files are counted: what the count has seen or a call has named, and what is gone.
    count: Option<Count>,
}

#[derive(Debug, Default)]
struct Count {
    seen: HashSet<Copy>,
    gone: HashSet<Copy>,
}

impl Usage {
    pub(super) fn new(limits: BTreeMap<QuotaOwner, QuotaLimits>) -> Self {
        let mut usage = Self::default();
        limits.into_iter().for_each(|(owner, limits)| usage.set(owner, limits));
        usage
    }

    /// Gives an owner limits.
    pub(super) fn set(&mut self, owner: QuotaOwner, limits: QuotaLimits) {
        let complete = self.owners.get(&owner).is_some_and(|known| known.complete);
        // Files that are known for another owner may belong to this one too.
        let of_owner = self.files.values().filter(|file| file.owners().contains(&owner));
        let usage = of_owner.fold(QuotaUsage::default(), |sum, file| QuotaUsage {
            bytes: sum.bytes + file.size,
            inodes: sum.inodes + 1,
        });
        self.owners.insert(owner, Limited { limits, usage, complete });
    }

    /// Takes the limits of an owner away. Returns whether it had some.
    pub(super) fn remove(&mut self, owner: QuotaOwner) -> bool {
        let had = self.owners.remove(&owner).is_some();
        let owners = &self.owners;
        self.files.retain(|_, file| file.owners().iter().any(|owner| owners.contains_key(owner)));
        had
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    pub(super) fn limits(&self) -> BTreeMap<QuotaOwner, QuotaLimits> {
        self.owners.iter().map(|(owner, limited)| (*owner, limited.limits)).collect()
    }

    pub(super) fn rows(&self) -> Vec<QuotaRow> {
        let row = |(owner, limited): (&QuotaOwner, &Limited)| QuotaRow {
            owner: *owner,
            limits: limited.limits,
            usage: limited.complete.then_some(limited.usage),
        };
        self.owners.iter().map(row).collect()
    }

    /// Whether somebody waits for a count.
    pub(super) fn is_incomplete(&self) -> bool {
        self.owners.values().any(|limited| !limited.complete)
    }

    pub(super) fn is_limited(&self, uid: u32, gid: u32) -> bool {
        let owners = [QuotaOwner::User(uid), QuotaOwner::Group(gid)];
        owners.iter().any(|owner| self.owners.contains_key(owner))
    }

    /// # Errors
    /// `EDQUOT`: an owner has as many files as allowed.
    pub(super) fn check_new(&self, uid: u32, gid: u32) -> Result<()> {
        let full = |owner: QuotaOwner| {
            self.owners.get(&owner).is_some_and(|limited| {
                let limit = limited.limits.inodes.unwrap_or(u64::MAX);
                limited.complete && limited.usage.inodes >= limit
            })
        };
        let full = full(QuotaOwner::User(uid)) || full(QuotaOwner::Group(gid));
        if full { Err(Errno::DQUOT) } else { Ok(()) }
    }

    /// A file is like this now.
    pub(super) fn note(&mut self, copy: Copy, file: Counted) {
        if let Some(count) = &mut self.count {
            count.seen.insert(copy);
            count.gone.remove(&copy);
        }
        self.enter(copy, Some(file));
    }

    /// As [`Usage::note`], by the count, which may have looked at the file before it was removed.
    pub(super) fn note_counted(&mut self, copy: Copy, file: Counted) {
        let Some(count) = &mut self.count else { return };
        // A call has named it since: that is newer.
        if count.gone.contains(&copy) || !count.seen.insert(copy) {
            return;
        }
        self.enter(copy, Some(file));
    }

    /// A file is gone.
    pub(super) fn forget(&mut self, copy: Copy) {
        if let Some(count) = &mut self.count {
            count.gone.insert(copy);
        }
        self.enter(copy, None);
    }

    pub(super) fn moved(&mut self, old: Copy, new: Copy) {
        if let Some(file) = self.files.get(&old).copied() {
            self.forget(old);
            self.note(new, file);
        }
    }

    /// A file becomes like this, if its owners may have that.
    ///
    /// # Errors
    /// `EDQUOT`: one of them would have more bytes than allowed.
    pub(super) fn grow(&mut self, copy: Copy, file: Counted) -> Result<()> {
        let before = self.files.get(&copy).map_or(0, |known| known.size);
        let more = file.size.saturating_sub(before);
        let too_much = |owner: QuotaOwner| {
            self.owners.get(&owner).is_some_and(|limited| {
                let limit = limited.limits.bytes.unwrap_or(u64::MAX);
                limited.complete && limited.usage.bytes.saturating_add(more) > limit
            })
        };
        if more > 0 && file.owners().into_iter().any(too_much) {
            return Err(Errno::DQUOT);
        }
        self.note(copy, file);
        Ok(())
    }

    /// Replaces what was counted for a file.
    fn enter(&mut self, copy: Copy, file: Option<Counted>) {
        let limited = |file: &Counted| file.owners().iter().any(|o| self.owners.contains_key(o));
        let file = file.filter(limited);
        let before = match file {
            Some(file) => self.files.insert(copy, file),
            None => self.files.remove(&copy),
        };
        for owner in before.iter().flat_map(Counted::owners) {
            if let (Some(limited), Some(before)) = (self.owners.get_mut(&owner), before) {
                limited.usage.bytes -= before.size;
                limited.usage.inodes -= 1;
            }
        }
        for owner in file.iter().flat_map(Counted::owners) {
            if let (Some(limited), Some(file)) = (self.owners.get_mut(&owner), file) {
                limited.usage.bytes += file.size;
                limited.usage.inodes += 1;
            }
        }
    }

    /// All files are going to be counted.
    pub(super) fn begin_count(&mut self) {
        self.count = Some(Count::default());
    }

    /// All files were counted, or not: then what is known stays as it is.
    pub(super) fn end_count(&mut self, whole: bool) {
        let Some(count) = self.count.take() else { return };
        if !whole {
            return;
        }
        // Removed directly on a branch, without a call.
        let lost: Vec<Copy> =
            self.files.keys().filter(|copy| !count.seen.contains(copy)).copied().collect();
        lost.into_iter().for_each(|copy| self.enter(copy, None));
        self.owners.values_mut().for_each(|limited| limited.complete = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copy(inode: u64) -> Copy {
        Copy { branch: 0, inode, created: Default::default() }
    }

    fn file(size: u64) -> Counted {
        Counted { uid: 1, gid: 2, size }
    }

    fn limited(bytes: u64, inodes: u64) -> Usage {
        let limits = QuotaLimits { bytes: Some(bytes), inodes: Some(inodes) };
        let mut usage = Usage::new(BTreeMap::from([(QuotaOwner::User(1), limits)]));
        usage.begin_count();
        usage.end_count(true);
        usage
    }

    fn has(usage: &Usage) -> (u64, u64) {
        let usage = usage.rows()[0].usage.unwrap();
        (usage.bytes, usage.inodes)
    }

    #[test]
    fn a_file_counts_once_however_often_it_is_named() {
        let mut usage = limited(100, 2);
        for size in [10, 30, 20] {
            usage.note(copy(1), file(size));
        }
        assert_eq!(has(&usage), (20, 1));
        usage.note(copy(2), Counted { uid: 9, ..file(50) });
        assert_eq!(has(&usage), (20, 1), "of another user");
        usage.note(copy(2), file(50));
        assert_eq!((has(&usage), usage.check_new(1, 2)), ((70, 2), Err(Errno::DQUOT)));
        assert_eq!(usage.grow(copy(1), file(51)), Err(Errno::DQUOT));
        assert_eq!(usage.grow(copy(1), file(50)), Ok(()));
        usage.note(copy(2), Counted { uid: 9, ..file(50) });
        usage.forget(copy(1));
        assert_eq!((has(&usage), usage.check_new(1, 2)), ((0, 0), Ok(())));
    }

    #[test]
    fn what_calls_say_during_a_count_is_newer_than_the_count() {
        let mut usage = limited(100, 10);
        usage.note(copy(1), file(1));
        usage.note(copy(2), file(2));
        usage.note(copy(3), file(3));
        usage.begin_count();
        usage.note(copy(1), file(11));
        usage.forget(copy(2));
        usage.note(copy(4), file(4));
        for (inode, size) in [(1, 1), (2, 2), (5, 5)] {
            usage.note_counted(copy(inode), file(size));
        }
        usage.end_count(true);
        // 3 was removed directly, 5 was made directly.
        assert_eq!(has(&usage), (11 + 4 + 5, 3));
    }

    #[test]
    fn a_count_that_ends_early_changes_nothing() {
        let limits = QuotaLimits { bytes: Some(5), inodes: None };
        let mut usage = Usage::new(BTreeMap::from([(QuotaOwner::Group(2), limits)]));
        usage.begin_count();
        usage.note(copy(1), file(9));
        usage.end_count(false);
        assert_eq!(usage.rows()[0].usage, None);
        assert_eq!(usage.grow(copy(1), file(10)), Ok(()), "nobody is refused before the count");
        usage.begin_count();
        usage.note_counted(copy(1), file(10));
        usage.end_count(true);
        assert_eq!(usage.grow(copy(1), file(11)), Err(Errno::DQUOT));
        assert_eq!(usage.grow(copy(1), file(3)), Ok(()), "a shorter file is never refused");
    }

    #[test]
    fn a_second_owner_of_known_files_has_them_too() {
        let mut usage = limited(100, 10);
        usage.note(copy(1), file(7));
        usage.set(QuotaOwner::Group(2), QuotaLimits::default());
        usage.begin_count();
        usage.note_counted(copy(1), file(7));
        usage.end_count(true);
        assert_eq!(usage.rows()[1].usage, Some(QuotaUsage { bytes: 7, inodes: 1 }));
        assert!(usage.remove(QuotaOwner::User(1)) && !usage.remove(QuotaOwner::User(1)));
        assert_eq!(usage.rows()[0].usage, Some(QuotaUsage { bytes: 7, inodes: 1 }));
        usage.remove(QuotaOwner::Group(2));
        assert!(usage.is_empty() && usage.files.is_empty());
    }
}
